"""
Detect that the wall clock was set, before anything is deleted by age.

A clock that was set and a host that was suspended look alike: the wall clock moved by another
amount than the monotonic clock. Nothing is deleted for an hour after that. Delayed work is done
later; deleted data would be gone.
"""

from __future__ import annotations

from datetime import timedelta

from turngate.gateway.domain.ports.clock import Clock

WAIT_AFTER_JUMP = timedelta(hours=1)

# Between two calls. Time servers that correct a clock gradually stay far below.
_TOLERANCE = timedelta(seconds=5)


class ClockJump:
    """The comparison of the two clocks, to be made about once a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = clock.now(), clock.monotonic()
        self._doubted_until = self._seen[1]

    def holds(self) -> bool:
        """Return whether the two clocks have agreed for long enough."""
        day, passed = self._seen
        now = self._clock.now()
        passing = self._clock.monotonic()
        # Only the time since the last call counts: corrections that are small each time may add up.
        self._seen = now, passing
        jumped = (now - day) - timedelta(seconds=passing - passed)
        if abs(jumped) > _TOLERANCE:
            self._doubted_until = passing + WAIT_AFTER_JUMP.total_seconds()
        return passing >= self._doubted_until
