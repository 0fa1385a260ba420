"""Exponential backoff: growing pauses between attempts."""

from __future__ import annotations

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 32
"""More would only make a larger number to be cut to the longest pause."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """
    Pauses in seconds that double with each attempt up to `longest`.

    `jitter` is the share of a pause that is random, so that many clients do not retry at the same
    moment: 0 is exact, 1 is anything up to the pause.
    """

    first: float
    longest: float
    jitter: float = 0.0

    def pause(self, attempt: int) -> float:
        """Return the pause after this many earlier attempts."""
        # A float times 2**1024 raises OverflowError, and callers do not bound the attempts.
        doublings = min(attempt, _MOST_DOUBLINGS)
        pause: float = min(self.first * 2**doublings, self.longest)
        if not self.jitter:
            return pause
        return random.uniform(pause * (1 - self.jitter), pause)  # noqa: S311 - jitter, no secret
