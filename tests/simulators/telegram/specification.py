"""
The Bot API's own specification: what is checked against it, and values made from it.

Where the file is not on this machine, nothing is checked (tests/specifications.py says how to get
it).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests import specifications

_FILE = "telegram-bot-api-10.3.json"
_ARRAY = "Array of "
_ALWAYS = re.compile(r"(?:always|must be) [‘'\"“](\w+)[’'\"”]")
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "Integer": (int,),
    "Float": (int, float),
    "String": (str,),
    "Boolean": (bool,),
    "True": (bool,),
    "InputFile": (str,),
}
# Too large to be told from a description.
_CHOICES = {
    ("Chat", "type"): ["private", "group", "supergroup", "channel"],
    ("MessageEntity", "type"): ["bold", "mention", "text_mention", "bot_command", "pre", "url"],
}


class Newer(dict[str, Any]):
    """Something that a later version of the Bot API may say: no check looks inside."""


def is_there() -> bool:
    """Whether anything is checked."""
    return specifications.is_there()


def check(kind: str, value: object) -> None:
    """Raises ValueError for a value that is not of this type."""
    if is_there():
        _raise_for(_wrong(kind, known_part(value), kind))


def check_answer(method: str, answer: object) -> None:
    """Raises ValueError for an answer that the method does not give."""
    if is_there():
        kinds = _spec()["methods"][method].get("returns") or ["True"]
        _raise_for(_wrong_of_all(kinds, known_part(answer), method))


def check_request(method: str, parameters: Mapping[str, object]) -> None:
    """Raises ValueError for parameters that the method does not take, or takes as another type."""
    if is_there():
        _raise_for(_wrong_fields(_spec()["methods"][method], known_part(parameters), method))


def known_part(value: Any) -> Any:
    """The same without what is newer."""
    match value:
        case list():
            return [known_part(each) for each in value if not isinstance(each, Newer)]
        case Mapping():
            return {
                name: known_part(each)
                for name, each in value.items()
                if not isinstance(each, Newer)
            }
        case _:
            return value


def _raise_for(wrong: Iterator[str]) -> None:
    found = [each for _, each in zip(range(5), wrong, strict=False)]
    if found:
        raise ValueError(f"not as the Bot API specifies it: {'; '.join(found)}")


@cache
def _spec() -> Any:
    return specifications.load(_FILE)


def _wrong_of_all(kinds: Sequence[str], value: Any, at: str) -> Iterator[str]:
    """What is wrong with a value for which several types are allowed; nothing if one fits."""
    found = [list(_wrong(kind, value, at)) for kind in _likely(kinds, value)]
    if all(found):
        yield from min(found, key=len) if found else [f"{at} is none of {', '.join(kinds)}"]


def _likely(kinds: Sequence[str], value: Any) -> list[str]:
    """Those types whose `type`, `status` or `source` is that of the value."""
    if not isinstance(value, Mapping):
        return list(kinds)
    return [
        kind
        for kind in kinds
        if all(value.get(name) in (None, word) for name, word in _words_of(kind).items())
    ]


def _words_of(kind: str) -> dict[str, str]:
    return {
        each["name"]: found[1]
        for each in (_spec()["types"].get(kind) or {}).get("fields") or ()
        if each["required"] and (found := _ALWAYS.search(each["description"]))
    }


def _wrong(kind: str, value: Any, at: str) -> Iterator[str]:
    if kind.startswith(_ARRAY):
        if not isinstance(value, list):
            yield f"{at} is no list"
            return
        for number, each in enumerate(value):
            yield from _wrong(kind.removeprefix(_ARRAY), each, f"{at}[{number}]")
    elif kind in _PLAIN:
        is_bool = isinstance(value, bool) and kind not in ("Boolean", "True")
        if is_bool or not isinstance(value, _PLAIN[kind]) or (kind == "True" and value is False):
            yield f"{at} is no {kind}"
    elif subtypes := _spec()["types"][kind].get("subtypes"):
        yield from _wrong_of_all(subtypes, value, at)
    else:
        yield from _wrong_fields(_spec()["types"][kind], value, at)


def _wrong_fields(kind: Any, value: Any, at: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{at} is no object"
        return

    fields = {each["name"]: each for each in kind.get("fields") or ()}
    yield from (f"there is no {at}.{name}" for name in value if name not in fields)
    for name, each in fields.items():
        if name in value:
            yield from _wrong_of_all(each["types"], value[name], f"{at}.{name}")
        elif each["required"]:
            yield f"{at}.{name} is missing"


@dataclass(slots=True, kw_only=True)
class Generator:
    """
    Makes values of any type. `often` is how likely an optional field is there; `strange` how likely
    anything is of a type, or has a field, that nobody knows yet; `wrong` how likely a known field
    has a value of another type.

    Every text is one word that is nowhere else, so that it can be looked for.
    """

    rng: random.Random
    often: float = 0.5
    strange: float = 0.0
    wrong: float = 0.0
    deepest: int = 5
    _words: int = field(default=0)

    def make(self, kind: str, depth: int = 0) -> Any:
        """A value of a type."""
        if kind.startswith(_ARRAY):
            most = 3 if depth < self.deepest else 1
            inner = kind.removeprefix(_ARRAY)
            return [self.make(inner, depth + 1) for _ in range(self.rng.randint(1, most))]
        if kind in _PLAIN:
            return self._plain(kind)
        if subtypes := _spec()["types"][kind].get("subtypes"):
            if self.rng.random() < self.strange:
                return self._unknown(depth)
            deep = depth >= self.deepest
            return self.make(
                "String" if deep and "String" in subtypes else self._one(subtypes, deep), depth
            )
        return self._object(kind, depth)

    def _one(self, subtypes: Sequence[str], deep: bool) -> str:
        """One of several types; deep inside one that contains nothing of its own kind."""
        if not deep:
            return str(self.rng.choice(subtypes))
        return min(
            subtypes, key=lambda each: len(str((_spec()["types"].get(each) or {}).get("fields")))
        )

    def _object(self, kind: str, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        words = _words_of(kind)
        for each in _spec()["types"][kind].get("fields") or ():
            name = each["name"]
            wanted = depth < self.deepest and self.rng.random() < self.often
            if name in words:
                made[name] = words[name]
            elif (kind, name) in _CHOICES:
                made[name] = self._choice(_CHOICES[kind, name])
            elif each["required"] or wanted:
                made[name] = self.make(self._one(each["types"], depth >= self.deepest), depth + 1)
        if self.rng.random() < self.strange:
            made["hologram"] = self._unknown(depth)
        if made and self.rng.random() < self.wrong:
            made[self.rng.choice([*made])] = self._unknown(depth)
        return made

    def _choice(self, words: Sequence[str]) -> str:
        return "orbit" if self.rng.random() < self.strange else self.rng.choice(words)

    def _plain(self, kind: str) -> Any:
        match kind:
            case "Integer":
                return self.rng.choice([0, 1, 7, -3, self.rng.randrange(10**6), -(10**12), 10**17])
            case "Float":
                return self.rng.random()
            case "Boolean":
                return self.rng.random() < 0.5
            case "True":
                return True
            case _:
                self._words += 1
                return f"{self.rng.choice(['word', 'wörd', '😀word'])}{self._words}x"

    def _unknown(self, depth: int) -> Any:
        """What a later version may have in place of anything."""
        inside = self.make("Array of RichText", depth + 1) if depth < self.deepest else []
        return self.rng.choice(
            [None, 7, [], {}, "\ud800", {"type": "orbit", "content": inside}, {"text": inside}, [7]]
        )
