"""
Open a file named by an agent, only if it is inside a given folder.

Each path component is opened from its parent's descriptor and no link is followed, so that no link
can be placed between a check and the opening. Every refusal has the same text, so that it reveals
nothing about files outside.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from turngate.gateway.domain.errors import Refused

NOT_INSIDE = "it is no plain file in the folder of this conversation"

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe blocks until a writer opens it. Without O_NOCTTY, opening
# a terminal could make it the daemon's controlling terminal.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def opened_inside(folder: Path, named: str, *, start: str) -> Iterator[int]:
    """
    Yield a descriptor for reading. A relative name starts at `start`, a folder inside `folder`.

    Raises Refused for symbolic and hard links, devices, pipes, sockets, folders and missing files.
    """
    try:
        descriptor = _walk(folder, _steps(folder, named, start))
    except (OSError, ValueError) as exc:
        raise Refused(NOT_INSIDE) from exc

    try:
        # By descriptor, not by name: the name may refer to another file by now.
        if not _is_plain(os.fstat(descriptor)):
            raise Refused(NOT_INSIDE)
        yield descriptor
    finally:
        os.close(descriptor)


def _steps(folder: Path, named: str, start: str) -> Sequence[str]:
    """Return the path components from the folder to the file. ValueError if it is outside."""
    # A pure path: resolving it would follow the links that must be refused.
    path = PurePosixPath(named)
    if not path.is_absolute():
        path = PurePosixPath(folder, start, path)
    steps = path.relative_to(folder).parts
    if not steps or ".." in steps:
        raise ValueError("not below the folder")
    return steps


def _walk(folder: Path, steps: Sequence[str]) -> int:
    here = os.open(folder, _STEP)
    try:
        for step in steps[:-1]:
            further = os.open(step, _STEP, dir_fd=here)
            os.close(here)
            here = further
        return os.open(steps[-1], _FILE, dir_fd=here)
    finally:
        os.close(here)


def _is_plain(found: os.stat_result) -> bool:
    # With a second hard link the file may also be one outside the folder.
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
