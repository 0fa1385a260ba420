"""
Markdown as Telegram shows it: plain words, and entities that say which of them are bold, code or a link.

No word gets lost on the way. What the converter would leave out (HTML, links that lead nowhere) stands there as it was
written. An agent's "@somebody" is text: only `<@ID>`, which the gateway itself has put there, calls a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pyromark
from telegramify_markdown import MessageEntity, RenderConfig, convert
from telegramify_markdown.converter import STANDARD_OPTIONS

LARGEST_TEXT = 4096
LARGEST_CAPTION = 1024
"""Both in UTF-16 units, counted after conversion."""

_MOST_PASSES = 8
_CALL = re.compile(r"<@(\d{1,19})>")
# A name right behind an @ that no letter stands before: Telegram would call whoever has it.
_NAME = re.compile(r"(?<![\w@])@(?=\w)")
_QUIET_AT = "@\u2060"
_LINKS = ("http://", "https://")
_CODE = ("pre", "code")

NameOf = Callable[[str], str | None]
"""What a person is called, by id; None if nobody knows."""


@dataclass(frozen=True, slots=True)
class Marked:
    """Words, and what is special about them; positions are in UTF-16 units."""

    text: str
    entities: tuple[dict[str, Any], ...] = ()

    @property
    def size(self) -> int:
        """As Telegram counts."""
        return units(self.text)


def units(text: str) -> int:
    """How many UTF-16 units a text has."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def marked(markdown: str, name_of: NameOf = lambda _: None) -> Marked:
    """Convert. What would be nothing after that stays as it was written."""
    text, entities = convert(_without_html(_scrubbed(markdown)), latex_escape=False, config=_CONFIG)
    rewritten = _rewritten(text, entities, name_of)
    return rewritten if rewritten.text else plain(markdown)


def needs_rich(markdown: str) -> bool:
    """
    Whether there is a table in it, which words and entities show poorly.

    Not with a person to be called: a rich message would call whomever the agent names, or nobody.
    """
    if "|" not in markdown or _CALL.search(markdown) or "tg://" in markdown:
        return False
    events: Iterable[tuple[Any, Any]] = pyromark.events_with_range(
        _scrubbed(markdown), options=STANDARD_OPTIONS
    )
    begun = (event.get("Start") for event, _ in events if isinstance(event, dict))
    return any(isinstance(block, dict) and "Table" in block for block in begun)


def plain(markdown: str) -> Marked:
    """As it was written, every character of it."""
    return Marked(_scrubbed(markdown).strip())


def _scrubbed(text: str) -> str:
    """Half of a character is none: Telegram takes valid Unicode only."""
    return text.encode("utf-8", "replace").decode()


def _without_html(markdown: str) -> str:
    """The same text with a backslash before every < that would begin HTML: tags would be left out."""
    text = markdown
    for _ in range(_MOST_PASSES):
        if "<" not in text:
            break
        source = text.encode()
        places = sorted(
            set(_tags(source, pyromark.events_with_range(text, options=STANDARD_OPTIONS)))
        )
        if not places:
            break
        bounds = [0, *places, len(source)]
        text = b"\\".join(source[start:end] for start, end in pairwise(bounds)).decode()
    return text


def _tags(source: bytes, events: Iterable[tuple[Any, Any]]) -> Iterable[int]:
    """Where in the bytes tags begin."""
    for event, place in events:
        if isinstance(event, dict) and ("InlineHtml" in event or "Html" in event):
            tags = source[place["start"] : place["end"]]
            yield from (place["start"] + found.start() for found in re.finditer(rb"<", tags))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Of so many characters of the text; `url` is what the new words lead to."""

    start: int
    end: int
    words: str
    url: str | None = None


def _rewritten(text: str, entities: Sequence[MessageEntity], name_of: NameOf) -> Marked:
    """Mentions made harmless or real, links that lead nowhere written out, blanks at both ends left out."""
    at = _Places(text)
    code = [at.stretch(each) for each in entities if each.type in _CODE]
    dead = [
        each for each in entities if each.type == "text_link" and not _leads_somewhere(each.url)
    ]
    changes = [_written_out(each, at) for each in dead]
    for pattern, change in ((_CALL, lambda found: _call(found, name_of)), (_NAME, _quiet)):
        changes += [
            change(found) for found in pattern.finditer(text) if not _inside(found.start(), code)
        ]
    changes += (
        [_Change(start=0, end=len(text) - len(text.lstrip()), words="")]
        if text[:1].isspace()
        else []
    )
    kept = len(text.rstrip())
    changes += (
        [_Change(start=kept, end=len(text), words="")] if kept < len(text) and text.strip() else []
    )
    living = [each for each in entities if each not in dead]
    return _applied(
        text, living, sorted(changes, key=lambda change: (change.start, change.end)), at
    )


def _leads_somewhere(url: str | None) -> bool:
    return url is not None and url.lower().startswith(_LINKS)


def _written_out(link: MessageEntity, at: _Places) -> _Change:
    _, end = at.stretch(link)
    return _Change(start=end, end=end, words=f" ({link.url})")


def _call(found: re.Match[str], name_of: NameOf) -> _Change:
    person = found[1]
    return _Change(
        start=found.start(),
        end=found.end(),
        words=name_of(person) or f"user {person}",
        url=f"tg://user?id={person}",
    )


def _quiet(found: re.Match[str]) -> _Change:
    return _Change(start=found.start(), end=found.end(), words=_QUIET_AT)


def _inside(place: int, stretches: Iterable[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in stretches)


def _applied(
    text: str, entities: Iterable[MessageEntity], changes: Sequence[_Change], at: _Places
) -> Marked:
    """The new text; every entity stands where its words went."""
    pieces, done, size, shifts, links = list[str](), 0, 0, list[_Shift](), list[dict[str, Any]]()
    for change in changes:
        if change.start < done:
            continue
        before = text[done : change.start]
        pieces += [before, change.words]
        size += units(before)
        if change.url is not None:
            links.append(
                {
                    "type": "text_link",
                    "offset": size,
                    "length": units(change.words),
                    "url": change.url,
                }
            )
        size += units(change.words)
        shifts.append(
            _Shift(at.unit(change.start), at.unit(change.end), size - units(change.words), size)
        )
        done = change.end
    pieces.append(text[done:])
    moved = [_moved(entity, shifts) for entity in entities]
    return Marked("".join(pieces), (*(each for each in moved if each["length"] > 0), *links))


class _Shift(NamedTuple):
    """A stretch of the old text, and the one that stands there now; in units."""

    start: int
    end: int
    new_start: int
    new_end: int


def _moved(entity: MessageEntity, shifts: Sequence[_Shift]) -> dict[str, Any]:
    start = _shifted(entity.offset, shifts, begins=True)
    end = _shifted(entity.offset + entity.length, shifts, begins=False)
    return entity.to_dict() | {"offset": start, "length": max(end - start, 0)}


def _shifted(unit: int, shifts: Sequence[_Shift], *, begins: bool) -> int:
    """Where an entity begins or ends now. It does not grow over words that were put in beside it."""
    by = 0
    for shift in shifts:
        if shift.start < unit < shift.end:
            return shift.new_end if begins else shift.new_start
        if unit > shift.start or (unit == shift.end and begins):
            by = shift.new_end - shift.end
    return unit + by


class _Places:
    """Of a text: which unit a character begins with, and the other way round."""

    def __init__(self, text: str) -> None:
        self._units = None if text.isascii() else _units_before(text)

    def unit(self, character: int) -> int:
        return character if self._units is None else self._units[character]

    def stretch(self, entity: MessageEntity) -> tuple[int, int]:
        return self._character(entity.offset), self._character(entity.offset + entity.length)

    def _character(self, unit: int) -> int:
        if self._units is None:
            return unit
        low, high = 0, len(self._units) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._units[middle] < unit else (low, middle)
        return low


def _units_before(text: str) -> list[int]:
    counts, total = [0], 0
    for character in text:
        total += 2 if character > "\uffff" else 1
        counts.append(total)
    return counts


def _config() -> RenderConfig:
    """Of our own, with marks that people know: headings are bold and need no pictures."""
    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = (
        symbols.heading_level_4
    ) = ""
    symbols.unordered_list_item = "•"
    symbols.task_completed, symbols.task_uncompleted = "☑", "☐"
    return config


_CONFIG = _config()
