"""Discord's ids: a time in milliseconds since 2015, and a number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from turngate.gateway.domain.errors import Undeliverable

_EPOCH = datetime(2015, 1, 1, tzinfo=UTC)


def id_at(moment: datetime) -> int:
    """Return an id below all ids of that millisecond and later."""
    return max(0, (moment - _EPOCH) // timedelta(milliseconds=1) * 2**22 - 1)


def time_of(id_: int) -> datetime:
    """Return the time when the id was created."""
    return _EPOCH + timedelta(milliseconds=id_ >> 22)


def is_id(word: str | None) -> bool:
    """Return whether a text is an id: a number that a snowflake could be."""
    return word is not None and word.isascii() and word.isdigit() and len(word) <= 20


def checked(word: str | None) -> str:
    """
    Return a valid id. Raises Undeliverable for anything else, which would change the request's
    path.
    """
    if word is None or not is_id(word):
        raise Undeliverable("Discord has no place of this name")
    return word
