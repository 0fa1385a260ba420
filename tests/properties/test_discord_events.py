"""
Whatever Discord's own document allows is read, nothing raises, and no word is lost: 20,000 events
at full length, 1,000 otherwise. So are events in which one value is of another type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from tests.full_length import is_full_length
from tests.simulators.discord.generator import Fields, Generator
from tests.specifications import NEEDED, load
from turngate.adapters.discord.channels import Channel
from turngate.adapters.discord.directory import direct
from turngate.adapters.discord.normalise import UNREADABLE, Me, normalise, unreadable
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.serialization import from_dict, to_dict
from turngate.gateway.rules.session_keys import build_session_key

pytestmark = NEEDED

CASES = 20_000 if is_full_length() else 1_000
PARTS = 10
ME = Me(id="7001", name="turn_bot", account="main", commands=frozenset({"new"}))
NOW = datetime(2026, 11, 1, tzinfo=UTC)
CHATS = (
    direct("9002"),
    Channel(channel="9002", kind=0, guild="9001", name="general"),
    Channel(channel="9003", kind=11, guild="9001", parent="9002", name="talk"),
    Channel(channel="9004", kind=3),
)
INTERACTIVE = (2, 3, 5, 6, 7, 8)


@cache
def notices() -> frozenset[int]:
    """The types of what Discord writes itself."""
    kinds = load("discord-openapi.json")["components"]["schemas"]["MessageType"]["oneOf"]
    people = ("DEFAULT", "REPLY", "CHAT_INPUT_COMMAND", "CONTEXT_MENU_COMMAND")
    return frozenset(each["const"] for each in kinds if each["title"] not in people)


def words_of(message: Mapping[str, Any]) -> Iterator[str]:
    """Everything that somebody wrote in a message, found in another way than the adapter does."""
    yield message.get("content") or ""
    for file in message.get("attachments") or ():
        yield file.get("description") or ""
    for sticker in message.get("sticker_items") or ():
        yield sticker["name"]
    for embed in message.get("embeds") or ():
        yield from (embed.get("title") or "", embed.get("description") or "")
        yield (embed.get("author") or {}).get("name") or ""
        yield (embed.get("footer") or {}).get("text") or ""
        for field in embed.get("fields") or ():
            yield from (field["name"], field["value"])
        yield from shown_in(embed.get("components") or ())
    if message.get("poll"):
        yield message["poll"]["question"].get("text") or ""
        for answer in message["poll"]["answers"]:
            yield answer["poll_media"].get("text") or ""
    yield from shown_in(message.get("components") or ())
    for snapshot in message.get("message_snapshots") or ():
        yield from words_of(snapshot["message"])


def shown_in(value: Any) -> Iterator[str]:
    """The texts of components, however deep."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from shown_in(each)
    elif isinstance(value, dict) and value.get("type") not in INTERACTIVE:
        yield from (value[name] for name in ("content", "description") if value.get(name))
        for name in ("components", "items", "accessory"):
            yield from shown_in(value.get(name))


def read(event: str, payload: dict[str, Any], chat: Channel) -> InboundMessage | None:
    """As the adapter does it."""
    try:
        return normalise(event, payload, chat, ME, NOW)
    except UNREADABLE:
        return unreadable(event, payload, chat, ME, NOW)


def check(message: InboundMessage) -> None:
    """It can be stored and read back, and belongs somewhere."""
    written = json.loads(json.dumps(to_dict(message)))
    assert from_dict(InboundMessage, written) == message
    assert build_session_key(message.source)


def seeds(part: int, begin: int = 0) -> range:
    """The numbers of the cases of one part, of half of all."""
    return range(begin + part, begin + CASES // 2, PARTS)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_message_of_the_document_is_read_with_all_its_words(part: int) -> None:
    for seed in seeds(part):
        generator = Generator(seed, list(Fields)[seed % 3])
        payload = generator.message()
        event = ("MESSAGE_CREATE", "MESSAGE_UPDATE")[seed % 2]
        chat = CHATS[seed % 4]

        message = normalise(event, payload, chat, ME, NOW)

        words = list(filter(None, words_of(payload)))
        is_told = event == "MESSAGE_CREATE" or payload["edited_timestamp"] is not None
        if message is None:
            assert payload["type"] in notices() or not words or not is_told, seed
        else:
            check(message)
            assert [word for word in words if word not in message.text] == [], seed


@pytest.mark.parametrize("part", range(PARTS))
def test_an_event_with_a_value_of_another_type_is_read_or_kept_whole(part: int) -> None:
    for seed in seeds(part, begin=CASES):
        generator = Generator(seed, list(Fields)[seed % 3])
        is_command = seed % 4 == 0
        payload = generator.interaction() if is_command else generator.message()
        event = "INTERACTION_CREATE" if is_command else "MESSAGE_CREATE"
        content = payload.get("content")
        generator.spoil(payload)

        message = read(event, payload, CHATS[seed % 3])

        if message is None:
            continue
        check(message)
        if message.kind is MessageKind.UNREADABLE:
            kept = json.loads(message.raw or "")
            assert (kept["t"], kept["d"]) == (event, payload)
        elif content and payload.get("content") == content:
            assert content in message.text, seed


def test_messages_of_the_generator_are_of_every_type_with_every_field() -> None:
    schema = load("discord-openapi.json")["components"]["schemas"]["MessageResponse"]
    made = [Generator(seed, Fields.ALL).message() for seed in range(400)]
    least = Generator(1, Fields.NONE).of("MessageResponse")

    assert {each["type"] for each in made} >= notices()
    assert all(set(schema["properties"]) <= set(each) for each in made)
    assert set(least) == set(schema["required"])
