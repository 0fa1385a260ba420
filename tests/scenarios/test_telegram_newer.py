"""
What Telegram sends tomorrow: nothing that a person wrote is lost, and nothing that was sent counts
as perhaps not sent, because something around it is newer than this version.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contracts.adapter_scene import Ear, Scene, gateway, listening, part
from tests.contracts.platforms.telegram import TelegramUnderTest
from tests.simulators.telegram import TOKENS
from turngate.adapters.telegram import plugin
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    ChatType,
    InboxState,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import Button
from turngate.gateway.domain.ports.adapter import MenuEntry
from turngate.gateway.rules.authorization import Refusal

PERSON = {"id": 71001, "is_bot": False, "first_name": "Ann"}
PRIVATE = {"id": 71001, "type": "private", "first_name": "Ann"}
SECRET = "what nobody else must read"  # noqa: S105
DIRECT = SessionSource(
    platform="telegram", chat_id="-1000000005003", user_id="71001", chat_type=ChatType.GROUP
)


@pytest.fixture
async def at() -> AsyncIterator[Scene]:
    """A fresh Telegram and a bot."""
    tested = TelegramUnderTest()
    async with tested.simulator() as sim, tested.adapter(sim) as adapter:
        yield Scene(tested=tested, sim=sim, adapter=adapter)
        assert await sim.violations() == []


async def heard(at: Scene, ear: Ear, count: int) -> None:
    """Until that many messages came, and Telegram was told that we have them."""
    async with at.listening(ear):
        await ear.until_heard(count)
        await at.sim.until(at.all_is_acknowledged)


async def test_words_are_read_whatever_is_around_them(at: Scene) -> None:
    """Findings H2 and R19: aiogram's closed types made the whole update invalid."""
    ear = Ear()
    await at.say("a first word")
    for around in (
        {"forward_origin": {"type": "orbit"}},
        {"reply_to_message": {"message_id": 1, "rich_message": {"blocks": [{"type": "chart"}]}}},
        {"external_reply": {"origin": {"type": "orbit"}}},
        {"paid_media": {"paid_media": [{"type": "hologram"}]}},
        {"hologram": {"size": 3}},
    ):
        await at.say(f"beside {next(iter(around))}", newer=around)
    await heard(at, ear, 6)

    assert [text.splitlines()[0] for text in ear.texts[1:]] == [
        "beside forward_origin",
        "beside reply_to_message",
        "beside external_reply",
        "beside paid_media",
        "beside hologram",
    ]


async def test_a_chat_of_a_new_type_and_a_cut_emoji_stop_nobody(at: Scene) -> None:
    """Findings H4 and R3: the same update was fetched for ever, and nobody was answered."""
    ear = Ear()
    place = replace(at.here, chat_id="-77", chat_type=ChatType.GROUP)
    await at.sim.do("open", chat="-77", type="community", title="All")
    await at.say("from a chat of a new type", to=place)
    bold = {"type": "bold", "offset": 1, "length": 2}
    await at.say("😀 and a cut emoji", more={"entities": [bold]})
    await at.say("and then this")
    await heard(at, ear, 3)

    assert sorted(ear.texts) == [
        "and then this",
        "from a chat of a new type",
        "😀 and a cut emoji",
    ]
    assert ear.heard[0].source.chat_type is ChatType.GROUP


async def test_what_cannot_be_read_is_set_aside_and_can_be_read_again(
    at: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Findings H2, H4 and R3: it is confirmed, others are heard, and its raw form is kept."""
    ear = Ear()
    strange = {"date": 1, "chat": PRIVATE, "from": PERSON, "text": SECRET}
    hologram = strange | {"message_id": 9, "hologram": {"words": SECRET}}
    del hologram["text"]
    await at.say("a first word")
    await at.sim.do("update", kind="message", payload=strange, newer=True)
    await at.sim.do("update", kind="message", payload=hologram, newer=True)
    await at.sim.do("update", kind="message", payload={}, newer=True)
    await at.say("and then this")
    with caplog.at_level(logging.WARNING):
        await heard(at, ear, 5)

    by_number = sorted(ear.heard, key=lambda message: message.event_ids[0])
    aside = [each for each in by_number if each.kind is MessageKind.UNREADABLE]
    assert [each.source.chat_id for each in aside] == ["71001", "71001", None]
    assert [each.source.user_id for each in aside] == ["71001", "71001", None]
    assert {"a first word", "and then this"} <= set(ear.texts)
    assert aside[1].event_ids[1] == "message:71001:9"
    for each in aside:
        with pytest.raises(ValueError, match="form"):
            await at.adapter.read_again(each.raw)
    assert "message.hologram" in caplog.text
    assert SECRET not in caplog.text

    later = json.loads(aside[0].raw or "")
    later["message"]["message_id"] = 7
    again = await at.adapter.read_again(json.dumps(later))
    assert (again.text, again.kind) == (SECRET, MessageKind.NEW)


async def test_of_an_answer_only_the_id_is_needed(at: Scene, tmp_path: Path) -> None:
    """Finding H2: what was sent counted as perhaps not sent, and was sent again."""
    file = tmp_path / "a.pdf"
    file.write_bytes(b"x")
    button = Button(label="Yes", nonce="0f" * 16)
    await at.sim.fault("newer", times=None)

    sent = await at.adapter.send(part(at.here, "words"))
    await at.adapter.edit(part(at.here, "other words"), sent.message_id)
    asked = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=(button,)))
    table = await at.adapter.send(part(at.here, "| a |\n|---|\n| 1 |"))
    filed = await at.adapter.send_file(replace(part(at.here, ""), file=File(path=str(file))))

    ids = [each["id"] for each in await at.sim.messages()]
    assert ids == [each.message_id for each in (sent, asked, table, filed)]


async def test_a_rich_message_of_a_person_is_read_and_so_is_one_that_is_replied_to(
    at: Scene,
) -> None:
    """Finding H3: it had neither text nor caption, and the person got nothing."""
    ear = Ear()
    blocks = [
        {"type": "heading", "text": "Plan", "size": 1},
        {"type": "paragraph", "text": ["Call ", {"type": "bold", "text": "Bob"}]},
    ]
    sent = await at.adapter.send(part(at.here, "| a | b |\n|---|---|\n| 1 | 2 |"))
    await at.say("", more={"rich_message": {"blocks": blocks}})
    await at.say("why?", reply_to=sent.message_id)
    await heard(at, ear, 2)

    assert ear.texts == ["# Plan\n\nCall Bob", "why?"]
    assert ear.heard[1].reply_to is not None
    assert ear.heard[1].reply_to.text == "| a | b |\n|---|---|\n| 1 | 2 |"


async def test_who_writes_to_a_channel_is_answered_in_their_topic(
    at: Scene, tmp_path: Path
) -> None:
    """Finding M5: Telegram takes nothing there that does not say for whom it is."""
    ear = Ear()
    file = tmp_path / "a.pdf"
    file.write_bytes(b"x")
    await at.sim.do("open", chat=DIRECT.chat_id, type="supergroup", direct=True, title="News")
    await at.say("@main_bot hello", to=DIRECT)
    await at.say("@main_bot and me", to=replace(DIRECT, user_id="71002"))
    await heard(at, ear, 2)
    ann, bob = (each.source for each in ear.heard)

    await at.adapter.send(part(ann, "to Ann"))
    await at.adapter.send(part(bob, "| a |\n|---|\n| 1 |"))
    await at.adapter.send_file(replace(part(bob, ""), file=File(path=str(file))))

    assert (ann.thread_id, bob.thread_id) == ("direct-71001", "direct-71002")
    calls = [call for call in await at.sim.calls() if call["does"] in ("send", "send_file")]
    topics = [call["parameters"]["direct_messages_topic_id"] for call in calls]
    assert topics == [71001, 71002, 71002]


@pytest.mark.parametrize(
    ("kind", "more", "why"),
    [
        ("guest_message", {"guest_query_id": "1"}, "guest mode is not supported"),
        ("business_message", {"business_connection_id": "1"}, "business chats are not supported"),
    ],
)
async def test_where_it_cannot_answer_a_row_says_why(
    at: Scene, tmp_path: Path, kind: str, more: dict[str, str], why: str
) -> None:
    """Finding M5: guest mode and business chats were not even asked for."""
    payload = {"message_id": 5, "date": 1, "chat": PRIVATE, "from": PERSON, "text": SECRET, **more}
    async with gateway(tmp_path, at) as running:
        await at.say("hello")
        await at.until_answered("hello")
        await at.sim.do("update", kind=kind, payload=payload)
        await at.sim.until(at.all_is_acknowledged)

        (row,) = await running.store.inbox(InboxState.REFUSED)
        assert (row.reason or "").startswith(why)
        assert row.message.text == ""


async def test_an_answer_to_a_command_in_a_group_is_for_the_asker_alone(at: Scene) -> None:
    """A low finding of A3: what concerns one person is not for the whole group to read."""
    group = SessionSource(
        platform="telegram", chat_id="-5001", user_id="71001", chat_type=ChatType.GROUP
    )
    commands = (MenuEntry(name="status", summary="how it is"),)
    account = plugin.Account(token=TOKENS["main"], api_url=at.sim.url, commands=commands)
    adapter = plugin.TelegramAdapter(account, SystemClock())
    ear = Ear()
    async with listening(adapter, ear.receive):
        asked = await at.say("/status", to=group)
        old = await at.say("/status", to=group, at=1_700_000_000)
        in_private = await at.say("/status")
        await ear.until_heard(3)
    place = ear.heard[0].source

    sent = await adapter.send(replace(part(place, "All is well."), reply_to=asked))
    await adapter.edit(part(place, "All is *very* well."), sent.message_id)
    await adapter.send(replace(part(place, "an answer"), reply_to=asked, turn=TurnId(7)))
    await adapter.send(replace(part(place, "too late"), reply_to=old))
    await adapter.send(replace(part(at.here, "in private"), reply_to=in_private))
    again = replace(part(place, "to what only we see"), reply_to=sent.message_id, turn=TurnId(7))
    await adapter.send(again)
    await at.sim.fault("400", does="send")
    await adapter.send(replace(part(place, "to all instead"), reply_to=asked))
    await at.sim.fault("400", does="send")
    with pytest.raises(Undeliverable):
        await adapter.send(again)
    await adapter.react(place, sent.message_id, "👀")
    await adapter.close()

    assert [(each["text"], each["only_for"]) for each in await at.sim.messages()] == [
        ("All is very well.", "71001"),
        ("an answer", None),
        ("too late", None),
        ("in private", None),
        ("to what only we see", "71001"),
        ("to all instead", None),
    ]


def test_a_refusal_has_words_for_it() -> None:
    """An adapter may say why; the rest is said in general."""
    assert "answer" in Refusal.UNANSWERABLE
