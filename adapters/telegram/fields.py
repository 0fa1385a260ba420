"""
Fields of Telegram's JSON, each of the type that is needed or as if it were not there.

Updates are read from the JSON itself. aiogram's types are closed: one object of a type that is
newer than the library, anywhere in an update, makes all of it invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Raw = Mapping[str, Any]
"""An object of the Bot API."""

NOTHING: Raw = {}


def text(raw: Raw, name: str) -> str:
    """Return a text, or an empty one. A lone half of a surrogate pair becomes a question mark."""
    found = _value(raw, name)
    return scrubbed(found) if isinstance(found, str) else ""


def number(raw: Raw, name: str) -> int | None:
    """Return an integer."""
    found = _value(raw, name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def flag(raw: Raw, name: str) -> bool:
    """Return whether it is true."""
    return _value(raw, name) is True


def thing(raw: Raw, name: str) -> Raw:
    """Return an object, or an empty one."""
    found = _value(raw, name)
    return found if isinstance(found, Mapping) else NOTHING


def things(raw: Raw, name: str) -> list[Raw]:
    """Return the objects of a list."""
    found = _value(raw, name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _value(raw: Any, name: str) -> Any:
    """Return whatever is there; nothing if it is not even an object."""
    return raw.get(name) if isinstance(raw, Mapping) else None


def scrubbed(words: str) -> str:
    """Replace lone surrogates, of which no valid text can be made. The length stays."""
    return words if words.isascii() else words.encode("utf-8", "replace").decode()
