"""
How the previous run of the daemon ended.

A crash makes suspects of the turns that were running. A stop in order, a reboot, and a signal that
systemd saw coming from outside do not.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from turngate.gateway.domain.ports.clock import Clock

# A crash this long after the start of its run, in seconds, is not part of a crash loop.
_LOOP = 120.0
# What people and systemd send. A crash ends with SEGV, ABRT or BUS.
_SENT_SIGNALS = frozenset({"KILL", "TERM", "INT", "HUP", "QUIT"})
# How systemd calls an end by a signal. `oom-kill` and `watchdog` are ends that a turn can cause.
_OUTSIDE_RESULTS = frozenset({"signal", "timeout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousRun:
    """The previous run. `crashes`: how many in a row, with this one; 0 if it did not crash."""

    run: str | None = None
    crashes: int = 0


class RunRecord:
    """The file with the state of this run, and the exit status that systemd wrote beside it."""

    def __init__(self, file: Path, exit_status: Path, clock: Clock) -> None:
        self._file = file
        self._exit_status = exit_status
        self._clock = clock
        self._written: dict[str, object] = {}

    def previous(self) -> PreviousRun:
        """Read how the previous run ended."""
        written = _read(self._file)
        run = written.get("run")
        started = written.get("started")
        # Without a readable record it is the first start, or a power cut took the record's text.
        if not isinstance(run, str) or not isinstance(started, float):
            return PreviousRun()

        lived = self._clock.monotonic() - started
        # The monotonic clock starts again with the machine.
        rebooted = lived < 0
        if written.get("stopped") or rebooted or self._was_ended_from_outside():
            return PreviousRun(run=run)

        before = written.get("crashes")
        in_loop = isinstance(before, int) and lived < _LOOP
        return PreviousRun(run=run, crashes=before + 1 if in_loop else 1)  # type: ignore[operator]

    def begin(self, run: str, crashes: int) -> None:
        """Record that this run has begun. Until `stopped` is called, its end is a crash."""
        self._written = {"run": run, "crashes": crashes, "started": self._clock.monotonic()}
        self._write()
        # It belongs to the previous run.
        with suppress(OSError):
            self._exit_status.unlink(missing_ok=True)

    def stopped(self) -> None:
        """Record that a stop was asked for: however the process ends now, it is no crash."""
        self._written["stopped"] = True
        self._write()

    def _write(self) -> None:
        # Not synced, and no error: without a record a crash is not noticed, which costs nothing but
        # the quarantine. A full disk is reported where it matters.
        draft = self._file.with_name(f"{self._file.name}.new")
        with suppress(OSError):
            # A new file, never what a link of that name leads to.
            draft.unlink(missing_ok=True)
            with draft.open("x") as file:
                file.write(json.dumps(self._written))
            draft.replace(self._file)

    def _was_ended_from_outside(self) -> bool:
        try:
            words = self._exit_status.read_text().split()
        except (OSError, ValueError):
            return False
        # $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS of the unit's ExecStopPost.
        return len(words) == 3 and words[0] in _OUTSIDE_RESULTS and words[2] in _SENT_SIGNALS


def _read(file: Path) -> dict[str, object]:
    try:
        written = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return written if isinstance(written, dict) else {}
