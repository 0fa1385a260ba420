"""
The breaker of one agent: after failures in a row it is not asked for a while.

A server that is down would otherwise keep the slot of every turn until its timeout. The pause grows
as long as the agent fails, and after each pause one turn finds out whether it answers again.
"""

from __future__ import annotations

import asyncio

_FAILURES_IN_A_ROW = 3
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 60.0


class Breaker:
    """Counts turns that one agent failed, in all sessions together."""

    def __init__(self) -> None:
        self._failures = 0
        self._asked_again_at = 0.0
        self._is_tried = False

    def seconds_left(self) -> float:
        """Return for how long the agent is not asked; 0.0: this turn may ask it."""
        if self._failures < _FAILURES_IN_A_ROW:
            return 0.0

        now = asyncio.get_running_loop().time()
        left = self._asked_again_at - now
        if left <= 0:
            # This turn tries it. The others do not until that has failed, or takes too long.
            self._asked_again_at = now + _LONGEST_PAUSE
            self._is_tried = True
        return max(left, 0.0)

    def succeeded(self) -> None:
        """Note that the agent answered, be it with a refusal."""
        self._failures = 0
        self._is_tried = False

    def failed(self) -> None:
        """Note that a turn failed. Those that had begun before the pause do not prolong it."""
        now = asyncio.get_running_loop().time()
        is_paused = self._failures >= _FAILURES_IN_A_ROW and now < self._asked_again_at
        if is_paused and not self._is_tried:
            return

        self._is_tried = False
        self._failures += 1
        doubled = _FIRST_PAUSE * 2.0 ** min(self._failures - _FAILURES_IN_A_ROW, 10)
        self._asked_again_at = now + min(doubled, _LONGEST_PAUSE)
