"""Discord's ids and its clock: an id is a time in milliseconds and a number."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from itertools import count

EPOCH = 1_420_070_400_000
"""The first millisecond of 2015 (https://docs.discord.com/developers/reference#snowflakes)."""


class Clock:
    """The time there. Tests move it on."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._number = count()

    def now(self) -> float:
        """In seconds since 1970."""
        return time.time() + self._ahead

    def later(self, seconds: float) -> None:
        """From now on it is that much later."""
        self._ahead += seconds

    def new_id(self, at: float | None = None) -> int:
        """One that nothing else has. Of two in one millisecond the later is the larger."""
        moment = self.now() if at is None else at
        return max(0, int(moment * 1000) - EPOCH) << 22 | next(self._number) % (1 << 22)


def time_of(id_: int) -> float:
    """When that was made, in seconds since 1970."""
    return ((id_ >> 22) + EPOCH) / 1000


def stamp(at: float) -> str:
    """As Discord writes a time."""
    return datetime.fromtimestamp(at, UTC).isoformat()
