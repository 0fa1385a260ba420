"""What the config knows and this version does not do yet. Whoever builds one of these removes its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from turngate.config.document import Document, Path, dotted, every_value
from turngate.config.problems import Problem

# A key, or a key and the beginning of its value. `*` stands for any name.
NOT_BUILT_YET = ("storage.url = postgres",)


def find_not_built(document: Document, table: Iterable[str]) -> Iterator[tuple[Path, Problem]]:
    """What the file asks for in vain, with its path."""
    for path, value in every_value(document.data):
        for line in table:
            key, _, start = line.partition(" = ")
            if not _fits(path, key) or not (
                (isinstance(value, str) and value.startswith(start)) or not start
            ):
                continue
            place = document.values[path] if start else document.keys[path]
            what = f"{dotted(path)} {start}".rstrip()
            yield path, Problem(place, f"{what} is not available in this version; remove it")


def without(table: Iterable[str], data: dict[str, object]) -> dict[str, object]:
    """The data without the keys that this version would refuse."""
    keys = [line.split(".") for line in table if " = " not in line]
    return {
        name: _kept(value, [key[1:] for key in keys if fnmatchcase(name, key[0])])
        for name, value in data.items()
    }


def _kept(value: object, keys: list[list[str]]) -> object:
    if not isinstance(value, dict):
        return value
    below = {name: [key[1:] for key in keys if key and fnmatchcase(name, key[0])] for name in value}
    return {
        name: _kept(inner, below[name]) for name, inner in value.items() if [] not in below[name]
    }


def _fits(path: Path, key: str) -> bool:
    steps = key.split(".")
    return len(path) == len(steps) and all(
        fnmatchcase(str(step), form) for step, form in zip(path, steps, strict=True)
    )
