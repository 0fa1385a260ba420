"""
Typed access to Discord's JSON. A value of the wrong type counts as missing, because it would be
stored and could not be read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turngate.adapters.discord.ids import is_id

Payload = Mapping[str, Any]
"""
An object of Discord's API, as JSON. Not an object of the library: history is read through REST,
what happens comes through the gateway, and both have to mean the same; and a golden file is then
just what Discord sends.
"""


_LARGEST = 2**63


def text_in(value: Payload, name: str) -> str | None:
    """Return the text field, or None; an empty text is None too."""
    text = value.get(name)
    return text if isinstance(text, str) and text else None


def number_in(value: Payload, name: str) -> int | None:
    """Return the integer field, or None; also for one that no store can hold."""
    number = value.get(name)
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    return number if abs(number) < _LARGEST else None


def is_set(value: Payload, name: str) -> bool:
    """Return whether the field is true."""
    return value.get(name) is True


def id_in(value: Payload, name: str) -> str | None:
    """Return the id in the field as text, or None. Other servers write ids as numbers."""
    id_ = value.get(name)
    if isinstance(id_, int) and not isinstance(id_, bool):
        id_ = str(id_)
    return id_ if isinstance(id_, str) and is_id(id_) else None


def number_of(value: Payload) -> int:
    """Return the object's own id as a number; 0 if it has none."""
    return int(id_in(value, "id") or 0)


def author_of(message: Payload) -> str | None:
    """Return the id of a message's author."""
    return id_in(object_in(message, "author"), "id")


def needed_id(value: Payload, name: str) -> str:
    """Return the id in the field. Raises ValueError if there is none."""
    id_ = id_in(value, name)
    if id_ is None:
        raise ValueError(f"an object of Discord's has no {name}")
    return id_


def object_in(value: Payload, name: str) -> Payload:
    """Return the object in the field, or an empty one."""
    inner = value.get(name)
    return inner if isinstance(inner, Mapping) else {}


def objects_in(value: Payload, name: str) -> Iterator[Payload]:
    """Yield the objects of the list in the field."""
    inner = value.get(name)
    yield from (
        (each for each in inner if isinstance(each, Mapping))
        if isinstance(inner, list | tuple)
        else ()
    )


def ids_in(value: Payload, name: str) -> Iterator[str]:
    """Yield the ids of the list in the field."""
    inner = value.get(name)
    listed = inner if isinstance(inner, list | tuple) else ()
    for each in listed:
        id_ = id_in({"id": each}, "id")
        if id_ is not None:
            yield id_
