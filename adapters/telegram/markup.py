"""
Markdown as Telegram shows it: plain text, and entities that mark bold, code and links.

No text is lost. What the converter would drop (HTML, links without a valid target) is kept as
written. "@name" from an agent is plain text: only `<@ID>`, which the gateway itself inserts,
mentions a user.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import pyromark
from telegramify_markdown import MessageEntity, RenderConfig, convert
from telegramify_markdown.converter import STANDARD_OPTIONS

from turngate.adapters.telegram.bounded_markup import converted_size

LARGEST_TEXT = 4096
LARGEST_CAPTION = 1024
"""Both in UTF-16 units, counted after conversion."""

_MOST_PASSES = 8
# Telegram ignores the entities of a message beyond about a hundred (python-telegram-bot found it by
# experiment). A link that is not shown as one would lose its address.
_MOST_ENTITIES = 100
_MOST_LINKS = 60
_MOST_GROWTH = 4
_MENTION = re.compile(r"<@(\d{1,19})>")
# "@name" that Telegram would turn into a mention.
_NAME = re.compile(r"(?<![\w@])@(?=\w)")
_DEFUSED_AT = "@\u2060"
_LINKS = ("http://", "https://")
_CODE = ("pre", "code")
_WEIGHT = {"text_link": 0, "pre": 1, "code": 2}

NameOf = Callable[[str], str | None]
"""Returns the name of a user by id; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class Marked:
    """Text and its entities; positions are in UTF-16 units."""

    text: str
    entities: tuple[dict[str, Any], ...] = ()

    @property
    def size(self) -> int:
        """Length in UTF-16 units, as Telegram counts."""
        return units(self.text)


def units(text: str) -> int:
    """Count the UTF-16 units of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def marked(markdown: str, name_of: NameOf = lambda _: None) -> Marked:
    """
    Convert. A text stays as written if it would be empty after conversion, or far larger: the
    converter indents nested lists and pads tables, so that a few kilobytes can become gigabytes.
    """
    source = _without_html(_scrubbed(markdown))
    largest = max(LARGEST_TEXT, _MOST_GROWTH * len(source))
    if converted_size(source) > largest:
        return plain(markdown)

    text, entities = convert(source, latex_escape=False, config=_CONFIG)
    rewritten = _rewritten(text, entities, name_of)
    fits = rewritten.text.strip() and len(rewritten.text) <= largest
    return rewritten if fits else plain(markdown)


def plain(markdown: str) -> Marked:
    """Return the text as written."""
    return Marked(_scrubbed(markdown).strip())


def _scrubbed(text: str) -> str:
    """Replace lone surrogates: Telegram accepts valid Unicode only."""
    return text.encode("utf-8", "replace").decode()


def _without_html(markdown: str) -> str:
    """Escape every < that would begin HTML, because the converter drops tags."""
    text = markdown
    # An escaped tag can turn what follows it into another tag, so parse again until there is none.
    for _ in range(_MOST_PASSES):
        if "<" not in text:
            break
        source = text.encode()
        offsets = sorted(
            set(_tags(source, pyromark.events_with_range(text, options=STANDARD_OPTIONS)))
        )
        if not offsets:
            break
        bounds = [0, *offsets, len(source)]
        text = b"\\".join(source[start:end] for start, end in pairwise(bounds)).decode()

    return text


def _tags(source: bytes, events: Iterable[tuple[Any, Any]]) -> Iterable[int]:
    """Yield the byte offsets of tags."""
    for event, position in events:
        if isinstance(event, dict) and ("InlineHtml" in event or "Html" in event):
            tags = source[position["start"] : position["end"]]
            yield from (position["start"] + found.start() for found in re.finditer(rb"<", tags))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A replacement of characters `start` to `end`; `url` is the link target of the new text."""

    start: int
    end: int
    words: str
    url: str | None = None


def _rewritten(text: str, entities: Sequence[MessageEntity], name_of: NameOf) -> Marked:
    """Defuse or resolve mentions, write out links without a valid target, and strip the text."""
    at = _Offsets(text)
    code = _Stretches(at.stretch(each) for each in entities if each.type in _CODE)
    dead, living = _dead_and_living(entities)
    changes = [_written_out(each, at) for each in dead]
    for pattern, change in ((_MENTION, lambda found: _mention(found, name_of)), (_NAME, _defused)):
        changes += [
            change(found) for found in pattern.finditer(text) if not code.hold(found.start())
        ]

    changes += _strip(text, min((at.stretch(each)[0] for each in living), default=len(text)))

    return _applied(
        text, living, sorted(changes, key=lambda change: (change.start, change.end)), at
    )


def _dead_and_living(
    entities: Iterable[MessageEntity],
) -> tuple[list[MessageEntity], list[MessageEntity]]:
    """Separate the links that cannot be shown as links: without a valid target, or too many."""
    dead = list[MessageEntity]()
    living = list[MessageEntity]()
    links = 0
    for each in entities:
        if each.type != "text_link":
            living.append(each)
        elif links < _MOST_LINKS and _leads_somewhere(each.url):
            links += 1
            living.append(each)
        else:
            dead.append(each)

    return dead, living


def _strip(text: str, first_entity: int) -> Iterable[_Change]:
    """
    Remove blanks at both ends, as Telegram does: at the beginning only up to the first entity, so
    that code keeps its indentation.
    """
    begins = min(len(text) - len(text.lstrip()), first_entity)
    ends = len(text.rstrip())
    if begins:
        yield _Change(start=0, end=begins, words="")
    if ends < len(text):
        yield _Change(start=ends, end=len(text), words="")


def _leads_somewhere(url: str | None) -> bool:
    return url is not None and url.lower().startswith(_LINKS)


def _written_out(link: MessageEntity, at: _Offsets) -> _Change:
    _, end = at.stretch(link)
    return _Change(start=end, end=end, words=f" ({link.url})")


def _mention(found: re.Match[str], name_of: NameOf) -> _Change:
    person = found[1]
    return _Change(
        start=found.start(),
        end=found.end(),
        words=name_of(person) or f"user {person}",
        url=f"tg://user?id={person}",
    )


def _defused(found: re.Match[str]) -> _Change:
    return _Change(start=found.start(), end=found.end(), words=_DEFUSED_AT)


class _Stretches:
    """Stretches of a text that do not overlap."""

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        self._sorted = sorted(stretches)
        self._starts = [start for start, _ in self._sorted]

    def hold(self, offset: int) -> bool:
        """Return whether an offset is inside one of them."""
        before = bisect_right(self._starts, offset)
        return before > 0 and offset < self._sorted[before - 1][1]


def _applied(
    text: str, entities: Iterable[MessageEntity], changes: Sequence[_Change], at: _Offsets
) -> Marked:
    """Apply the changes and move the entities with their text."""
    pieces = list[str]()
    done = 0
    size = 0
    shifts = list[_Shift]()
    links = list[dict[str, Any]]()
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
    starts = [shift.start for shift in shifts]
    moved = [_moved(entity, shifts, starts) for entity in entities]
    return Marked("".join(pieces), _allowed([each for each in moved if each["length"] > 0], links))


def _allowed(
    entities: Sequence[dict[str, Any]], mentions: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """Keep as many as Telegram regards: links first, then code, then what is only looks."""
    everything = [*entities, *mentions]
    if len(everything) <= _MOST_ENTITIES:
        return tuple(everything)

    by_weight = sorted(everything, key=lambda entity: _WEIGHT.get(entity["type"], len(_WEIGHT)))
    kept = {id(entity) for entity in by_weight[:_MOST_ENTITIES]}
    return tuple(entity for entity in everything if id(entity) in kept)


class _Shift(NamedTuple):
    """A range of the old text and the range that replaces it, in UTF-16 units."""

    start: int
    end: int
    new_start: int
    new_end: int


def _moved(
    entity: MessageEntity, shifts: Sequence[_Shift], starts: Sequence[int]
) -> dict[str, Any]:
    start = _shifted(entity.offset, shifts, starts, begins=True)
    end = _shifted(entity.offset + entity.length, shifts, starts, begins=False)
    return entity.to_dict() | {"offset": start, "length": max(end - start, 0)}


def _shifted(unit: int, shifts: Sequence[_Shift], starts: Sequence[int], *, begins: bool) -> int:
    """Return the new start or end of an entity. It does not grow over text inserted beside it."""
    behind = bisect_left(starts, unit)
    if begins and behind < len(shifts) and shifts[behind].end == unit:
        behind += 1
    if behind == 0:
        return unit

    shift = shifts[behind - 1]
    if shift.start < unit < shift.end:
        return shift.new_end if begins else shift.new_start
    return unit + shift.new_end - shift.end


class _Offsets:
    """Converts between character offsets and UTF-16 offsets of one text."""

    def __init__(self, text: str) -> None:
        self._units = None if text.isascii() else _units_before(text)

    def unit(self, character: int) -> int:
        return character if self._units is None else self._units[character]

    def stretch(self, entity: MessageEntity) -> tuple[int, int]:
        return self._character(entity.offset), self._character(entity.offset + entity.length)

    def _character(self, unit: int) -> int:
        if self._units is None:
            return unit

        low = 0
        high = len(self._units) - 1

        while low < high:
            middle = (low + high) // 2
            if self._units[middle] < unit:
                low = middle + 1
            else:
                high = middle

        return low


def _units_before(text: str) -> list[int]:
    counts = [0]
    total = 0
    for character in text:
        total += 2 if character > "\uffff" else 1
        counts.append(total)
    return counts


def _config() -> RenderConfig:
    """Build a render config of our own: plain bold headings without emoji."""
    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = (
        symbols.heading_level_4
    ) = ""
    symbols.unordered_list_item = "•"
    symbols.task_completed = "☑"
    symbols.task_uncompleted = "☐"
    return config


_CONFIG = _config()
