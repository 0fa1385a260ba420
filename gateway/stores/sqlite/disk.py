"""
Ask the operating system why the disk takes no writes: SQLite reports only that a write failed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

ROOM = 65536
"""In bytes: what must fit in for a disk to count as one that has room."""

_WORDS = {
    errno.ENOSPC: "the disk is full; free some space, then writing goes on by itself",
    errno.EDQUOT: "the disk quota is used up; raise it or free some space, then writing goes on "
    "by itself",
    errno.EFBIG: "a file may not grow any further: the file-size limit of the process is reached "
    "(LimitFSIZE= in the"
    " unit, `ulimit -f` in a shell); raise it, then writing goes on by itself",
    errno.EROFS: "the file system is read-only; mount it for writing, then writing goes on by "
    "itself",
    errno.EACCES: "the folder may not be written to; check its owner and permissions",
    errno.EIO: "the disk fails (input/output error); look into the kernel's log and save what is "
    "on it",
}
# Some file systems do not support O_TMPFILE; that says nothing about their free space.
_SAYS_NOTHING = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def complaint(folder: Path, length: int) -> str | None:
    """
    Return why a file of that length in this folder cannot grow by ROOM bytes; None if it can.
    """
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        return _in_words(exc)

    try:
        # At the log's own length, so that a file-size limit (EFBIG) shows as it would for the log.
        # A short write is continued: the next call returns the error.
        written = 0
        while written < ROOM:
            written += os.pwrite(descriptor, b"\0" * (ROOM - written), length + written)
    except OSError as exc:
        return _in_words(exc)
    finally:
        os.close(descriptor)

    return None


def _in_words(exc: OSError) -> str | None:
    if exc.errno in _SAYS_NOTHING:
        return None
    return _WORDS.get(exc.errno or 0, f"the disk does not take writes ({exc.strerror})")
