"""Reading Slack's JSON: what is there in the right form counts, and anything else is as good as left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Json = Mapping[str, object]


def text_in(value: Json, *names: str) -> str:
    """The first of these that says something; empty if none does."""
    return next((word for name in names if isinstance(word := value.get(name), str) and word), "")


def number_in(value: Json, name: str) -> int | None:
    """A number of that name."""
    number = value.get(name)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def dict_in(value: Json, name: str) -> Json:
    """The object of that name, or an empty one."""
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def dicts_in(value: Json, name: str) -> Sequence[Json]:
    """The objects of the list of that name."""
    inner = value.get(name)
    return (
        [each for each in inner if isinstance(each, Mapping)]
        if isinstance(inner, list | tuple)
        else []
    )
