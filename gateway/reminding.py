"""What has been told already: many find out about one trouble, again and again, and a log has room for other things."""

from __future__ import annotations

from datetime import timedelta

EVERY = timedelta(minutes=10)
"""A trouble that lasts is told again so often."""

AT_MOST_EVERY = timedelta(minutes=1)
"""One that comes and goes is not told more often."""

_MOST = 50


class Reminding:
    """One trouble, in the words in which it shows. Moments are in seconds, of a clock that nobody sets."""

    def __init__(self) -> None:
        self._told_at: dict[str, float] = {}
        self._began_at: float | None = None
        self._is_told = False

    def is_due(self, words: str, now: float) -> bool:
        """It is there. Whether to tell of it: at its beginning, and now and then for as long as it lasts."""
        if self._began_at is None:
            self._began_at, self._is_told = now, False
        wait, told_at = EVERY if self._is_told else AT_MOST_EVERY, self._told_at.get(words)
        if told_at is not None and now - told_at < wait.total_seconds():
            return False
        if len(self._told_at) >= _MOST:
            self._told_at.clear()
        self._told_at[words], self._is_told = now, True
        return True

    def is_over(self, now: float) -> timedelta | None:
        """It is gone. How long it lasted, if it was told of and nobody has said yet that it is over."""
        began_at, self._began_at = self._began_at, None
        return None if began_at is None or not self._is_told else timedelta(seconds=now - began_at)
