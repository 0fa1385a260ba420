"""Against a Discord that says no more than it must, nothing is missed and nothing breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contracts.adapter_scene import LONG_AGO, Ear, listening, part
from tests.simulators.plain_discord import (
    BOT,
    CHANNEL,
    DM,
    GUILD,
    PERSON,
    THREAD,
    TOKEN,
    PlainDiscord,
    plain_discord,
)
from tests.simulators.running import PATIENCE
from turngate.adapters.discord import plugin as discord
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.errors import GapRemains, Undeliverable
from turngate.gateway.domain.messages import (
    ChatType,
    MessageKind,
    SessionSource,
)

DIRECT = SessionSource(platform="discord", chat_id=DM, user_id=PERSON)
IN_CHANNEL = SessionSource(
    platform="discord", chat_type=ChatType.GROUP, chat_id=CHANNEL, user_id=PERSON, scope=GUILD
)
HISTORY = "/api/v10/channels/{channel}/messages"
IN_THREAD = SessionSource(
    platform="discord",
    chat_type=ChatType.THREAD,
    chat_id=CHANNEL,
    thread_id=THREAD,
    user_id=PERSON,
    scope=GUILD,
)


@pytest.fixture
async def plain() -> AsyncIterator[PlainDiscord]:
    """With all that it ever has."""
    async with plain_discord() as at_work:
        yield at_work


@asynccontextmanager
async def bot(
    plain: PlainDiscord, *places: SessionSource, **more: Any
) -> AsyncIterator[discord.DiscordAdapter]:
    """One that knows these places."""

    async def known() -> tuple[SessionSource, ...]:
        return places

    timeouts = discord.Timeouts(pause=0.01, identify=0.0, answer=10.0, look=more.pop("look", 60.0))
    account = discord.Account(
        token=TOKEN, api_url=plain.url + "/api/v10", cdn_url=plain.url, **more
    )
    adapter = discord.DiscordAdapter(account, SystemClock(), known, timeouts)
    try:
        yield adapter
    finally:
        await adapter.close()


async def test_a_message_is_heard_and_answered(plain: PlainDiscord) -> None:
    ear = Ear()
    async with bot(plain) as adapter, _connected(adapter, plain, ear):
        await plain.say("hello", DM)
        (message,) = await ear.until_heard()
        sent = await adapter.send(part(message.source, "answer"))
        await adapter.edit(part(message.source, "a better answer"), sent.message_id)

    assert (message.text, message.source.chat_id, message.source.chat_type) == (
        "hello",
        DM,
        ChatType.DM,
    )
    assert [each["content"] for each in plain.said[DM]] == ["hello", "a better answer"]


async def test_a_line_that_breaks_is_resumed_where_it_began(plain: PlainDiscord) -> None:
    ear = Ear()
    async with bot(plain) as adapter, _connected(adapter, plain, ear):
        await plain.hang_up()
        await plain.say("meanwhile", DM)
        await ear.until_heard()
        await _until(lambda: plain.resumed == 1)
        await plain.say("after", DM)
        await ear.until_heard(2)

    assert ear.texts == ["meanwhile", "after"]
    assert plain.sessions == 1


async def test_a_gateway_that_the_config_names_need_not_be_told() -> None:
    ear = Ear()
    async with plain_discord("GET /api/v10/gateway/bot") as plain:
        socket = plain.url.replace("http", "ws", 1) + "/socket"
        async with bot(plain, gateway_url=socket) as adapter, _connected(adapter, plain, ear):
            await plain.say("hello", DM)
            await ear.until_heard()

    assert ear.texts == ["hello"]


async def test_without_a_gateway_anywhere_the_run_ends() -> None:
    async with plain_discord("GET /api/v10/gateway/bot") as plain, bot(plain) as adapter:
        with pytest.raises(Undeliverable):
            await adapter.run(Ear().receive)


async def test_a_channel_that_nobody_tells_of_is_a_channel_of_its_server(
    plain: PlainDiscord,
) -> None:
    ear = Ear()
    async with bot(plain) as adapter, _connected(adapter, plain, ear):
        await plain.say(f"<@{BOT}> hello", CHANNEL, guild_id=GUILD)
        (message,) = await ear.until_heard()

    assert message.source.nameless == IN_CHANNEL
    assert message.addressed_to_bot


async def test_a_message_without_its_server_belongs_to_that_of_its_channel(
    plain: PlainDiscord,
) -> None:
    ear = Ear()
    async with bot(plain) as adapter, _connected(adapter, plain, ear):
        await plain.tell(
            "THREAD_CREATE", {"id": THREAD, "type": 11, "parent_id": CHANNEL, "guild_id": GUILD}
        )
        await plain.say("hello", THREAD)
        (message,) = await ear.until_heard()

    assert message.source.nameless == IN_THREAD


async def test_what_was_missed_is_read_where_somebody_wrote_before(plain: PlainDiscord) -> None:
    for channel in (DM, CHANNEL, THREAD):
        plain.write(f"in {channel}", channel)
    async with bot(plain, DIRECT, IN_CHANNEL, IN_THREAD) as adapter:
        missed = [message async for message in adapter.catch_up(LONG_AGO)]

    assert [message.text for message in missed] == [f"in {DM}", f"in {CHANNEL}", f"in {THREAD}"]
    assert [message.source.nameless for message in missed] == [DIRECT, IN_CHANNEL, IN_THREAD]


async def test_where_ids_tell_no_time_what_was_missed_is_found_by_its_own() -> None:
    async with plain_discord(counts=True) as plain:
        plain.write("long ago", DM, timestamp="2024-01-01T00:00:00+00:00")
        since = datetime.now(UTC)
        plain.write("missed", DM)
        async with bot(plain, IN_THREAD, DIRECT) as adapter:
            missed = [message.text async for message in adapter.catch_up(since)]

    assert missed == ["missed"]


@pytest.mark.parametrize(
    "broken", [{"id": "none"}, {"id": None}, {"author": "somebody"}, {"timestamp": 7, "author": 8}]
)
async def test_a_message_of_the_past_that_cannot_be_read_holds_up_no_other(
    plain: PlainDiscord, broken: dict[str, Any]
) -> None:
    """Finding R6: each start asked for it again, and the account never came up."""
    plain.write("before", DM)
    odd = plain.write("odd", DM)
    plain.write("after", DM)
    odd.update(broken)
    async with bot(plain, DIRECT) as adapter:
        missed = [message async for message in adapter.catch_up(LONG_AGO)]
        found = await adapter.find_sent(part(DIRECT, "never sent"), LONG_AGO)

    kinds = {
        message.text or json.loads(message.raw or "")["d"]["content"]: message.kind
        for message in missed
    }
    assert kinds == {
        "before": MessageKind.NEW,
        "odd": MessageKind.UNREADABLE,
        "after": MessageKind.NEW,
    }
    assert found is None


async def test_where_only_the_newest_messages_can_be_read_the_gap_is_told() -> None:
    """Finding R5: what was older than one page was left out without a word."""
    async with plain_discord(counts=True) as plain:
        since = datetime.now(UTC)
        for number in range(101):
            moment = since + timedelta(seconds=number)
            plain.write(f"{number}", DM, timestamp=moment.isoformat())
        missed = list[str]()

        async def catch_up(adapter: discord.DiscordAdapter) -> None:
            async for message in adapter.catch_up(since):
                missed.append(message.text)

        async with bot(plain, DIRECT) as adapter:
            with pytest.raises(GapRemains):
                await catch_up(adapter)

    assert missed == [f"{number}" for number in range(1, 101)]


async def test_where_neither_ids_nor_times_tell_anything_all_is_read_again() -> None:
    async with plain_discord(counts=True) as plain:
        for text in ("one", "two"):
            plain.write(text, DM, timestamp="2024-01-01T00:00:00+00:00")
        async with bot(plain, DIRECT) as adapter:
            missed = [message.text async for message in adapter.catch_up(datetime.now(UTC))]

    assert missed == ["one", "two"]


async def test_where_ids_tell_time_the_old_is_left_alone(plain: PlainDiscord) -> None:
    plain.write("before", DM)
    async with bot(plain, DIRECT) as adapter:
        assert [
            message async for message in adapter.catch_up(datetime.now(UTC) + timedelta(seconds=1))
        ] == []


async def test_what_was_sent_is_found_where_ids_tell_no_time() -> None:
    async with plain_discord(counts=True) as plain, bot(plain) as adapter:
        since = datetime.now(UTC)
        sent = await adapter.send(part(DIRECT, "answer"))
        found = await adapter.find_sent(part(DIRECT, "answer"), since)

    assert found is not None
    assert found.message_id == sent.message_id


async def test_where_nobody_may_look_a_second_try_soon_after_is_left_to_its_nonce() -> None:
    async with plain_discord(f"GET {HISTORY}") as plain, bot(plain) as adapter:
        await adapter.send(part(DIRECT, "answer"))
        assert await adapter.find_sent(part(DIRECT, "answer"), datetime.now(UTC)) is None
        with pytest.raises(Undeliverable):
            await adapter.find_sent(part(DIRECT, "answer"), LONG_AGO)


async def test_a_chat_of_which_nobody_knows_the_server_is_no_direct_chat(
    plain: PlainDiscord,
) -> None:
    allowed = SessionSource(platform="discord", chat_type=ChatType.GROUP, chat_id=CHANNEL)
    plain.write("hello", CHANNEL)
    async with bot(plain, allowed) as adapter:
        assert [message async for message in adapter.catch_up(LONG_AGO)] == []


async def test_what_the_bot_said_itself_is_no_sign_that_it_is_deaf(plain: PlainDiscord) -> None:
    async with bot(plain, DIRECT, look=0.02) as adapter, _connected(adapter, plain, Ear()):
        await plain.say("hello", DM)
        await adapter.send(part(DIRECT, "answer"))
        looks = plain.calls.count(("GET", f"/api/v10/channels/{DM}/messages"))
        await _until(
            lambda: plain.calls.count(("GET", f"/api/v10/channels/{DM}/messages")) > looks + 3
        )

    assert plain.sessions == 1


async def test_a_command_that_cannot_be_answered_in_its_place_is_answered_below(
    plain: PlainDiscord,
) -> None:
    ear = Ear()
    used = {"id": "501", "type": 2, "token": "t", "channel": {"id": DM}, "user": {"id": PERSON}}
    async with bot(plain) as adapter, _connected(adapter, plain, ear):
        await plain.tell(
            "INTERACTION_CREATE", used | {"data": {"name": "new", "options": [{"value": "title"}]}}
        )
        (message,) = await ear.until_heard()
        await adapter.send(replace(part(message.source, "answer"), reply_to=message.id))

    assert (message.kind, message.text) == (MessageKind.COMMAND, "/new title")
    assert [each["content"] for each in plain.said[DM]] == ["answer"]


async def test_a_press_is_heard_by_what_the_button_carries(plain: PlainDiscord) -> None:
    ear = Ear()
    pressed = {
        "id": "502",
        "type": 3,
        "token": "t",
        "channel_id": DM,
        "user": {"id": PERSON},
        "message": {"id": "1"},
    }
    async with bot(plain) as adapter, _connected(adapter, plain, ear):
        await plain.tell("INTERACTION_CREATE", pressed | {"data": {"custom_id": "0f"}})
        (message,) = await ear.until_heard()

    assert (message.kind, message.text) == (MessageKind.BUTTON, "0f")


async def test_a_check_finds_no_fault_in_what_is_not_told(plain: PlainDiscord) -> None:
    found = await discord.examine(discord.Account(token=TOKEN, api_url=plain.url + "/api/v10"))

    assert [finding for finding in found if finding.is_error] == []
    assert any("not looked at" in finding.words for finding in found)


@asynccontextmanager
async def _connected(
    adapter: discord.DiscordAdapter, plain: PlainDiscord, ear: Ear
) -> AsyncIterator[None]:
    async with listening(adapter, ear.receive):
        await _until(lambda: adapter.progress is not None and plain.sessions == 1)
        yield


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.005)
