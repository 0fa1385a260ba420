"""
What the operating system says of the disk: SQLite tells only that a write failed, and keeps the
reason to itself.
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
# Some file systems have no files without a name; that says nothing of their room.
_SAYS_NOTHING = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def complaint(folder: Path, length: int) -> str | None:
    """
    Why a file of that length in that folder cannot grow by a little; None if it can. Leaves nothing
    behind.
    """
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        return _in_words(exc)

    try:
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
