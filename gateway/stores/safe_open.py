"""
Opening a file that somebody else names, if it lies inside a folder, and no other.

The way there is walked step by step from the folder's own descriptor and no link is followed, so
that nobody can put one in between the look and the opening. Every refusal has the same words: they
say nothing of what is outside.
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
# Without O_NONBLOCK the opening of a pipe would wait for somebody who writes into it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def opened_inside(folder: Path, named: str, *, start: str) -> Iterator[int]:
    """
    A descriptor to read the file with. A relative name counts from `start`, a folder inside the
    folder.

    Raises Refused for links of both kinds, devices, pipes, sockets, folders, and whatever is not
    there.
    """
    try:
        descriptor = _walk(folder, _steps(folder, named, start))
    except (OSError, ValueError) as exc:
        raise Refused(NOT_INSIDE) from exc

    try:
        if not _is_plain(os.fstat(descriptor)):
            raise Refused(NOT_INSIDE)
        yield descriptor
    finally:
        os.close(descriptor)


def _steps(folder: Path, named: str, start: str) -> Sequence[str]:
    """The names from the folder down to the file, the last one included."""
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
    """A second name of a file may be the name of one that lies elsewhere."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
