"""
The event-loop watchdog: log what blocks the loop while it is blocked.

A thread checks whether the loop still ticks, and if not, where its thread stands: file, line and
function of each frame, never a value.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from types import FrameType

from turngate.gateway.observability.observer import Observer

ALLOWED = timedelta(milliseconds=500)
"""What people do not notice is not worth a line."""

# Seconds.
_TICK = 0.2
_MOST_FRAMES = 8
# The innermost frame of an event loop that waits for I/O is in this file of asyncio's selector.
_IDLE = "selectors.py"


class StallProbe:
    """Watches the loop that runs it."""

    def __init__(self, observer: Observer, allowed: timedelta = ALLOWED) -> None:
        self._observer = observer
        self._allowed = allowed.total_seconds()
        # Written by the loop, read by the thread. One float needs no lock.
        self._ticked = 0.0
        self._over = threading.Event()

    async def run(self) -> None:
        """Tick until cancelled."""
        self._ticked = time.monotonic()
        looking = threading.Thread(
            target=self._look, args=(threading.get_ident(),), name="stalls", daemon=True
        )
        looking.start()

        try:
            while True:
                due = time.monotonic() + _TICK
                await asyncio.sleep(_TICK)
                self._ticked = time.monotonic()
                self._observer.lagged(max(self._ticked - due, 0.0))
        finally:
            self._over.set()  # ends the thread, which waits on it between two looks

    def _look(self, loop_thread: int) -> None:
        """Report each stall when it is seen, and when it is over. Runs on the watchdog's thread."""
        stalled_at = None
        looked = time.monotonic()
        while not self._over.wait(_TICK):
            before = looked
            looked = time.monotonic()
            ticked = self._ticked
            if stalled_at is not None and ticked > stalled_at:
                self._observer.stall_over(timedelta(seconds=ticked - stalled_at))
                stalled_at = None

            # If this thread is late as well, the whole process was suspended or starved, and no
            # code of it is the cause.
            has_slept = looked - before > _TICK + self._allowed
            if stalled_at is None and looked - ticked > self._allowed and not has_slept:
                where = _where(loop_thread)
                if where is not None:
                    stalled_at = ticked
                    self._observer.stalled(where)


def _where(thread: int) -> str | None:
    """Return where the thread stands, outermost first; None if it is idle."""
    # The documented way to look at another thread.
    frame = sys._current_frames().get(thread)  # noqa: SLF001
    frames = list(islice(_inside_out(frame), _MOST_FRAMES))
    if not frames or frames[0].f_code.co_filename.endswith(_IDLE):
        return None
    return " > ".join(map(_frame_location, reversed(frames)))


def _inside_out(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _frame_location(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}:{frame.f_code.co_name}"
