"""
A platform's time of day, as its answers are dated.

Histories are asked for by time, and ours may be wrong: an hour ahead of the platform's, "since the last message" means
an hour in which nobody has said anything yet.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from turngate.gateway.domain.ports.adapter import Clock

Told = Callable[[str | None], None]
"""Hears the date of an answer, as it is written in its headers."""

# A date has no fractions of a second, and an answer takes its time.
_FRACTION = timedelta(seconds=1)
_NO_DIFFERENCE = timedelta(seconds=5)


class PlatformClock:
    """A clock too. It is ours until the platform has answered, and as long as the two agree."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: tuple[datetime, float] | None = None

    def told(self, date: str | None) -> None:
        """By an answer that has just come."""
        try:
            moment = parsedate_to_datetime(date or "")
        except (ValueError, OverflowError):
            return  # somebody in between has no clock
        if moment.tzinfo is not None:
            self._told = moment, self._clock.monotonic()

    def now(self) -> datetime:
        """As the port has it, by the platform; if not by ours, it may be up to a second later than that."""
        ahead = self._ahead()
        return self._clock.now() + (ahead + _FRACTION if ahead else ahead)

    def monotonic(self) -> float:
        """As the port has it: what passes is the same everywhere."""
        return self._clock.monotonic()

    def no_later(self, moment: datetime) -> datetime:
        """What we call so can by theirs have been that moment, or an earlier one; this is the earlier of both."""
        return moment + min(self._ahead(), timedelta(0))

    def _ahead(self) -> timedelta:
        if self._told is None:
            return timedelta(0)
        moment, then = self._told
        ahead = moment + timedelta(seconds=self._clock.monotonic() - then) - self._clock.now()
        return ahead if abs(ahead) > _NO_DIFFERENCE else timedelta(0)
