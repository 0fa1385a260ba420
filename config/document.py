"""What a config file holds before anybody asks whether it is right: plain data, and the place of everything in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from turngate.config.problems import Place, Problem, quoted

Path = tuple[str | int, ...]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_LONGEST_QUOTE = 40


class Ambiguous(str):
    """A bare word that YAML takes for something else than it looks like."""

    __slots__ = ("reading",)
    reading: str

    @classmethod
    def of(cls, text: str, reading: str) -> Ambiguous:
        """The word as it was written, and what YAML makes of it."""
        word = cls(text)
        word.reading = reading
        return word

    @property
    def advice(self) -> str:
        """What is wrong with it; what to write."""
        return f"YAML reads a bare {str(self)[:_LONGEST_QUOTE]} as {self.reading}; put it in quotes if text is meant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What was read, where each key and value stands, and what is wrong with its YAML; `broken` values are unknown."""

    data: dict[str, Value] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    broken: set[Path] = field(default_factory=set)
    mistakes: list[Problem] = field(default_factory=list)

    def place(self, path: Path) -> Place:
        """Where it stands; what is not in the file stands at its beginning."""
        return self.values.get(path, Place(1, 1))


def every_value(value: Value, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Everything in the data, outer before inner."""
    yield path, value
    inner: Iterable[tuple[str | int, Value]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for step, below in inner:
        yield from every_value(below, (*path, step))


def dotted(path: Path) -> str:
    """A path as people say it: `routes[0].agent`."""
    words = [f"[{step}]" if isinstance(step, int) else f".{_word(step)}" for step in path]
    return "".join(words).removeprefix(".")


def _word(key: str) -> str:
    return (
        key
        if key.isascii() and key.replace("-", "_").isidentifier() and len(key) <= 40
        else quoted(key)
    )
