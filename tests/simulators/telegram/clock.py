"""The time there, which tests can move on: what expires after a day need not be waited for."""

from __future__ import annotations

import time


class Clock:
    """Ours, and ahead of it once it was moved."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time() + self._ahead

    def move_on(self, seconds: float) -> None:
        """As if so much time had passed."""
        self._ahead += seconds
