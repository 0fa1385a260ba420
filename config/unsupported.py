"""
Config keys that this version does not support yet. Remove a line when its feature is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from turngate.config.document import (
    Document,
    Path,
    dotted,
    every_value,
)
from turngate.config.problems import Problem

# A key, or a key and the beginning of its value. `*` stands for any name.
NOT_BUILT_YET = ("storage.url = postgres",)


def find_not_built(document: Document, table: Iterable[str]) -> Iterator[tuple[Path, Problem]]:
    """The unsupported keys and values in a file, with their paths."""
    for path, value in every_value(document.data):
        for line in table:
            key, _, start = line.partition(" = ")
            if not _matches(path, key) or not (
                (isinstance(value, str) and value.startswith(start)) or not start
            ):
                continue

            position = document.values[path] if start else document.keys[path]
            what = f"{dotted(path)} {start}".rstrip()
            yield path, Problem(position, f"{what} is not available in this version; remove it")


def without(table: Iterable[str], data: dict[str, object]) -> dict[str, object]:
    """The data without the unsupported keys."""
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


def _matches(path: Path, key: str) -> bool:
    steps = key.split(".")
    return len(path) == len(steps) and all(
        fnmatchcase(str(step), form) for step, form in zip(path, steps, strict=True)
    )
