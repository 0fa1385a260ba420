"""
What the Discord adapter does beyond what every adapter must: the traps that others have found.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.adapter_scene import (
    LONG_AGO,
    Ear,
    Scene,
    listening,
    listening_as_supervised,
    part,
)
from tests.contracts.platforms.discord import DiscordUnderTest
from tests.fakes import FrozenClock, WrongClock
from tests.oracle_store import MemoryStore
from tests.simulators.discord import CHANNEL, GUILD, TOKENS
from tests.simulators.running import PATIENCE, Remote
from turngate.adapters.discord import plugin as discord
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import (
    NotSent,
    Refused,
    Retryable,
    StoreUnavailable,
    Throttled,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import Button
from turngate.gateway.domain.ports.adapter import MenuEntry
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.rules.session_keys import build_session_key

ME = "<@7001>"
ANN, HERE, FORUM = "81001", str(CHANNEL), "9015"
CHANNEL_SOURCE = SessionSource(
    platform="discord", chat_type=ChatType.GROUP, chat_id=HERE, user_id=ANN, scope=str(GUILD)
)
DIRECT = SessionSource(platform="discord", chat_id="81001", user_id=ANN)
YES = Button(label="Yes", nonce="0f" * 16)


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    """
    A fresh Discord, a bot, two people, a channel and a forum. No bot may ask for what Discord
    forbids.
    """
    tested = DiscordUnderTest()
    async with tested.simulator() as sim:
        await sim.do("open", chat=FORUM, kind="forum", name="ideas")
        async with bot(sim) as adapter:
            yield Scene(tested=tested, sim=sim, adapter=adapter)
        assert await sim.violations() == []


@asynccontextmanager
async def bot(
    sim: Remote,
    *places: SessionSource,
    timeouts: dict[str, float] | None = None,
    clock: Clock = SystemClock(),  # noqa: B008 - it holds nothing
    **account: Any,
) -> AsyncIterator[discord.DiscordAdapter]:
    """A bot that knows these places: the channel and a direct chat, if none are named."""

    async def known() -> tuple[SessionSource, ...]:
        return places or (CHANNEL_SOURCE, DIRECT)

    adapter = discord.DiscordAdapter(
        discord.Account(
            token=TOKENS["main"],
            api_url=sim.url + "/api/v10",
            gateway_url=sim.url.replace("http", "ws", 1) + "/gateway",
            cdn_url=sim.url + "/cdn",
            **account,
        ),
        clock,
        known,
        discord.Timeouts(**{"pause": 0.01, "identify": 0.0, "answer": 10.0, **(timeouts or {})}),
    )
    try:
        yield adapter
    finally:
        await adapter.close()


async def begun(at: Scene) -> int:
    """How many sessions were begun."""
    return len(await at.sim.calls(method="identify"))


async def test_exactly_the_intents_that_are_needed_are_asked_for(at: Scene) -> None:
    async with at.listening(Ear()):
        (session,) = await at.sim.do("sessions")

    assert session["intents"] == ["guilds", "guild_messages", "dm_messages", "message_content"]


async def test_intents_that_are_switched_off_end_the_run_with_the_page_to_open(at: Scene) -> None:
    await at.sim.do("bot", intents=[])

    with pytest.raises(
        Unauthorized,
        match=r"Message Content Intent at https://discord\.com/developers/applications",
    ):
        await _ended(at.adapter.run(Ear().receive))


async def test_messages_without_their_words_are_told_of_once(
    at: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear()
    with caplog.at_level(logging.WARNING, "turngate.adapters.discord"):
        async with at.listening(ear):
            for _ in range(3):
                await at.sim.say("", chat=HERE, user=ANN)
            await at.sim.say("a word", chat=HERE, user=ANN)
            await ear.until_heard()

    assert (
        len([record for record in caplog.records if "Message Content Intent" in record.message])
        == 1
    )


@pytest.mark.parametrize(
    "trouble",
    [
        {"do": "cut"},
        {"do": "close", "code": 4000},
        {"do": "reconnect"},
        {"do": "invalidate", "resumable": True},
    ],
)
async def test_a_line_that_breaks_is_taken_up_where_it_was(
    at: Scene, trouble: dict[str, object]
) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.sim.do("gateway", **trouble)
        await at.sim.say("meanwhile", chat=HERE, user=ANN)
        await ear.until_heard()
        await at.sim.say("after", chat=HERE, user=ANN)
        await ear.until_heard(2)

    assert ear.texts == ["meanwhile", "after"]
    assert await begun(at) == 1


@pytest.mark.parametrize("trouble", ["invalidate", "expire"])
async def test_a_session_that_is_over_ends_the_run_so_that_what_was_missed_is_read(
    at: Scene, trouble: str
) -> None:
    ear = Ear()
    running = asyncio.ensure_future(at.adapter.run(ear.receive))
    await _until_connected(at)
    await at.sim.do("gateway", do=trouble)

    with pytest.raises(Retryable, match="session"):
        await _ended(running)
    assert await begun(at) == 1


async def test_a_silent_line_is_found_by_its_heartbeats_and_taken_up_again(at: Scene) -> None:
    ear = Ear()
    async with (
        bot(at.sim, timeouts={"silence": 0.6}) as adapter,
        listening_as_supervised(adapter, ear.receive),
    ):
        await at.sim.do("gateway", do="silence")
        await at.sim.say("into the void", chat=HERE, user=ANN)
        await ear.until_heard()

    assert ear.texts == ["into the void"]
    assert await begun(at) == 1


@pytest.mark.parametrize("days", [0, 1, -1], ids=["right", "ahead", "behind"])
async def test_a_line_with_heartbeats_and_nothing_else_is_given_up_whatever_our_clock_says(
    at: Scene, days: int
) -> None:
    async with bot(at.sim, timeouts={"look": 0.1}, clock=WrongClock(days=days)) as adapter:
        running = asyncio.ensure_future(adapter.run(Ear().receive))
        await _until_connected(at)
        await at.sim.fault("deaf", method="dispatch", times=None)
        await asyncio.sleep(1)  # their dates know whole seconds only
        await at.sim.say("unheard", chat=HERE, user=ANN)

        with pytest.raises(Retryable, match="says nothing of what people write"):
            await _ended(running)


@pytest.mark.parametrize("days", [0, 1, -1], ids=["right", "ahead", "behind"])
async def test_a_quiet_line_is_left_alone_whatever_our_clock_says(at: Scene, days: int) -> None:
    ear = Ear()
    await at.sim.say("long ago", chat=HERE, user=ANN)
    wrong = bot(at.sim, timeouts={"look": 0.02}, clock=WrongClock(days=days))
    async with wrong as adapter, listening(adapter, ear.receive):
        await _until_connected(at)

        async def has_looked() -> bool:
            return len(await at.sim.calls(method="get_channel_messages")) > 6

        await at.sim.until(has_looked)
        await at.sim.say("heard", chat=HERE, user=ANN)
        await ear.until_heard()

    assert await begun(at) == 1


async def test_when_discord_takes_no_more_sessions_none_is_begun(at: Scene) -> None:
    """It counts them across our restarts, and takes the token away after the last one."""
    await at.sim.do("bot", starts_left=3)

    with pytest.raises(Retryable, match=r"too many sessions .* takes new ones at \d\d:\d\d UTC"):
        await _ended(at.adapter.run(Ear().receive))

    assert await begun(at) == 0


async def test_when_half_of_the_sessions_are_used_the_rest_is_spread_over_the_day(
    at: Scene,
) -> None:
    """Finding R8: a loop of op 9 used up all of them within hours, and the bot was deaf."""
    await at.sim.do("bot", starts_left=400)

    with pytest.raises(Retryable, match=r"400 of 1000 .* the next begins at \d\d:\d\d UTC"):
        await _ended(at.adapter.run(Ear().receive))

    assert await begun(at) == 0


async def test_a_line_that_breaks_after_each_resume_is_given_up(at: Scene) -> None:
    """Finding R8: it was taken up again without a pause, 639 times in 20 seconds."""
    await at.sim.fault("lost answer", method="dispatch", event="RESUMED", times=None)
    running = asyncio.ensure_future(at.adapter.run(Ear().receive))
    await _until_connected(at)
    await at.sim.do("gateway", do="cut")

    with pytest.raises(Retryable, match="keeps breaking"):
        await _ended(running)

    assert len(await at.sim.calls(method="resume")) == 5


async def test_after_a_line_that_lasted_a_break_counts_as_the_first(at: Scene) -> None:
    async with (
        bot(at.sim, timeouts={"lasting": 0.0}) as adapter,
        listening_as_supervised(adapter, Ear().receive),
    ):
        for number in range(1, 9):
            await at.sim.do("gateway", do="cut")

            async def is_back(times: int = number) -> bool:
                resumed = await at.sim.calls(method="dispatch", event="RESUMED")
                return len(resumed) >= times

            await at.sim.until(is_back)

    assert await begun(at) == 1


async def test_a_line_that_discord_closes_because_of_haste_rests_longer(at: Scene) -> None:
    """Finding R8: 4008 means "slow down"."""
    async with (
        bot(at.sim, timeouts={"pause": 0.05}) as adapter,
        listening_as_supervised(adapter, Ear().receive),
    ):
        await at.sim.do("gateway", do="close", code=4008)
        closed_at = datetime.now(UTC).timestamp()

        async def is_back() -> bool:
            return bool(await at.sim.calls(method="resume"))

        await at.sim.until(is_back)
        (resumed,) = await at.sim.calls(method="resume")

    assert resumed["at"] - closed_at > 0.15


async def test_two_sessions_are_not_begun_at_once(at: Scene) -> None:
    async with bot(at.sim, timeouts={"identify": 0.3}) as adapter:
        for _ in range(2):
            async with listening_as_supervised(adapter, Ear().receive):
                pass

    first, second = await at.sim.calls(method="identify")
    assert second["at"] - first["at"] >= 0.25


async def test_a_planned_end_leaves_the_session_and_no_second_line(at: Scene) -> None:
    """
    1000 and 1001 would end it for good. And the old line is closed when a new one begins: nobody
    hears twice.
    """
    for _ in range(2):
        async with at.listening(Ear()):
            pass
    ear = Ear()
    async with at.listening(ear):
        sessions = await at.sim.do("sessions")

    assert [session["connected"] for session in sessions] == [False, False, True]


async def test_a_bot_comes_in_as_many_parts_as_discord_wants(at: Scene) -> None:
    await at.sim.do("bot", shards=2, shards_needed=2)
    ear = Ear()
    async with at.listening(ear):
        assert [session["shard"] for session in await at.sim.do("sessions")] == [[0, 2], [1, 2]]
        await at.sim.say("in a server", chat=HERE, user=ANN)
        await at.say("in private")
        await ear.until_heard(2)

    assert set(ear.texts) == {"in a server", "in private"}


async def test_what_the_bot_and_other_machines_say_is_known_as_such(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.adapter.send(part(CHANNEL_SOURCE, "my own words"))
        await at.sim.say("beep", chat=HERE, user="5", bot=True)
        await at.sim.say("hook", chat=HERE, user="6", webhook=True)
        await at.sim.say("hello", chat=HERE, user=ANN)
        await ear.until_heard(3)

    assert [(message.text, message.from_bot) for message in ear.heard] == [
        ("beep", True),
        ("hook", True),
        ("hello", False),
    ]


async def test_a_thread_that_begins_with_a_message_does_not_say_it_again(at: Scene) -> None:
    """Its first message has the id of the thread, which is that of the message."""
    ear = Ear()
    async with at.listening(ear):
        said = await at.sim.say("a question", chat=HERE, user=ANN)
        thread = (await at.sim.do("thread", chat=HERE, user=ANN, name="talk", message=said))["id"]
        post = (await at.sim.do("thread", chat=FORUM, user=ANN, name="idea", text="a first post"))[
            "id"
        ]
        await at.sim.say("in the thread", chat=thread, user=ANN)
        await ear.until_heard(3)
    store = MemoryStore(FrozenClock())
    accepted = [await store.accept(each, build_session_key(each.source)) for each in ear.heard]

    assert thread == said
    heard = {
        message.text: (message.source.chat_id, message.source.thread_id) for message in ear.heard
    }
    assert heard == {
        "a question": (HERE, None),
        "a first post": (FORUM, post),
        "in the thread": (HERE, thread),
    }
    assert not any(each.duplicate for each in accepted)


async def test_a_thread_that_nobody_told_of_is_asked_for(at: Scene) -> None:
    ear = Ear()
    said = await at.sim.say("a question", chat=HERE, user=ANN)
    thread = (await at.sim.do("thread", chat=HERE, user=ANN, name="talk", message=said))["id"]
    await at.sim.do("archive", chat=thread)  # of archived threads nothing is told at the start
    async with at.listening(ear):
        await at.sim.say("still here", chat=thread, user=ANN)
        await ear.until(lambda: "still here" in ear.texts)

    source = ear.heard[-1].source
    assert (source.chat_type, source.chat_id, source.thread_id) == (ChatType.THREAD, HERE, thread)


async def test_a_channel_waits_for_no_other_channel(at: Scene) -> None:
    blocked, ear = asyncio.Event(), Ear()

    async def receive(message: Any) -> None:
        if message.source.chat_id == HERE:
            await blocked.wait()
        await ear.receive(message)

    async with listening_as_supervised(at.adapter, receive):
        await at.sim.say("stuck", chat=HERE, user=ANN)
        await at.say("passes")
        await ear.until_heard()
        blocked.set()
        await ear.until_heard(2)

    assert ear.texts == ["passes", "stuck"]


async def test_a_bug_behind_the_adapter_ends_the_run_and_loses_nothing(at: Scene) -> None:
    async def broken(message: InboundMessage) -> None:
        raise ZeroDivisionError

    running = asyncio.ensure_future(at.adapter.run(broken))
    await _until_connected(at)
    await at.sim.say("keep me", chat=HERE, user=ANN)

    with pytest.raises(ZeroDivisionError):
        await _ended(running)
    assert [message.text async for message in at.adapter.catch_up(LONG_AGO)] == ["keep me"]


@pytest.mark.parametrize("days", [1, -1])
async def test_with_a_clock_that_is_wrong_nothing_is_missed_and_what_was_sent_is_found(
    at: Scene, days: int
) -> None:
    clock = WrongClock(days=days)
    answer, since = part(DIRECT), clock.now()
    async with bot(at.sim, clock=clock) as wrong:
        began = await wrong.platform_time() - timedelta(seconds=2)
        await at.sim.say("hello", chat=HERE, user=ANN)
        sent = await wrong.send(answer)
    async with bot(at.sim, clock=clock) as wrong:
        found = await wrong.find_sent(answer, since)

        assert [message.text async for message in wrong.catch_up(began)] == ["hello"]
        assert (found or await wrong.send(answer)).message_id == sent.message_id


async def test_everything_that_is_allowed_is_caught_up(at: Scene) -> None:
    """
    A server with its channels and threads, a channel, somebody who never wrote; not what is hidden
    from us.
    """
    await at.sim.do("open", chat="9020", kind="text", name="secret")
    await at.sim.do("permissions", chat="9020", deny=["view_channel"])
    thread = (await at.sim.do("thread", chat=HERE, user=ANN, name="talk"))["id"]
    for chat in (HERE, "9020", thread):
        await at.sim.say(f"in {chat}", chat=chat, user=ANN)
    await at.say("in private")
    guild = SessionSource(platform="discord", chat_type=ChatType.GROUP, scope=str(GUILD))
    person = SessionSource(platform="discord", user_id=ANN)
    async with bot(at.sim, guild, person, replace(CHANNEL_SOURCE, chat_id="404")) as adapter:
        caught_up = [message.text async for message in adapter.catch_up(LONG_AGO)]

    assert caught_up == [f"in {HERE}", f"in {thread}", "in private"]


async def test_everybody_who_is_allowed_is_read_however_many_they_are(at: Scene) -> None:
    """
    Finding R5: beyond 25 whose direct chats had to be opened, first messages were lost. The rest
    are opened slowly, once the bot listens.
    """
    people = [str(number) for number in range(82001, 82041)]
    for person in people:
        await at.sim.do("open", chat=f"9{person}", user=person)
        await at.sim.say(f"from {person}", chat=f"9{person}", user=person)
    places = [SessionSource(platform="discord", user_id=person) for person in people]
    ear = Ear()
    async with bot(at.sim, *places, timeouts={"open": 0.001}) as adapter:
        at_once = [each.text async for each in adapter.catch_up(LONG_AGO)]
        opened = len(await at.sim.calls(method="create_dm"))
        async with listening(adapter, ear.receive):
            await _until_connected(at)
            later = [each.text async for each in adapter.catch_up(datetime.now(UTC))]

    assert (len(at_once), opened) == (25, 25)
    assert sorted(at_once + later) == [f"from {person}" for person in people]
    assert len(await at.sim.calls(method="create_dm")) == len(people)


async def test_a_direct_chat_that_is_known_is_not_opened_again(at: Scene) -> None:
    """Finding R5: paired users cost an opening though their chat had a conversation."""
    await at.say("hello")
    person = SessionSource(platform="discord", user_id=ANN)
    async with bot(at.sim, DIRECT, person) as adapter:
        caught_up = [message.text async for message in adapter.catch_up(LONG_AGO)]

    assert caught_up == ["hello"]
    assert await at.sim.calls(method="create_dm") == []


async def test_more_than_a_thousand_chats_are_all_read(at: Scene) -> None:
    """Finding R5: the twenty last of 1,020 direct chats were never read."""
    numbers = [str(number) for number in range(500_001, 501_021)]
    for number in (numbers[0], numbers[-1]):
        await at.sim.say(f"in {number}", chat=number, user=ANN)
    places = [replace(DIRECT, chat_id=number, user_id=number) for number in numbers]
    async with bot(at.sim, *places) as adapter:
        at_once = [each.text async for each in adapter.catch_up(LONG_AGO)]
        async with listening(adapter, Ear().receive):
            await _until_connected(at)
            later = [each.text async for each in adapter.catch_up(datetime.now(UTC))]

    assert (at_once, later) == ([f"in {numbers[0]}"], [f"in {numbers[-1]}"])


async def test_an_allowed_channel_is_caught_up_with_its_threads(at: Scene) -> None:
    thread = (await at.sim.do("thread", chat=HERE, user=ANN, name="talk"))["id"]
    await at.sim.say("in the thread", chat=thread, user=ANN)
    async with bot(
        at.sim, SessionSource(platform="discord", chat_type=ChatType.GROUP, chat_id=HERE)
    ) as adapter:
        (message,) = [each async for each in adapter.catch_up(LONG_AGO)]

    assert (message.source.chat_id, message.source.thread_id) == (HERE, thread)


async def test_a_pause_does_not_end_catching_up(at: Scene) -> None:
    await at.sim.say("timeouts", chat=HERE, user=ANN)
    await at.sim.fault("429", does="history", retry_after=0.05, times=2)

    assert [message.text async for message in at.adapter.catch_up(LONG_AGO)] == ["timeouts"]


async def test_a_part_is_known_by_its_nonce_even_to_another_process(at: Scene) -> None:
    await at.sim.fault("lost answer", does="send")
    again = replace(part(at.here, "once"), created_at=datetime.now(UTC))
    with pytest.raises(Retryable):
        await at.adapter.send(again)
    async with bot(at.sim) as other:
        assert (
            await other.find_sent(again, again.created_at) is None
        )  # sending it again is the surest way
        sent = await other.send(again)

    assert [message["id"] for message in await at.sim.messages()] == [sent.message_id]
    first, _ = await at.sim.calls(method="create_message")
    assert first["parameters"]["enforce_nonce"] is True
    assert len(first["parameters"]["nonce"]) <= 25


async def test_when_nonces_are_forgotten_a_part_is_found_by_what_it_says(at: Scene) -> None:
    long_since = datetime.now(UTC) - timedelta(minutes=10)
    asked = replace(part(at.here, "Sure?"), buttons=(YES,), created_at=long_since)
    sent = await at.adapter.ask(asked)
    await at.adapter.send(part(at.here, "something else", 2))
    async with bot(at.sim) as other:
        found = await other.find_sent(asked, long_since)
        missing = await other.find_sent(part(at.here, "never sent", 3), long_since)
        unlike = await other.find_sent(
            replace(asked, buttons=(replace(YES, nonce="1e" * 16),)), long_since
        )

    assert found is not None
    assert found.message_id == sent.message_id
    assert (missing, unlike) == (None, None)


@pytest.mark.parametrize("place", [CHANNEL_SOURCE, DIRECT])
async def test_a_preview_that_got_lost_is_found_and_not_shown_twice(
    at: Scene, place: SessionSource
) -> None:
    asked = await at.sim.say("hello", chat=place.chat_id or "", user=ANN)
    preview = replace(part(place, "Hel …", 0), reply_to=asked, turn=TurnId(5))
    assert await at.adapter.find_preview(preview) is None
    await at.adapter.send(part(place, "something before", 3))
    await at.sim.fault("lost answer", method="create_message")
    with pytest.raises(Unreachable):
        await at.adapter.send(preview)

    found = await at.adapter.find_preview(preview)
    again = await at.adapter.send(replace(preview, text="Hello …"))

    assert found is not None
    assert found.message_id == again.message_id
    assert await at.sim.texts() == ["something before", "Hel …"]


async def test_two_parts_of_one_number_in_two_stores_have_two_nonces(at: Scene) -> None:
    await at.adapter.send(
        replace(part(at.here, "hello"), created_at=datetime(2026, 1, 1, tzinfo=UTC))
    )
    await at.adapter.send(
        replace(part(at.here, "hello"), created_at=datetime(2026, 1, 2, tzinfo=UTC))
    )

    assert await at.sim.texts() == ["hello", "hello"]


async def test_an_answer_to_what_is_gone_is_sent_without_it(at: Scene) -> None:
    said = await at.sim.say("never mind", chat=HERE, user=ANN)
    await at.sim.do("delete", chat=HERE, id=said)

    await at.adapter.send(replace(part(CHANNEL_SOURCE), reply_to=said))

    (shown,) = await at.sim.messages()
    assert (shown["text"], shown["reply_to"]) == ("hello", None)


async def test_in_private_only_an_answer_to_what_was_said_before_quotes_it(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        first = await at.say("one")
        second = await at.say("two")
        await ear.until_heard(2)
        await at.adapter.send(replace(part(at.here, "to the last", 1), reply_to=second))
        await at.adapter.send(replace(part(at.here, "to the first", 2), reply_to=first))

    assert [message["reply_to"] for message in await at.sim.messages()] == [None, first]


async def test_nobody_is_called_but_who_is_named(at: Scene) -> None:
    await at.sim.do("role", role="9100", name="ops", members=[ANN])
    await at.sim.do("permissions", chat=HERE, allow=["mention_everyone"])
    said = await at.sim.say("hello", chat=HERE, user="43")

    await at.adapter.send(
        replace(part(CHANNEL_SOURCE, f"@everyone @here <@&9100> <@{ANN}> look"), reply_to=said)
    )

    (shown,) = await at.sim.messages()
    assert shown["calls"] == {"users": [ANN], "roles": [], "everyone": False}
    assert shown["reply_to"] == said


async def test_a_channel_that_is_named_can_be_opened_and_its_message_found_without_the_name(
    at: Scene,
) -> None:
    long_since = datetime.now(UTC) - timedelta(minutes=10)
    answer = replace(part(CHANNEL_SOURCE, "see #ideas"), created_at=long_since)
    ear = Ear()
    async with at.listening(ear):
        await at.sim.say("hello", chat=HERE, user=ANN)  # what is told before it is known by then
        await ear.until_heard()
        sent = await at.adapter.send(answer)
    async with bot(at.sim) as other:
        found = await other.find_sent(answer, long_since)

    assert await at.sim.texts() == [f"see <#{FORUM}>"]
    assert found is not None
    assert found.message_id == sent.message_id


async def test_a_forum_gets_a_new_post(at: Scene) -> None:
    forum = replace(CHANNEL_SOURCE, chat_id=FORUM)

    sent = await at.adapter.send(part(forum, "# A plan\n\nStep by step."))
    await at.adapter.edit(part(forum, "# A better plan"), sent.message_id)

    (post,) = await at.sim.do("threads")
    (shown,) = await at.sim.messages()
    assert (post["chat"], post["name"]) == (FORUM, "A plan")
    assert (shown["id"], shown["text"]) == (sent.message_id, "# A better plan")


async def test_a_post_in_a_forum_that_wants_a_tag_gets_one_that_everybody_may_set(
    at: Scene, tmp_path: Path
) -> None:
    """Finding A3 (40067): such forums took no post at all. A file is sent whole the second time."""
    await at.sim.do("open", chat="9016", kind="forum", name="plans", tags=["staff", "idea"])
    forum = replace(CHANNEL_SOURCE, chat_id="9016")
    (tmp_path / "plan.txt").write_text("step by step")
    outgoing = replace(part(forum, "A plan"), file=File(path=str(tmp_path / "plan.txt")))

    await at.adapter.send_file(outgoing)

    (shown,) = await at.sim.messages()
    last = (await at.sim.calls(method="start_thread"))[-1]
    assert last["parameters"]["applied_tags"] == ["9018"]
    assert base64.b64decode(shown["file"]["content"]) == b"step by step"


@pytest.mark.parametrize("code", [40004, 40006, 130000])
async def test_a_refusal_that_passes_is_tried_again(at: Scene, code: int) -> None:
    """Finding M7: it was taken as final, and the answer given up."""
    await at.sim.fault("code", does="send", says=str(code))

    with pytest.raises(NotSent):
        await at.adapter.send(part(at.here))


@pytest.mark.parametrize(
    ("code", "words"), [(200000, "automatic moderation"), (240000, "link in this message")]
)
async def test_what_moderation_blocked_is_said_to_be(at: Scene, code: int, words: str) -> None:
    """Finding M7."""
    await at.sim.fault("code", does="send", says=str(code))

    with pytest.raises(Undeliverable, match=words):
        await at.adapter.send(part(at.here))


async def test_what_was_written_in_a_stage_channel_is_caught_up(at: Scene) -> None:
    """Finding A3: stage channels (type 13) have text too."""
    await at.sim.do("open", chat="9017", kind="stage", name="talk")
    await at.sim.say("a question", chat="9017", user=ANN)
    guild = SessionSource(platform="discord", chat_type=ChatType.GROUP, scope=str(GUILD))
    async with bot(at.sim, guild) as adapter:
        caught_up = [message.text async for message in adapter.catch_up(LONG_AGO)]

    assert caught_up == ["a question"]


async def test_a_post_whose_answer_was_lost_is_found_and_not_made_again(at: Scene) -> None:
    post = replace(
        part(replace(CHANNEL_SOURCE, chat_id=FORUM), "A plan"), created_at=datetime.now(UTC)
    )
    await at.sim.fault("lost answer", method="start_thread")
    with pytest.raises(Retryable):
        await at.adapter.send(post)
    async with bot(at.sim) as other:
        found = await other.find_sent(post, post.created_at)
        missing = await other.find_sent(replace(post, text="Another plan"), post.created_at)

    (thread,) = await at.sim.do("threads")
    assert found is not None
    assert (found.message_id, missing) == (thread["id"], None)


async def test_a_file_is_not_taken_for_another(at: Scene, tmp_path: Path) -> None:
    long_since = datetime.now(UTC) - timedelta(minutes=10)
    for name in ("a b.txt", "c.txt"):
        (tmp_path / name).write_text(name)
    one, other = (
        replace(
            part(at.here, "", number), file=File(path=str(tmp_path / name)), created_at=long_since
        )
        for number, name in enumerate(("a b.txt", "c.txt"), start=1)
    )
    sent = await at.adapter.send_file(one)
    async with bot(at.sim) as again:
        found, missing = (
            await again.find_sent(one, long_since),
            await again.find_sent(other, long_since),
        )

    assert found is not None
    assert (found.message_id, missing) == (sent.message_id, None)


async def test_an_archived_thread_takes_messages_and_edits(at: Scene) -> None:
    thread = (await at.sim.do("thread", chat=HERE, user=ANN, name="talk"))["id"]
    there = replace(CHANNEL_SOURCE, chat_type=ChatType.THREAD, thread_id=thread)
    await at.sim.do("permissions", chat=HERE, allow=["manage_threads"])
    await at.sim.do("archive", chat=thread)
    sent = await at.adapter.send(part(there, "one"))
    await at.sim.do("archive", chat=thread)

    await at.adapter.edit(part(there, "two"), sent.message_id)

    assert [message["text"] for message in await at.sim.do("history", chat=thread)] == ["two"]


@pytest.mark.parametrize(
    ("denied", "needed"),
    [
        ("send_messages", "Send Messages"),
        ("view_channel", "View Channel"),
        ("attach_files", "Attach Files"),
    ],
)
async def test_a_missing_permission_is_named(
    at: Scene, tmp_path: Path, denied: str, needed: str
) -> None:
    await at.sim.do("permissions", chat=HERE, deny=[denied])
    file = tmp_path / "a.txt"
    file.write_text("a")
    outgoing = replace(part(CHANNEL_SOURCE), file=File(path=str(file)))

    with pytest.raises(Undeliverable, match=f'needs the permission "{needed}" in this channel'):
        await (
            at.adapter.send_file(outgoing)
            if needed == "Attach Files"
            else at.adapter.send(part(CHANNEL_SOURCE))
        )


async def test_who_is_banned_for_a_while_waits_with_everything(at: Scene) -> None:
    """Cloudflare's word for it is no JSON, and is for everybody at this address."""
    await at.sim.fault("cloudflare", does="send")

    with pytest.raises(Throttled) as caught:
        await at.adapter.send(part(at.here))

    assert (caught.value.retry_after, caught.value.everywhere) == (1, True)


async def test_a_button_that_was_sent_before_a_restart_is_heard_after_it(at: Scene) -> None:
    sent = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=(YES,)))
    ear = Ear()
    async with bot(at.sim) as again, listening_as_supervised(again, ear.receive):
        await at.sim.do(
            "press", chat=at.here.chat_id, user=ANN, message=sent.message_id, nonce=YES.nonce
        )
        (press,) = await ear.until_heard()
        await at.sim.until(lambda: _answered_with(at, "deferred update"))

    assert (press.kind, press.text, press.id) == (MessageKind.BUTTON, YES.nonce, sent.message_id)


MENU = (
    MenuEntry(name="new", summary="Begin anew", argument="[title]"),
    MenuEntry(name="reset", summary="Begin anew", offered=False),
    MenuEntry(name="help", summary="What there is"),
)


async def test_slash_commands_are_registered_when_they_changed_and_only_then(at: Scene) -> None:
    for menu in (MENU, MENU, MENU[:1]):
        async with (
            bot(at.sim, commands=menu) as adapter,
            listening_as_supervised(adapter, Ear().receive),
        ):
            offered = sorted(entry.name for entry in menu if entry.offered)
            await at.sim.until(lambda offered=offered: _are_offered(at, offered))

    assert len(await at.sim.calls(method="bulk_overwrite_global_commands")) == 2


async def test_no_more_than_a_hundred_commands_are_registered(at: Scene) -> None:
    """One too many, and Discord refuses all of them."""
    many = tuple(MenuEntry(name=f"c{number}", summary="one of many") for number in range(120))
    async with (
        bot(at.sim, commands=many) as adapter,
        listening_as_supervised(adapter, Ear().receive),
    ):
        await at.sim.until(lambda: _are_offered(at, sorted(f"c{number}" for number in range(100))))


@asynccontextmanager
async def with_commands(at: Scene, ear: Ear) -> AsyncIterator[discord.DiscordAdapter]:
    """A bot that offers some."""
    async with bot(at.sim, commands=MENU) as adapter, listening_as_supervised(adapter, ear.receive):
        await at.sim.until(lambda: _are_offered(at, ["help", "new"]))
        yield adapter


async def test_a_slash_command_is_answered_in_its_place(at: Scene) -> None:
    ear = Ear()
    async with with_commands(at, ear) as adapter:
        id_ = (
            await at.sim.do("command", chat=HERE, user=ANN, name="new", options={"text": "a title"})
        )["id"]
        (command,) = await ear.until_heard()
        await at.sim.until(lambda: _answered_with(at, "deferred"))
        preview = await adapter.send(replace(part(command.source, "Beg …", 0), reply_to=command.id))
        await adapter.edit(
            replace(part(command.source, "Begun."), reply_to=command.id), preview.message_id
        )
        await adapter.send(replace(part(command.source, "And more.", 2), reply_to=command.id))

    assert (command.kind, command.text, command.id) == (MessageKind.COMMAND, "/new a title", id_)
    (used,) = await at.sim.do("interactions")
    assert [message["text"] for message in used["messages"]] == ["Begun.", "And more."]
    assert not used["thinking"]
    assert await at.sim.texts() == ["Begun.", "And more."]


async def test_an_answer_to_a_slash_command_that_was_lost_is_given_again_in_place(
    at: Scene,
) -> None:
    ear = Ear()
    async with with_commands(at, ear) as adapter:
        await at.sim.do("command", chat=HERE, user=ANN, name="help")
        (command,) = await ear.until_heard()
        answer = replace(part(command.source, "Help."), reply_to=command.id)
        await at.sim.fault("lost answer", method="edit_followup")
        with pytest.raises(Retryable):
            await adapter.send(answer)
        await adapter.send(answer)

    assert await at.sim.texts() == ["Help."]


async def test_after_a_quarter_of_an_hour_an_answer_is_a_message_like_any_other(at: Scene) -> None:
    ear = Ear()
    async with with_commands(at, ear) as adapter:
        await at.sim.do("command", chat=HERE, user=ANN, name="help")
        (command,) = await ear.until_heard()
        await at.sim.until(lambda: _answered_with(at, "deferred"))
        await at.sim.do("later", seconds=1000.0)
        await adapter.send(replace(part(command.source, "At last."), reply_to=command.id))

    assert [message["text"] for message in await at.sim.do("history", chat=HERE)][-1] == "At last."


async def test_who_uses_a_command_that_could_not_be_stored_is_told(at: Scene) -> None:
    ear = Ear(StoreUnavailable("the disk is full"))
    async with with_commands(at, ear):
        await at.sim.do("command", chat=HERE, user=ANN, name="help")
        await at.sim.until(lambda: _answered_with(at, "message"))

    (used,) = await at.sim.do("interactions")
    (said,) = used["messages"]
    assert "could not be stored" in said["text"]
    assert said["only_for"] == ANN


async def test_a_command_that_takes_long_to_store_is_told_to_wait(at: Scene) -> None:
    """Discord wants a word within three seconds."""
    ear = Ear()
    ear.may_go_on.clear()
    async with with_commands(at, ear):
        await at.sim.do("command", chat=HERE, user=ANN, name="help")
        await at.sim.until(lambda: _answered_with(at, "deferred"))
        assert ear.heard == []
        ear.may_go_on.set()
        await ear.until_heard()


async def test_a_question_in_a_channel_is_answered_in_a_thread_if_wanted(at: Scene) -> None:
    ear = Ear()
    async with bot(at.sim, threads=True) as adapter, listening_as_supervised(adapter, ear.receive):
        question = await at.sim.say(f"{ME} how does it work?", chat=HERE, user=ANN)
        (asked,) = await ear.until_heard()
        await adapter.show_typing(asked.source)
        await adapter.react(asked.source, asked.id, "👀")
        await adapter.send(replace(part(asked.source, "Like this."), reply_to=asked.id))
        await at.sim.say("and then?", chat=question, user=ANN)
        _, then = await ear.until_heard(2)
        await adapter.send(replace(part(then.source, "Like that.", 2), reply_to=then.id))

    assert (asked.source.chat_type, asked.source.thread_id) == (ChatType.THREAD, question)
    assert build_session_key(asked.source) == build_session_key(then.source)
    (thread,) = await at.sim.do("threads")
    assert (thread["id"], thread["name"]) == (question, "how does it work?")
    shown = [
        (message["chat"], message["text"], message["reply_to"])
        for message in await at.sim.messages()
    ]
    assert shown == [(question, "Like this.", None), (question, "Like that.", then.id)]
    assert await at.sim.do("typing") == [HERE]
    assert (await at.sim.updates())[0]["reactions"] == ["👀"]


async def test_without_the_permission_for_threads_that_is_said(at: Scene) -> None:
    await at.sim.do("permissions", chat=HERE, deny=["create_public_threads"])
    said = await at.sim.say(f"{ME} hello", chat=HERE, user=ANN)

    with pytest.raises(Undeliverable, match="Create Public Threads"):
        await at.adapter.send(
            part(replace(CHANNEL_SOURCE, chat_type=ChatType.THREAD, thread_id=said))
        )


async def test_a_link_that_has_expired_is_renewed(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.say("look", file=("a.bin", b"bytes"))
        (message,) = await ear.until_heard()
    (attachment,) = message.attachments
    await at.sim.do("later", seconds=2 * 86_400.0)

    assert b"".join([piece async for piece in at.adapter.fetch(attachment)]) == b"bytes"
    await at.sim.do("later", seconds=2 * 86_400.0)
    await at.sim.do("delete", chat=at.here.chat_id, id=message.id)
    with pytest.raises(Refused, match="expired, and its message is gone"):
        [piece async for piece in at.adapter.fetch(attachment)]


async def test_a_file_that_is_too_large_is_not_even_read(at: Scene, tmp_path: Path) -> None:
    file = tmp_path / "large.bin"
    with file.open("wb") as sparse:
        sparse.truncate(11 * 1024 * 1024)

    with pytest.raises(Undeliverable, match=r"has 11.0 MB, and Discord takes 10 MB"):
        await at.adapter.send_file(replace(part(at.here), file=File(path=str(file))))

    assert await at.sim.calls(does="send_file") == []


async def _ended(running: Awaitable[None]) -> None:
    """A test whose line goes on for ever must fail."""
    async with asyncio.timeout(PATIENCE):
        await running


async def _until_connected(at: Scene) -> None:
    async def is_connected() -> bool:
        greeted = await at.sim.calls(method="dispatch", event="GUILD_CREATE")
        return bool(greeted) and any(
            session["connected"] for session in await at.sim.do("sessions")
        )

    await at.sim.until(is_connected)


async def _answered_with(at: Scene, answer: str) -> bool:
    return any(each["answer"] == answer for each in await at.sim.do("interactions"))


async def _are_offered(at: Scene, names: list[str]) -> bool:
    return sorted(command["name"] for command in await at.sim.do("commands")) == names


async def test_a_chat_that_nobody_wrote_from_can_be_named() -> None:
    adapter = discord.DiscordAdapter(discord.Account(token="none"), SystemClock())  # noqa: S106 - none
    try:
        channel, thread = adapter.source_of("5001", None), adapter.source_of("5001", "6001")
    finally:
        await adapter.close()

    assert (channel.chat_type, channel.chat_id, channel.thread_id) == (ChatType.GROUP, "5001", None)
    assert (thread.chat_type, thread.chat_id, thread.thread_id) == (ChatType.THREAD, "5001", "6001")
