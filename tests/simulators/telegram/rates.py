"""
How much is too much:
https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
"""

from __future__ import annotations

import math
from collections import defaultdict, deque

from tests.simulators.telegram import rules
from tests.simulators.telegram.clock import Clock

PER_CHAT = (5, 5.0)
"""About one a second; short bursts pass."""
PER_GROUP = (20, 60.0)
OVERALL = (30, 1.0)


class Rates:
    """Counts what was sent, where and when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent: dict[tuple[object, ...], deque[float]] = defaultdict(deque)

    def count(self, account: str, chat_id: int) -> None:
        """One more message or edit. Raises if it is one too many, with how long to wait."""
        limits = [((account, chat_id), PER_CHAT), ((account,), OVERALL)]
        if chat_id < 0:
            limits.append(((account, chat_id, "group"), PER_GROUP))
        now = self._clock.now()
        pause = max(self._pause(key, limit, now) for key, limit in limits)
        if pause > 0:
            raise rules.slow_down(math.ceil(pause))
        for key, _ in limits:
            self._sent[key].append(now)

    def _pause(self, key: tuple[object, ...], limit: tuple[int, float], now: float) -> float:
        most, seconds = limit
        sent = self._sent[key]
        while sent and self._left(sent[0], seconds, now) <= 0:
            sent.popleft()
        return self._left(sent[0], seconds, now) if len(sent) >= most else 0.0

    @staticmethod
    def _left(sent_at: float, seconds: float, now: float) -> float:
        """To the millisecond: floats this large are not exact."""
        return round(sent_at + seconds - now, 3)
