"""The time, injected so that tests can stop it and make it jump."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """
    Two clocks: `now` for times that are stored or shown, `monotonic` for waiting and measuring.
    """

    def now(self) -> datetime:
        """Return the current time in UTC. Safe to call from any thread."""

    def monotonic(self) -> float:
        """
        Return seconds since some moment; they never go back, whatever happens to the wall clock.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A point in time: `at` to show, `elapsed` to measure what has passed since."""

    at: datetime
    elapsed: float  # seconds of the monotonic clock: comparable only within one run

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        """Read both clocks."""
        return cls(at=clock.now(), elapsed=clock.monotonic())
