"""The time of this machine. Everything else is handed a clock, so that tests can stop it."""

import time
from datetime import UTC, datetime


class SystemClock:
    """What the host says."""

    def now(self) -> datetime:
        """The present, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """What no operator and no time server sets."""
        return time.monotonic()
