"""
Check that the opened files are still those under their names.

A deleted or replaced file stays open without a name: writes to it would succeed and be lost with
the process. A truncated log would be written after the gap, and end before it for any reader.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from turngate.gateway.domain.errors import StoreDamaged
from turngate.gateway.stores.sqlite.log_index import LogEnd, read_log_end
from turngate.gateway.stores.sqlite.wal_mark import (
    Left,
    WalMark,
    identity,
    mark_of,
    refuse_lost_commits,
)

_LOOKS = 5
_PAUSE = 0.02
_NONE = LogEnd(b"\0" * 8, 0, 0)


class FileIdentity:
    """The files of an open database. Writer thread only."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log = database.with_name(database.name + "-wal")
        self._files = [(path, _inode(path.stat())) for path in (database, self._log)]
        self._mark = WalMark(mark_of(database))
        self._index = os.open(
            database.with_name(database.name + "-shm"), os.O_RDONLY | os.O_CLOEXEC
        )

    def look(self) -> None:
        """Raise StoreDamaged if a file is gone, is another one, or was cut."""
        for look in range(_LOOKS):
            found = self._found()
            # Another program may have checkpointed between our reads of the log and its index, so
            # one mismatch proves nothing.
            if found[1].st_size >= self._end().length:
                return
            if look:
                time.sleep(_PAUSE)
        raise StoreDamaged(f"{self._log} was cut short while it was in use")

    def refuse_lost_commits(self) -> None:
        """Raise StoreDamaged if the log lost commits. Call before anything is written."""
        refuse_lost_commits(self._database, read_log_end(self._index))

    def note_commit(self) -> None:
        """Check the files and record the end of the log in the mark."""
        database, _ = self._found()
        self._mark.note(Left(identity(database), self._end()))

    def log_length(self) -> int:
        """Return the length of the log in bytes."""
        return self._end().length

    def close(self) -> None:
        """Close, after the database: closing the descriptor drops SQLite's locks."""
        os.close(self._index)
        self._mark.close()

    def _end(self) -> LogEnd:
        return read_log_end(self._index) or _NONE

    def _found(self) -> list[os.stat_result]:
        return [_same(path, inode) for path, inode in self._files]


def _same(path: Path, inode: tuple[int, int]) -> os.stat_result:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise StoreDamaged(f"{path} was deleted or moved away while it was in use") from None
    if _inode(found) != inode:
        raise StoreDamaged(f"{path} was replaced by another file while it was in use")
    return found


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
