"""What Discord may send that nobody has seen yet, and who else may answer with the bot's token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contracts.adapter_scene import Ear, Scene, listening_as_supervised, part
from tests.contracts.platforms.discord import DiscordUnderTest
from tests.scenarios.test_discord_adapter import (
    ANN,
    CHANNEL_SOURCE,
    DIRECT,
    HERE,
    bot,
    with_commands,
)
from tests.simulators.discord import GUILD
from tests.simulators.discord.ids import Clock as DiscordClock
from turngate.gateway.domain.errors import Retryable
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import ChatType, InboundMessage, MessageKind
from turngate.gateway.domain.serialization import from_dict, to_dict

ME = "7001"
IDS = DiscordClock()


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    """A fresh Discord and a bot. No bot may ask for what Discord forbids."""
    tested = DiscordUnderTest()
    async with tested.simulator() as sim:
        async with bot(sim) as adapter:
            yield Scene(tested=tested, sim=sim, adapter=adapter)
        assert await sim.violations() == []


def said(**more: Any) -> dict[str, Any]:
    """A message as the gateway tells it."""
    return {
        "id": str(IDS.new_id()),
        "channel_id": HERE,
        "guild_id": str(GUILD),
        "type": 0,
        "content": f"<@{ME}> hello",
        "author": {"id": ANN, "username": "ann"},
        "mentions": [{"id": ME, "username": "main-bot"}],
        "timestamp": datetime.now(UTC).isoformat(),
        **more,
    }


async def told(at: Scene, event: str, **data: Any) -> InboundMessage:
    """What becomes of an event; one that everybody can read follows it."""
    ear = Ear()
    async with at.listening(ear):
        await at.sim.do("tell", event=event, data=data)
        await at.say("after it")
        await ear.until(lambda: "after it" in ear.texts)
    (message,) = (each for each in ear.heard if each.text != "after it")
    return message


@pytest.mark.parametrize(
    "wrong",
    [
        {"author": {"id": ANN, "username": "ann", "global_name": {"no": "text"}}},
        {"author": {"id": int(ANN), "username": ["ann"], "bot": "no"}},
        {"member": {"nick": 7, "roles": None}},
        {"member": "nobody", "mentions": {"id": ME}, "mention_roles": 5},
        {"attachments": [{"id": "1", "filename": 9, "size": "ten", "url": "https://a.b/c"}, None]},
        {"embeds": "none", "components": [{"type": 99, "components": 3}], "poll": []},
        {"type": "0", "flags": "many", "timestamp": 12},
        {"attachments": [{"id": "1", "size": 2**70, "url": "https://a.b/c"}]},
        {"message_reference": "none", "referenced_message": 4, "message_snapshots": [{}, 1]},
    ],
    ids=lambda wrong: "-".join(wrong),
)
async def test_a_value_of_the_wrong_type_is_left_out_and_the_words_are_kept(
    at: Scene, wrong: dict[str, Any]
) -> None:
    """Finding R6: it was stored, and the next start called the whole store damaged."""
    message = await told(at, "MESSAGE_CREATE", **said(**wrong))

    assert message.text == "hello"
    assert from_dict(InboundMessage, json.loads(json.dumps(to_dict(message)))) == message


async def test_names_of_channels_and_servers_of_the_wrong_type_are_left_out(at: Scene) -> None:
    """Finding R6."""
    ear = Ear()
    async with at.listening(ear):
        guild = {"id": str(GUILD), "name": ["no"], "roles": [{"id": "5", "name": 5}, 7]}
        channel = {"id": HERE, "type": "text", "name": {}, "topic": 3, "guild_id": str(GUILD)}
        await at.sim.do("tell", event="GUILD_UPDATE", data=guild)
        await at.sim.do("tell", event="CHANNEL_UPDATE", data=channel)
        await at.sim.do("tell", event="THREAD_UPDATE", data={"id": None})
        await at.sim.say("hello", chat=HERE, user=ANN)
        (message,) = await ear.until_heard()

    assert (message.source.chat_name, message.source.chat_topic) == (None, None)
    assert from_dict(InboundMessage, to_dict(message)) == message


@pytest.mark.parametrize(
    ("event", "broken"),
    [
        ("MESSAGE_CREATE", {"author": None}),
        ("MESSAGE_CREATE", {"author": {"id": "ann"}}),
        ("MESSAGE_CREATE", {"id": {"no": 1}}),
        ("MESSAGE_CREATE", {"channel_id": [], "guild_id": None, "author": 5}),
        ("MESSAGE_UPDATE", {"edited_timestamp": "2026-01-01", "author": 3}),
        ("MESSAGE_DELETE", {"id": None}),
    ],
)
async def test_an_event_that_cannot_be_read_is_kept_as_it_came(
    at: Scene, event: str, broken: dict[str, Any]
) -> None:
    """Findings H4 and R6: "an event was left out" was all that became of it."""
    data = said(**broken)

    message = await told(at, event, **data)

    assert message.kind is MessageKind.UNREADABLE
    kept = json.loads(message.raw or "")
    assert (kept["t"], kept["d"]) == (event, data)
    assert from_dict(InboundMessage, to_dict(message)) == message


async def test_an_event_that_was_set_aside_is_read_again_after_an_upgrade(at: Scene) -> None:
    data = said()
    ear = Ear()
    async with at.listening(ear):
        await at.say("first")
        await ear.until_heard()
        message = await at.adapter.read_again(json.dumps({"t": "MESSAGE_CREATE", "d": data}))
        with pytest.raises(ValueError, match="still cannot be read"):
            await at.adapter.read_again(json.dumps({"t": "MESSAGE_CREATE", "d": {"id": "1"}}))
        with pytest.raises(ValueError, match="still cannot be read"):
            await at.adapter.read_again("[]")

    assert message.text == "hello"
    assert message.source.nameless == CHANNEL_SOURCE


async def test_one_from_the_history_is_read_again_as_of_its_server(at: Scene) -> None:
    """The history does not name it: it must not become a direct message."""
    data = {name: value for name, value in said().items() if name != "guild_id"}
    raw = json.dumps({"t": "MESSAGE_CREATE", "d": data, "guild_id": str(GUILD)})

    message = await at.adapter.read_again(raw)

    assert message is not None
    assert message.source.nameless == CHANNEL_SOURCE


async def test_one_that_was_set_aside_is_the_same_event_in_the_history(at: Scene) -> None:
    """It must not be set aside twice, nor be asked for ever by a catch-up."""
    data = said(author={"id": "somebody"})
    live = await told(at, "MESSAGE_CREATE", **data)
    rest = {name: value for name, value in data.items() if name != "guild_id"}
    chat = await at.adapter._directory.find(HERE)
    read = await at.adapter._reader.read("MESSAGE_CREATE", rest, chat)

    assert live.event_ids == read.event_ids
    assert live.kind is read.kind is MessageKind.UNREADABLE


@pytest.mark.parametrize("kind", [13, 33, 47, 900])
async def test_a_message_of_a_type_that_is_not_known_keeps_its_words(at: Scene, kind: int) -> None:
    message = await told(at, "MESSAGE_CREATE", **said(type=kind))

    assert (message.kind, message.text) == (MessageKind.NEW, "hello")


async def test_components_that_are_not_known_keep_their_words(at: Scene) -> None:
    inner = {"type": 98, "label": "Ann says", "component": {"type": 97, "content": "good day"}}
    data = said(content="", components=[{"type": 99, "items": [inner]}])

    message = await told(at, "MESSAGE_CREATE", **data)

    assert message.text == "[shown: Ann says]\n[shown: good day]"


async def test_a_command_in_a_group_is_not_said_in_private(at: Scene) -> None:
    """Finding M1: it passed the guard "not here, where others read along"."""
    ear = Ear()
    async with with_commands(at, ear) as adapter:
        await at.sim.do("command", chat=DIRECT.chat_id, user=ANN, name="help", kind="group")
        (command,) = await ear.until_heard()
        await adapter.send(replace(part(command.source, "Help."), reply_to=command.id))

    (shown,) = await at.sim.messages()
    assert command.source.chat_type is ChatType.GROUP
    assert shown["only_for"] == ANN


async def test_commands_are_offered_in_servers_and_to_the_bot_alone(at: Scene) -> None:
    """Finding M1: by default they are offered to users for their chats with others too."""
    async with with_commands(at, Ear()):
        pass

    for command in await at.sim.do("commands"):
        assert (command["contexts"], command["integration_types"]) == ([0, 1], [0])


async def test_answers_to_commands_are_seen_by_who_asked_alone(at: Scene) -> None:
    """Findings A3 and E19: they stood in the channel, for all to read."""
    ear = Ear()
    async with with_commands(at, ear) as adapter:
        await at.sim.do("command", chat=HERE, user=ANN, name="help")
        (command,) = await ear.until_heard()
        for number, text in enumerate(("Help.", "More help.", "Still more."), start=1):
            answer = replace(part(command.source, text, number), reply_to=command.id)
            sent = await adapter.send(answer)
        await adapter.edit(replace(answer, text="The end."), sent.message_id)

    shown = [(each["text"], each["only_for"]) for each in await at.sim.messages()]
    assert shown == [("Help.", ANN), ("More help.", ANN), ("The end.", ANN)]
    assert await at.sim.do("history", chat=HERE) == []


async def test_a_turn_that_a_command_begins_is_answered_for_all(at: Scene) -> None:
    """As after /retry: it is the conversation that goes on."""
    ear = Ear()
    async with with_commands(at, ear) as adapter:
        await at.sim.do("command", chat=HERE, user=ANN, name="help")
        (command,) = await ear.until_heard()
        answer = replace(part(command.source, "Again."), reply_to=command.id, turn=TurnId(4))
        await adapter.send(answer)

    assert [each["text"] for each in await at.sim.do("history", chat=HERE)] == ["Again."]
    (used,) = await at.sim.do("interactions")
    assert not used["thinking"]


@pytest.mark.parametrize(("kind", "answer"), [("user", "message"), ("message", "message")])
async def test_commands_of_an_earlier_bot_are_answered_in_words(
    at: Scene, kind: str, answer: str
) -> None:
    """Finding A3: Discord showed "is thinking" for a quarter of an hour."""
    await at.sim.say("about this", chat=HERE, user=ANN)
    async with listening_as_supervised(at.adapter, Ear().receive):
        await at.sim.do("command", chat=HERE, user=ANN, name="Translate", kind=kind)
        await at.sim.until(lambda: is_answered(at, answer))

    (shown,) = await at.sim.messages()
    assert "no longer offered" in shown["text"]
    assert shown["only_for"] == ANN


async def test_completions_of_an_earlier_bot_are_answered_with_no_choices(at: Scene) -> None:
    """Finding A3."""
    async with at.listening(Ear()):
        await at.sim.do("command", chat=HERE, user=ANN, name="ask", kind="completion")
        await at.sim.until(lambda: is_answered(at, "choices"))

    assert await at.sim.messages() == []


async def is_answered(at: Scene, answer: str) -> bool:
    """Whether the last interaction has this first answer."""
    return [each["answer"] for each in await at.sim.do("interactions")] == [answer]


async def test_two_programs_with_one_token_both_stop_at_the_first_answer(at: Scene) -> None:
    """Finding R9: both answered everything, and both were ready."""
    ears = Ear(), Ear()
    async with bot(at.sim) as other:
        adapters = at.adapter, other
        running = [
            asyncio.ensure_future(adapter.run(ear.receive))
            for adapter, ear in zip(adapters, ears, strict=True)
        ]

        async def both_listen() -> bool:
            return len(await at.sim.do("sessions")) == 2

        await at.sim.until(both_listen)
        await at.sim.do("later", seconds=120.0)
        asked = await at.say("hello")
        for number, (adapter, ear) in enumerate(zip(adapters, ears, strict=True), start=1):
            (message,) = await ear.until_heard()
            await adapter.send(replace(part(message.source, f"{number}", number), reply_to=asked))

        done = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 10)

    assert [type(each).__name__ for each in done] == ["AnsweredElsewhere"] * 2


@pytest.mark.parametrize("after", [timedelta(seconds=1), timedelta(minutes=5)])
async def test_who_answers_beside_another_program_stops_and_says_so(
    at: Scene, after: timedelta
) -> None:
    """Finding R9: two daemons with one token answered everything twice, and said nothing."""
    ear = Ear()
    running = asyncio.ensure_future(at.adapter.run(ear.receive))
    await at.sim.until(lambda: at.sim.do("sessions"))
    asked = await at.say("hello")
    await ear.until_heard()
    later = datetime.now(UTC) + after
    foreign = said(
        id=str(IDS.new_id(later.timestamp())),
        channel_id=DIRECT.chat_id,
        author={"id": ME, "username": "main-bot", "bot": True},
        message_reference={"message_id": asked},
        nonce="0123456789abcdef",
    )
    await at.sim.do("tell", event="MESSAGE_CREATE", data=foreign)

    with pytest.raises(Retryable, match="another program answers with this bot's token"):
        await asyncio.wait_for(running, 10)
    for verb in (at.adapter.run(ear.receive), at.adapter.platform_time()):
        with pytest.raises(Retryable, match="then restart Turngate"):
            await verb


@pytest.mark.parametrize("minutes", [0, 45])
async def test_what_an_earlier_run_sent_or_a_script_posts_is_no_other_program(
    at: Scene, minutes: int
) -> None:
    ear = Ear()
    moment = datetime.now(UTC) + timedelta(minutes=minutes)
    late = said(
        id=str(IDS.new_id(moment.timestamp())),
        author={"id": ME, "username": "main-bot", "bot": True},
        nonce="0123456789abcdef",
    )
    async with at.listening(ear):
        await at.sim.say("hello", chat=HERE, user=ANN)
        await ear.until_heard()
        await at.sim.do("tell", event="MESSAGE_CREATE", data=late)
        await at.say("still there?")
        await ear.until_heard(2)
