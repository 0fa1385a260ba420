"""
Read YAML with the position of every key and value, and without YAML's surprises.

What YAML reads differently from how it looks is refused or marked as `Ambiguous`: duplicate keys,
anchors, tags, merge keys, a bare `no`, 0777 and 12:30:45. PyYAML parses; the values are interpreted
here.
"""

from __future__ import annotations

import re
from typing import Protocol

import yaml

from turngate.config.document import (
    Ambiguous,
    Document,
    Path,
    Value,
)
from turngate.config.problems import (
    Position,
    Problem,
    quoted,
)

LARGEST_FILE = 1024 * 1024
_DEEPEST = 24
_LONGEST_NUMBER = 40
_BOM = "\ufeff"

# As YAML 1.1 counts lines, so that positions agree with PyYAML's.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# All that YAML's own reader refuses, found first so that the message has a position.
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Escapes such as "\ud800" bring these in behind the reader's check.
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,15}\.[0-9]{1,15}")
# Bare `=` and `<<` are text, too: only as keys they mean something else.
_IS_TEXT = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:value", "tag:yaml.org,2002:merge"}

# PyYAML's messages quote the file, which may hold a secret. A part of each, and our message for it.
_SYNTAX = (
    ("'\\t'", "a tab; indent with spaces"),
    (
        "mapping values are not allowed",
        "a colon where none can be; put the text in quotes, or check the indentation",
    ),
    ("could not find expected ':'", "a line that is neither a key nor a value; write key: value"),
    ("<stream end>", "the file ends inside quotes or brackets; close them"),
    ("end of stream", "the file ends inside quotes or brackets; close them"),
    (
        "expected <block end>",
        "the indentation does not fit the lines above; align the keys of one section",
    ),
    (
        "that cannot start any token",
        "a character that cannot begin a value; put the text in quotes",
    ),
    ("unknown escape", "an unknown escape; inside double quotes write \\\\ for a backslash"),
)
_NO_YAML = "this is not YAML; check the indentation, the colons and the quotes here"


class _Mark(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class _Unreadable(Exception):
    def __init__(self, position: Position, text: str) -> None:
        super().__init__(text)
        self.mistake = Problem(position, text)


def read_yaml(content: bytes) -> Document:
    """Return the document. If reading has to stop, its last problem says why."""
    mistakes: list[Problem] = []
    try:
        return _Reader(_text_of(content), mistakes).document()
    except _Unreadable as exc:
        return Document(mistakes=[*mistakes, exc.mistake], broken={()})


def _text_of(content: bytes) -> str:
    if len(content) > LARGEST_FILE:
        raise _Unreadable(Position(1, 1), "the file is larger than 1 MiB; is it a config file?")

    try:
        text = content.decode()
    except UnicodeDecodeError as exc:
        position = _position_of(content[: exc.start].decode(), exc.start)
        raise _Unreadable(position, "this is not UTF-8; save the file in that encoding") from None

    if text.startswith(_BOM):
        raise _Unreadable(
            Position(1, 1), "the file starts with a byte order mark; save it as UTF-8 without one"
        )

    odd = _NOT_PRINTABLE.search(text)
    if odd:
        name = f"U+{ord(odd.group()):04X}"
        raise _Unreadable(
            _position_of(text, odd.start()), f"a control character ({name}); remove it"
        )
    return text


def _position_of(text: str, at: int) -> Position:
    ends = [end.end() for end in _LINE_END.finditer(text, 0, at)]
    return Position(len(ends) + 1, min(at, len(text)) - (ends[-1] if ends else 0) + 1)


class _Reader:
    """One pass over PyYAML's events of a document."""

    def __init__(self, text: str, mistakes: list[Problem]) -> None:
        self._loader = yaml.SafeLoader(text)
        self._document = Document(mistakes=mistakes)

    def document(self) -> Document:
        """Read the whole file; an empty one is an empty config."""
        # The start of the stream, then that of the document.
        self._next()
        if isinstance(self._peek(), yaml.StreamEndEvent):
            return self._document
        self._next()

        data = self._value(())
        self._next()
        if not isinstance(self._peek(), yaml.StreamEndEvent):
            raise _Unreadable(
                _start(self._peek()), "a second document; keep one and remove the line of dashes"
            )

        if isinstance(data, dict):
            self._document.data.update(data)
        elif data is not None:
            self._report(
                Position(*self._document.values[()]),
                "the file must hold keys with values; write key: value",
            )
            self._document.broken.add(())
        return self._document

    def _value(self, path: Path) -> Value:
        event = self._next()
        self._document.values[path] = _start(event)

        # Bounds the recursion of everything that walks over the data later.
        if len(path) > _DEEPEST:
            raise _Unreadable(
                _start(event), f"nested deeper than {_DEEPEST} levels; no key lies that deep"
            )
        self._refuse_shorthands(event, path)

        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path)
        return self._scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None

    def _refuse_shorthands(self, event: yaml.Event, path: Path) -> None:
        if isinstance(event, yaml.AliasEvent):
            self._report(_start(event), "an alias (*name); write the value out")
        elif getattr(event, "anchor", None) is not None:
            self._report(_start(event), "an anchor (&name); write the value out where it is needed")
        elif getattr(event, "tag", None) is not None:
            self._report(_start(event), "a tag (!name); write the value without it")
        else:
            return

        self._document.broken.add(path)

    def _mapping(self, path: Path) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while not isinstance(self._peek(), yaml.MappingEndEvent):
            key, position = self._key(path)
            if key is None:
                # Its value is read all the same, for the problems in it.
                self._value(_aside(path, position))
                continue

            self._document.keys[*path, key] = position
            found[key] = self._value((*path, key))
        self._next()
        return found

    def _key(self, path: Path) -> tuple[str | None, Position]:
        position = _start(self._peek())
        written = self._value(_aside(path, position))

        if isinstance(written, Ambiguous):
            self._report(position, written.advice)
        elif not isinstance(written, str):
            self._report(position, "a key must be text; put it in quotes")
        elif written == "<<":
            self._report(position, "a merge key (<<); write the keys out")
        elif (*path, written) in self._document.keys:
            first = self._document.keys[*path, written]
            self._report(
                position,
                f"the key {quoted(written)} is here twice (first in line {first.line}); keep one",
            )
        else:
            return written, position

        return None, position

    def _sequence(self, path: Path) -> list[Value]:
        found: list[Value] = []
        while not isinstance(self._peek(), yaml.SequenceEndEvent):
            found.append(self._value((*path, len(found))))
        self._next()
        return found

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Value:
        text = str(event.value)
        if _UNWRITABLE.search(text):
            self._report(_start(event), "an escape that stands for no character; remove it")
            self._document.broken.add(path)
            return None

        # What is in quotes is text; so is what PyYAML would resolve to text.
        if event.style is not None or not event.implicit[0]:
            return text
        # The stubs give it no types.
        tag = self._loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        return text if tag in _IS_TEXT else _meaning(text)

    def _report(self, position: Position, text: str) -> None:
        self._document.mistakes.append(Problem(position, text))

    def _peek(self) -> yaml.Event:
        return self._event(take=False)

    def _next(self) -> yaml.Event:
        return self._event(take=True)

    def _event(self, *, take: bool) -> yaml.Event:
        try:
            take_or_look = self._loader.get_event if take else self._loader.peek_event
            event: yaml.Event = take_or_look()  # type: ignore[no-untyped-call]  # not in the stubs
        except yaml.MarkedYAMLError as exc:
            raise _Unreadable(
                _spot(exc.problem_mark or self._loader.get_mark()), _plain_text(exc)
            ) from None
        except (ValueError, OverflowError):
            # An escape or a %YAML version with a number that is too large.
            raise _Unreadable(_spot(self._loader.get_mark()), _NO_YAML) from None
        return event


def _aside(path: Path, position: Position) -> Path:
    """A path for what is not in the data: keys, and values whose key was refused."""
    return (*path, f"\0{position.line}:{position.column}")


def _start(event: yaml.Event) -> Position:
    return _spot(event.start_mark)


def _spot(mark: _Mark | None) -> Position:
    return Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)


def _plain_text(exc: yaml.MarkedYAMLError) -> str:
    problem = exc.problem or ""
    return next((ours for theirs, ours in _SYNTAX if theirs in problem), _NO_YAML)


def _meaning(text: str) -> Value:
    """
    The value of a bare word that is not text in YAML 1.1, or that it is ambiguous.

    `12` is a number and `null` is None, as expected; `no`, `0777` and `12:30` are ambiguous.
    """
    if text in ("", "~") or text.lower() == "null":
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text) and len(text) <= _LONGEST_NUMBER:
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return Ambiguous.of(text, _yaml_meaning(text))


def _yaml_meaning(text: str) -> str:
    # A long number takes quadratic time to read.
    try:
        value = yaml.safe_load(text) if len(text) <= _LONGEST_NUMBER else 0
    except (ValueError, OverflowError):
        return "a date that does not exist"

    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}" if value and len(str(value)) <= _LONGEST_NUMBER else "a number"
    return "a date"
