"""
Log a lasting problem once, and later how often it recurred, so that logs stay bounded.

Two lines are the same problem if sentence, reason, location, account and agent are equal. Which
part or turn it was does not matter.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from turngate.gateway.domain.backoff import Backoff

# Seconds.
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0
MOST_KEPT = 1000

_BACKOFF = Backoff(first=FIRST_PAUSE, longest=LONGEST_PAUSE)

# Not the turn, the session or the part: they differ each time, and nothing would be deduplicated.
_SAME = ("level", "event", "action", "outcome", "platform", "account", "agent", "reason", "where")

Line = Mapping[str, object]


@dataclass(slots=True)
class _Trouble:
    line: Line
    until: float
    reports: int = 0
    held_back: int = 0

    def told_again(self, now: float) -> tuple[Line, int]:
        """Return the line to log again and its count; the next one is due after a longer pause."""
        times = self.held_back
        self.held_back = 0
        self.reports += 1
        self.until = now + _BACKOFF.pause(self.reports)
        return self.line, times


class LogDedup:
    """Receives, from any thread, every line that may recur. `now` is a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._troubles: OrderedDict[tuple[object, ...], _Trouble] = OrderedDict()

    def is_news(self, line: Line) -> bool:
        """Return whether to log it now; if not, it is counted."""
        key = tuple(line.get(name) for name in _SAME)
        with self._lock:
            trouble = self._troubles.get(key)
            if trouble is not None:
                trouble.held_back += 1
                return False
            # Reasons and locations may vary without limit. The oldest is forgotten with its count;
            # if it recurs, it is logged as a new problem.
            if len(self._troubles) >= MOST_KEPT:
                self._troubles.popitem(last=False)
            # Only what identifies the problem: the report must not name the first turn or part.
            same = {name: line[name] for name in _SAME if name in line}
            self._troubles[key] = _Trouble(line=same, until=self._now() + FIRST_PAUSE)
            return True

    def overdue(self) -> list[tuple[Line, int]]:
        """
        Return what was held back long enough, with its count. What has not recurred is forgotten.
        """
        now = self._now()
        with self._lock:
            due = [
                (key, trouble) for key, trouble in self._troubles.items() if trouble.until <= now
            ]
            for key, trouble in due:
                if not trouble.held_back:
                    del self._troubles[key]
            return [trouble.told_again(now) for _, trouble in due if trouble.held_back]
