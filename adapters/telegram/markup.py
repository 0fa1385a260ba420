"""
Markdown as Telegram shows it: plain text, and entities that mark bold, code and links.

No text is lost. What the converter would drop (HTML, links without a valid target) is kept as
written. "@name" from an agent is plain text: only `<@ID>`, which the gateway itself inserts,
mentions a user.
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
_MENTION = re.compile(r"<@(\d{1,19})>")
# "@name" that Telegram would turn into a mention.
_NAME = re.compile(r"(?<![\w@])@(?=\w)")
_DEFUSED_AT = "@\u2060"
_LINKS = ("http://", "https://")
_CODE = ("pre", "code")

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
    """Convert. A text that would be empty after conversion stays as written."""
    text, entities = convert(_without_html(_scrubbed(markdown)), latex_escape=False, config=_CONFIG)
    # What only the conversion makes into the form of a mention, such as `<\@7>`, is text.
    meant = frozenset(_MENTION.findall(markdown))
    rewritten = _rewritten(text, entities, meant, name_of)
    return rewritten if rewritten.text else plain(markdown)


def needs_rich(markdown: str) -> bool:
    """
    Check for a table, which text and entities show poorly.

    False if it mentions a user: a rich message would mention any name that the agent writes.
    """
    if "|" not in markdown or _MENTION.search(markdown) or "tg://" in markdown:
        return False

    events: Iterable[tuple[Any, Any]] = pyromark.events_with_range(
        _scrubbed(markdown), options=STANDARD_OPTIONS
    )
    begun = (event.get("Start") for event, _ in events if isinstance(event, dict))
    return any(isinstance(block, dict) and "Table" in block for block in begun)


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


def _rewritten(
    text: str, entities: Sequence[MessageEntity], meant: frozenset[str], name_of: NameOf
) -> Marked:
    """Defuse or resolve mentions, write out links without a valid target, and strip the text."""
    at = _Offsets(text)
    code = [at.stretch(each) for each in entities if each.type in _CODE]
    dead = [
        each for each in entities if each.type == "text_link" and not _leads_somewhere(each.url)
    ]
    changes = [_written_out(each, at) for each in dead]
    for pattern, change in ((_MENTION, lambda found: _mention(found, name_of)), (_NAME, _defused)):
        changes += [
            change(found)
            for found in pattern.finditer(text)
            if not _inside(found.start(), code) and (pattern is _NAME or found[1] in meant)
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


def _inside(offset: int, stretches: Iterable[tuple[int, int]]) -> bool:
    return any(start <= offset < end for start, end in stretches)


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
    moved = [_moved(entity, shifts) for entity in entities]
    return Marked("".join(pieces), (*(each for each in moved if each["length"] > 0), *links))


class _Shift(NamedTuple):
    """A range of the old text and the range that replaces it, in UTF-16 units."""

    start: int
    end: int
    new_start: int
    new_end: int


def _moved(entity: MessageEntity, shifts: Sequence[_Shift]) -> dict[str, Any]:
    start = _shifted(entity.offset, shifts, begins=True)
    end = _shifted(entity.offset + entity.length, shifts, begins=False)
    return entity.to_dict() | {"offset": start, "length": max(end - start, 0)}


def _shifted(unit: int, shifts: Sequence[_Shift], *, begins: bool) -> int:
    """Return the new start or end of an entity. It does not grow over text inserted beside it."""
    by = 0
    for shift in shifts:
        if shift.start < unit < shift.end:
            return shift.new_end if begins else shift.new_start
        if unit > shift.start or (unit == shift.end and begins):
            by = shift.new_end - shift.end
    return unit + by


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
