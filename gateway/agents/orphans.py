"""
End what a program left behind when it killed or stopped its own guardian.

The gateway is a subreaper too, so such processes become its children. Our other children are told
from them by their session: guardians are known, and what is forked in this process stays in its
session.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_LOOKS = 2000
_PAUSE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    is_dead: bool
    session: int
    started: int


def adopt_orphans() -> None:
    """Become the parent of what a dead guardian leaves. Only Linux has that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans(of: int, guardians: Collection[int], since: int) -> bool:
    """
    Kill and reap every process that was adopted, and those that come after it. Blocks.

    `of` is the guardian, which was killed; `since` is when it started: an older process is none of
    its program's. Returns whether none is left.
    """
    # Its children become ours when it dies, which is not at once. Whoever started it reaps it.
    for _ in range(_LOOKS):
        guardian = _stat(of)
        if guardian is None or guardian.is_dead:
            break
        time.sleep(_PAUSE)

    # Without a pause at first: what only forks is gone before a slow look is over.
    for look in range(_LOOKS):
        orphans = [each for each in _children() if _is_orphan(each, guardians, since)]
        if not orphans:
            return True
        for process in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        if look > _LOOKS // 4:
            time.sleep(_PAUSE)
    return False


def started_at(process: int) -> int:
    """Return when a process started, in the kernel's ticks; 0 if it is gone."""
    found = _stat(process)
    return 0 if found is None else found.started


def _children() -> list[int]:
    """Return the children of this process, zombies among them."""
    children: list[int] = []
    for thread in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            children += map(int, thread.read_text().split())
    return children


def _is_orphan(process: int, guardians: Collection[int], since: int) -> bool:
    found = _stat(process)
    if found is None or process in guardians:
        return False
    return found.session != os.getsid(0) and found.started >= since


def _stat(process: int) -> _Stat | None:
    """Return what the kernel says of a process; None if it is gone."""
    try:
        stat = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return None
    # After the name in parentheses: state, parent, group, session; the start is the 20th.
    fields = stat.rpartition(b")")[2].split()
    return _Stat(is_dead=fields[0] in (b"Z", b"X"), session=int(fields[3]), started=int(fields[19]))
