"""
The content of a config file before it is validated: plain data, and the position of every key and
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from turngate.config.problems import (
    Position,
    Problem,
    quoted,
)

Path = tuple[str | int, ...]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_LONGEST_QUOTE = 40


class Ambiguous(str):
    """A bare word that YAML takes for something else than it looks like."""

    __slots__ = ("reading",)
    reading: str

    @classmethod
    def of(cls, text: str, reading: str) -> Ambiguous:
        """Keep the word as written, and what YAML reads it as."""
        word = cls(text)
        word.reading = reading
        return word

    @property
    def advice(self) -> str:
        """The error text: what is wrong, and what to write instead."""
        return (
            f"YAML reads a bare {str(self)[:_LONGEST_QUOTE]} as {self.reading}; put it in "
            "quotes if text is meant"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """
    The data of a file, the positions of its keys and values, and the problems with its YAML.

    `broken` are the paths of values that could not be read.
    """

    data: dict[str, Value] = field(default_factory=dict)
    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)
    broken: set[Path] = field(default_factory=set)
    mistakes: list[Problem] = field(default_factory=list)

    def position_of(self, path: Path) -> Position:
        """The position of a value; the start of the file for one that is not there."""
        return self.values.get(path, Position(1, 1))


def every_value(value: Value, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Every value with its path, a section before what is in it."""
    yield path, value

    inner: Iterable[tuple[str | int, Value]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)

    for step, below in inner:
        yield from every_value(below, (*path, step))


def dotted(path: Path) -> str:
    """A path as text: `routes[0].agent`."""
    words = [f"[{step}]" if isinstance(step, int) else f".{_word(step)}" for step in path]
    return "".join(words).removeprefix(".")


def _word(key: str) -> str:
    # A key of the file may hold anything; only an ordinary one is shown without quotes.
    return (
        key
        if key.isascii() and key.replace("-", "_").isidentifier() and len(key) <= 40
        else quoted(key)
    )
