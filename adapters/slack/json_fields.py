"""Typed access to Slack's JSON. A value of the wrong type counts as missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Json = Mapping[str, object]


def text_in(value: Json, *names: str) -> str:
    """Return the first non-empty text among the named fields, or an empty string."""
    return next((word for name in names if isinstance(word := value.get(name), str) and word), "")


def number_in(value: Json, name: str) -> int | None:
    """Return the integer field, or None."""
    number = value.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def dict_in(value: Json, name: str) -> Json:
    """Return the object field, or an empty one."""
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def dicts_in(value: Json, name: str) -> Sequence[Json]:
    """Return the objects in the list field."""
    inner = value.get(name)
    return (
        [each for each in inner if isinstance(each, Mapping)]
        if isinstance(inner, list | tuple)
        else []
    )
