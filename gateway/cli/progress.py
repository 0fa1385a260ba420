"""A progress bar, on a terminal only and only after two seconds."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

_SECONDS_BEFORE_SHOWN = 2.0


class Progress:
    """
    Progress bar that is called with a description, the amount done and the total (0 if unknown).
    """

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._what = ""
        self._began = time.monotonic()
        self._is_wanted = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __call__(self, what: str, done: int, whole: int) -> None:
        """Report progress."""
        # Short operations show no bar.
        if not self._is_wanted or time.monotonic() - self._began < _SECONDS_BEFORE_SHOWN:
            return

        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()

        if self._task is None or what != self._what:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=whole or None)
            self._what = what

        self._bar.update(self._task, completed=done)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
