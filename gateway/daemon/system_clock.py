"""The host's clock. All other code is passed a clock, so that tests can control it."""

import time
from datetime import UTC, datetime


class SystemClock:
    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that no change of the wall clock affects."""
        return time.monotonic()
