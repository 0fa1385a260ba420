"""
Text as Telegram takes it: https://core.telegram.org/bots/api#formatting-options

Lengths and offsets count UTF-16 code units. `formatted` makes what a bot passed into what people
see, or raises in Telegram's own words; `detected` finds what Telegram finds by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulators.telegram import rules
from tests.simulators.telegram.markup import Entity, Formatted, read, units

LONGEST_SOURCE = 1 << 15

_DETECTED = (
    (
        "url",
        re.compile(
            r"\bhttps?://[^\s<>\"']+[^\s<>\"'.,;:!?)]|\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev)\b",
            re.I,
        ),
    ),
    ("email", re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]*\w")),
    ("bot_command", re.compile(r"(?<![\w/<>])/[A-Za-z0-9_]{1,64}(?:@\w{3,32})?(?![\w/])")),
    ("mention", re.compile(r"(?<![\w@/])@[A-Za-z]\w{2,31}\b")),
    ("hashtag", re.compile(r"(?<![\w#])#\w*[^\W\d]\w*")),
    ("cashtag", re.compile(r"(?<![\w$])\$[A-Z]{1,8}(?!\w)")),
)


def formatted(
    text: str, parse_mode: object, entities: Sequence[Mapping[str, Any]] | None
) -> Formatted:
    """The text without its marks, trimmed, with everything in it that is more than letters."""
    if len(text.encode(errors="surrogatepass")) > LONGEST_SOURCE:
        raise rules.bad("text is too long", rules.TEXT)
    mode = str(parse_mode or "").lower()
    if mode in ("", "none"):
        parsed = Formatted(text, [dict(entity) for entity in entities or []])
        _check_places(parsed)
    else:
        parsed = read(text, mode)
    return detected(_trimmed(_cleaned(parsed)))


def detected(given: Formatted) -> Formatted:
    """With links, mentions, commands and so on, where nothing else is in their place."""
    taken = [
        (each["offset"], each["offset"] + each["length"])
        for each in given.entities
        if each["type"] in _OPAQUE
    ]
    found = []
    for kind, pattern in _DETECTED:
        for match in pattern.finditer(given.text):
            start = units(given.text[: match.start()])
            end = start + units(match.group())
            if all(end <= begin or start >= stop for begin, stop in taken):
                taken.append((start, end))
                found.append({"type": kind, "offset": start, "length": end - start})
    entities = sorted([*given.entities, *found], key=lambda each: (each["offset"], -each["length"]))
    return Formatted(given.text, entities)


_OPAQUE = {
    "code",
    "pre",
    "text_link",
    "text_mention",
    "custom_emoji",
    *(kind for kind, _ in _DETECTED),
}


def _check_places(given: Formatted) -> None:
    """Entities lie within the text and cut no character in two."""
    places, at = set(), 0
    for character in given.text:
        places.add(at)
        at += units(character)
    places.add(at)
    for entity in given.entities:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start < 0 or entity["length"] < 0:
            raise rules.bad("receive an entity with incorrect offset or length", rules.ENTITIES)
        if end > at:
            told = (
                f"entity beginning at UTF-16 offset {start} ends after the end of the text "
                f"at UTF-16 offset {end}"
            )
            raise rules.bad(told, rules.ENTITIES)
        for place, word in ((start, "begins"), (end, "ends")):
            if place not in places:
                told = (
                    f"entity beginning at UTF-16 offset {start} {word} in a middle of a "
                    "UTF-16 symbol"
                )
                raise rules.bad(told, rules.ENTITIES)


def _cleaned(given: Formatted) -> Formatted:
    """Without what Telegram never keeps; entities shrink with it."""
    kept, shift, at = [], list[tuple[int, int]](), 0
    for character in given.text:
        size = units(character)
        new = _kept(character)
        if not new:
            shift.append((at, size))
        kept.append(new)
        at += size
    return Formatted("".join(kept), [_moved(entity, shift) for entity in given.entities])


def _kept(character: str) -> str:
    code = ord(character)
    if character == "\r" or 0x2028 <= code <= 0x202E or code in (0x333, 0x33F, 0x30A):
        return ""
    if 0xD800 <= code <= 0xDFFF:
        return "?"
    return " " if code < 32 and character != "\n" else character


def _moved(entity: Entity, removed: list[tuple[int, int]]) -> Entity:
    start, end = entity["offset"], entity["offset"] + entity["length"]
    before = sum(size for at, size in removed if at < start)
    within = sum(size for at, size in removed if start <= at < end)
    return entity | {"offset": start - before, "length": entity["length"] - within}


def _trimmed(given: Formatted) -> Formatted:
    """
    Without white space at the end, and at the beginning up to the first entity, as td's
    fix_formatted_text does it. Entities that are empty then are gone.
    """
    blanks = len(given.text) - len(given.text.lstrip(" \n"))
    first = min((entity["offset"] for entity in given.entities), default=blanks)
    lead = min(blanks, first)
    text = given.text[lead:].rstrip(" \n")
    if not text.strip(" \n"):
        return Formatted("", [])
    end, entities = units(text), []
    for entity in given.entities:
        start = max(0, entity["offset"] - lead)
        stop = min(end, entity["offset"] + entity["length"] - lead)
        if stop > start:
            entities.append(entity | {"offset": start, "length": stop - start})
    return Formatted(text, entities)
