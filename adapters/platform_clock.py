"""
The platform's time of day, taken from the Date header of its answers.

Histories are requested by time, and the local clock may be wrong: if it is an hour ahead, "since
the last message" means an hour that is still to come.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from turngate.gateway.domain.ports.clock import Clock

NoteDate = Callable[[str | None], None]
"""Receives the Date header of an answer."""

# A date has no fractions of a second, and an answer takes its time.
_FRACTION = timedelta(seconds=1)
_NO_DIFFERENCE = timedelta(seconds=5)


class PlatformClock:
    """
    A clock that follows the platform's time; the local one until it answers or while both agree.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: tuple[datetime, float] | None = None

    def note_date(self, date: str | None) -> None:
        """Note the Date header of an answer that has just arrived."""
        try:
            moment = parsedate_to_datetime(date or "")
        except (ValueError, OverflowError):
            # A proxy may send no valid date.
            return
        if moment.tzinfo is not None:
            self._noted = moment, self._clock.monotonic()

    def now(self) -> datetime:
        """Return the platform's time, up to a second late if it differs from the local clock."""
        ahead = self._ahead()
        return self._clock.now() + (ahead + _FRACTION if ahead else ahead)

    def monotonic(self) -> float:
        """Return the local monotonic clock: durations are the same everywhere."""
        return self._clock.monotonic()

    def no_later(self, moment: datetime) -> datetime:
        """Return the earlier of a local time and the same time by the platform's clock."""
        return moment + min(self._ahead(), timedelta(0))

    def _ahead(self) -> timedelta:
        if self._noted is None:
            return timedelta(0)
        moment, then = self._noted
        ahead = moment + timedelta(seconds=self._clock.monotonic() - then) - self._clock.now()
        return ahead if abs(ahead) > _NO_DIFFERENCE else timedelta(0)
