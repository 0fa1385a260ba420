"""
Updates made from Telegram's own specification, with types that nobody knows yet among them: no
exception, and no word lost.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests import specifications
from tests.full_length import is_full_length
from tests.simulators.telegram.specification import Generator, check
from turngate.adapters.telegram.normalise import (
    HANDLED,
    Me,
    UnreadableError,
    normalise,
    unreadable,
)
from turngate.adapters.telegram.rich_text import _KNOWN_FIELDS
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.serialization import from_dict, to_dict

ME = Me(id=4_000_000_001, username="turn_bot", account="main", commands=frozenset({"new"}))
NOW = datetime(2026, 9, 1, tzinfo=UTC)
CASES = 20_000 if is_full_length() else 1_000
TYPES = (
    sorted(specifications.load("telegram-bot-api-10.3.json")["types"])
    if (specifications.is_there())
    else []
)
WORD = re.compile(r"w[oö]rd\d+x")
TYPE_OF = {
    "callback_query": "CallbackQuery",
    "stopped_message_generation": "MessageGenerationStopped",
}
# Of a rich message these are read; other strings are names and addresses.
FILES = {"animation", "audio", "photo", "video", "voice_note", "document", "user", "location"}
READ = ("text", "expression", "alternative_text", "summary", "credit", "caption")

pytestmark = specifications.NEEDED


@pytest.mark.parametrize("part", range(10))
def test_no_update_is_too_strange_and_no_word_is_lost(part: int) -> None:
    """Findings H2, H3, H4, R3 and R19, against everything that Telegram documents."""
    for number in range(part, CASES, 10):
        update = made(random.Random(number), is_wrong=is_wrong(number))
        # What comes over the wire is JSON: a copy has no shared or special objects.
        read = json.loads(json.dumps(update))

        message = converted(read)

        # Whatever normalise meets with, this must work.
        assert json.loads(unreadable(read, ME, NOW).raw or "") == read, f"case {number}"
        if message is not None:
            assert from_dict(InboundMessage, to_dict(message)) == message, f"case {number}"
            assert is_wrong(number) or not lost(read, message), f"case {number}"


def is_wrong(number: int) -> bool:
    """Whether fields of this case are not even of their own types."""
    return number % 4 == 0


def made(rng: random.Random, *, is_wrong: bool) -> dict[str, Any]:
    """One update: of a kind that is asked for, with few or many optional fields."""
    generator = Generator(
        rng=rng,
        often=rng.choice([0.0, 0.1, 0.1, 0.2, 0.4]),
        strange=rng.choice([0.0, 0.0, 0.1]),
        wrong=0.2 if is_wrong else 0.0,
        deepest=rng.choice([2, 3, 4]),
    )
    kind = rng.choice(HANDLED)
    content = generator.make(TYPE_OF.get(kind, "Message"))
    if kind not in TYPE_OF and isinstance(content, dict):
        said = rng.choice(["text", "caption", "rich_message"])
        content[said] = generator.make("RichMessage" if said == "rich_message" else "String")
    return {"update_id": rng.randrange(1, 10**9), kind: content}


def converted(update: dict[str, Any]) -> InboundMessage | None:
    """As the intake does it. Only what lacks the necessary may be unreadable."""
    try:
        return normalise(update, ME, NOW)
    except UnreadableError:
        return unreadable(update, ME, NOW)


def lost(update: dict[str, Any], message: InboundMessage) -> set[str]:
    """The words of a message of a person that are in nothing that was made of it."""
    kind = next(kind for kind in HANDLED if kind in update)
    content = update[kind]
    is_talk = kind not in TYPE_OF and message.kind not in (
        MessageKind.MOVED,
        MessageKind.UNREADABLE,
    )
    if not isinstance(content, dict) or not is_talk or message.unanswerable:
        return set()
    rich = rich_words(content.get("rich_message"))
    written = [content.get("text"), content.get("caption"), *rich]
    words = {word for each in written if isinstance(each, str) for word in WORD.findall(each)}
    return words - set(WORD.findall(message.text))


def rich_words(written: Any, name: str = "") -> Iterator[str]:
    """The strings of a rich message that people read. Unknown objects are not looked into."""
    match written:
        case str() if name in READ:
            yield written
        case list():
            for each in written:
                yield from rich_words(each, name)
        case {"type": "orbit"} | {"type": "anchor"}:
            return
        case dict():
            for inside in written.keys() - FILES:
                value = written[inside]
                yield from rich_words(value, inside)


def test_every_field_of_rich_messages_is_known() -> None:
    """What is not known is searched for words, so a known one there would be said twice."""
    types = specifications.load("telegram-bot-api-10.3.json")["types"]
    rich = [name for name in types if name.startswith("Rich")]
    fields = {field["name"] for name in rich for field in types[name].get("fields") or ()}

    assert fields == _KNOWN_FIELDS


@pytest.mark.parametrize("often", [0.0, 1.0])
def test_whatever_is_made_from_the_specification_is_as_specified(often: float) -> None:
    """Every type, with all optional fields and with none."""
    for kind in TYPES:
        check(kind, Generator(rng=random.Random(kind), often=often, deepest=2).make(kind))


def test_what_is_not_as_specified_is_found() -> None:
    user = {"id": 1, "is_bot": False, "first_name": "Ann"}

    check("User", user)
    for wrong in (user | {"id": "1"}, user | {"colour": 1}, {"id": 1, "is_bot": False}):
        with pytest.raises(ValueError, match="specifies"):
            check("User", wrong)
