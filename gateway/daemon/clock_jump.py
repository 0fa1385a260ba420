"""
Whether the time of day can be believed by those who delete by it.

A clock that was set, and a host that slept, look alike: the time of day has moved by something else than what passed.
Then nothing is decided by it for an hour. What waited is done later; what was deleted would be gone.
"""

from __future__ import annotations

from datetime import timedelta

from turngate.gateway.domain.ports.adapter import Clock

WAIT_AFTER_JUMP = timedelta(hours=1)

# Between two looks. Time servers that correct a clock little by little stay far below.
_TOLERANCE = timedelta(seconds=5)


class ClockJump:
    """Compares the two clocks each time it is asked, which should be every minute or so."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = clock.now(), clock.monotonic()
        self._doubted_until = self._seen[1]

    def holds(self) -> bool:
        """Whether the time of day has gone as time has, for long enough."""
        (day, passed), (now, passing) = self._seen, (self._clock.now(), self._clock.monotonic())
        self._seen = now, passing
        jumped = (now - day) - timedelta(seconds=passing - passed)
        if abs(jumped) > _TOLERANCE:
            self._doubted_until = passing + WAIT_AFTER_JUMP.total_seconds()
        return passing >= self._doubted_until
