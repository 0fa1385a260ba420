"""
A trouble that stays is told once, and later how often it came back: a log has a bound, whatever goes wrong.

Two lines are the same trouble if they say the same of the same: sentence, reason, place, account and agent. Which part
or turn it was does not matter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Repeats:
    """Told of every line that may come back. `now` is a clock that only goes forward."""

    now: Callable[[], float]
    _troubles: OrderedDict[tuple[object, ...], _Trouble] = field(default_factory=OrderedDict)

    def is_news(self, line: Line) -> bool:
        """Whether it is to be told now; if not, it is counted."""
        key = tuple(line.get(name) for name in _SAME)
        trouble = self._troubles.get(key)
        if trouble is not None:
            trouble.held_back += 1
            return False
        if len(self._troubles) >= MOST_KEPT:
            self._troubles.popitem(last=False)
        same = {name: line[name] for name in _SAME if name in line}
        self._troubles[key] = _Trouble(line=same, until=self.now() + FIRST_PAUSE)
        return True

    def overdue(self) -> Iterator[tuple[Line, int]]:
        """What was held back for long enough, with how often. What has not come back is forgotten."""
        now = self.now()
        for key, trouble in [each for each in self._troubles.items() if each[1].until <= now]:
            if not trouble.held_back:
                del self._troubles[key]
                continue
            yield trouble.line, trouble.held_back
            trouble.held_back, trouble.pause = 0, min(trouble.pause * 2, LONGEST_PAUSE)
            trouble.until = now + trouble.pause
