"""
Write log lines on a thread of their own, so that logging never waits for the reader.

A reader that is slow, gone or out of space costs lines and nothing else. Lost lines are counted,
and the count is logged as soon as possible.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

MOST_WAITING = 10_000
"""Lines. What comes then is lost: a log that grows without end would take the daemon with it."""

# Lines per write. If a write fails, all of them count as lost.
_AT_ONCE = 200


class LogWriter:
    """
    Writes to one descriptor. `tell_lost` is called on the writer's thread with the number of lost
    lines.
    """

    def __init__(
        self, descriptor: int, tell_lost: Callable[[int], None], *, most: int = MOST_WAITING
    ) -> None:
        self._descriptor = descriptor
        self._tell_lost = tell_lost
        self._most = most
        self._waiting: deque[str] = deque()
        self._changed = threading.Condition()
        # `lost` only grows, for the metrics; `_untold` is what the log does not mention yet.
        self._untold = 0
        self.lost = 0
        # A daemon thread: a reader that never reads must not keep the process from ending.
        threading.Thread(target=self._work, name="log", daemon=True).start()

    def write(self, line: str) -> None:
        """Queue a line, from any thread, without blocking."""
        with self._changed:
            if len(self._waiting) < self._most:
                self._waiting.append(line)
                self._changed.notify_all()
            else:
                self._count_lost(1)

    def flush(self, longest: float) -> None:
        """Wait until everything is written, at most `longest` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, longest)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                # Copied, not taken: until written, lines count for the limit and for `flush`.
                lines = [self._waiting[n] for n in range(min(len(self._waiting), _AT_ONCE))]

            is_written = self._hand_over(
                "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
            )
            with self._changed:
                for _ in lines:
                    self._waiting.popleft()
                if not is_written:
                    self._count_lost(len(lines))
                # Reported only after a successful write, because the report is a line itself.
                untold, self._untold = (self._untold, 0) if is_written else (0, self._untold)
                self._changed.notify_all()

            if untold:
                # Without the lock: it logs a line, which comes back through `write`.
                self._tell_lost(untold)

    def _hand_over(self, piece: bytes) -> bool:
        try:
            while piece:
                # A parent process may have made the descriptor non-blocking: without the wait, a
                # full pipe raises BlockingIOError and the lines are lost.
                select.select([], [self._descriptor], [])
                piece = piece[os.write(self._descriptor, piece) :]
        except OSError:
            # The pipe is closed or the disk is full, and there is no other place to report it.
            return False
        return True

    def _count_lost(self, lines: int) -> None:
        self.lost += lines
        self._untold += lines
