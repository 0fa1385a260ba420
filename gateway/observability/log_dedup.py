"""
A trouble that stays is told once, and later how often it came back: a log has a bound, whatever goes wrong.

Two lines are the same trouble if they say the same of the same: sentence, reason, place, account and agent. Which part
or turn it was does not matter.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
MOST_KEPT = 1000

_SAME = ("level", "event", "action", "outcome", "platform", "account", "agent", "reason", "where")

Line = Mapping[str, object]


@dataclass(slots=True)
class _Trouble:
    line: Line
    until: float
    pause: float = FIRST_PAUSE
    held_back: int = 0

    def told_again(self, now: float) -> tuple[Line, int]:
        """The less often the longer it lasts."""
        times, self.held_back = self.held_back, 0
        self.pause = min(self.pause * 2, LONGEST_PAUSE)
        self.until = now + self.pause
        return self.line, times


class LogDedup:
    """Told, from any thread, of every line that may come back. `now` is a clock that only goes forward."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._troubles: OrderedDict[tuple[object, ...], _Trouble] = OrderedDict()

    def is_news(self, line: Line) -> bool:
        """Whether it is to be told now; if not, it is counted."""
        key = tuple(line.get(name) for name in _SAME)
        with self._lock:
            trouble = self._troubles.get(key)
            if trouble is not None:
                trouble.held_back += 1
                return False
            if len(self._troubles) >= MOST_KEPT:
                self._troubles.popitem(last=False)
            same = {name: line[name] for name in _SAME if name in line}
            self._troubles[key] = _Trouble(line=same, until=self._now() + FIRST_PAUSE)
            return True

    def overdue(self) -> list[tuple[Line, int]]:
        """What was held back for long enough, with how often. What has not come back is forgotten."""
        now = self._now()
        with self._lock:
            due = [
                (key, trouble) for key, trouble in self._troubles.items() if trouble.until <= now
            ]
            for key, trouble in due:
                if not trouble.held_back:
                    del self._troubles[key]
            return [trouble.told_again(now) for _, trouble in due if trouble.held_back]
