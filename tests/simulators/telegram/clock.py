"""The time there, which tests can move on: what expires after a day need not be waited for."""

from __future__ import annotations

import time


class Clock:
    """Ours, ahead of it once it was moved, and still once it was stopped."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._stopped_at: float | None = None

    def now(self) -> float:
        """Seconds since 1970."""
        return (time.time() if self._stopped_at is None else self._stopped_at) + self._ahead

    def move_on(self, seconds: float) -> None:
        """As if so much time had passed."""
        self._ahead += seconds

    def stop(self) -> None:
        """From now on it is moved by hand only."""
        self._stopped_at = self._stopped_at or time.time()
