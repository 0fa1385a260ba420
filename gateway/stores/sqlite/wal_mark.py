"""
The mark beside the database: that there is one, and how long its log was after the last commit.

SQLite takes a truncated or lost log for one that ends there, and a missing database for a new one:
both would silently undo acknowledged commits. So a file outside the database records them. It is
written with every commit and never synchronised, so it costs no time: after a power cut it may lag
behind, but never be ahead. The time of the database's last change may lag behind as well, because
SQLite flushes the pages but not that time; so a log that was restarted since then is no loss.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from turngate.gateway.domain.errors import StoreDamaged
from turngate.gateway.stores.sqlite.log_index import LogEnd

_FORM = struct.Struct("=8sQQQ8sII")
_MAGIC = b"TGMARK 1"
_NOTHING = b"\0" * 8


@dataclass(frozen=True, slots=True)
class Left:
    """The files after a commit: device, inode and last change of the database; end of the log."""

    database: tuple[int, int, int]
    log: LogEnd


def mark_of(database: Path) -> Path:
    """Return the path of the mark."""
    # A name that `rm turngate.db*` does not match: the mark must outlast a deleted database.
    return database.with_suffix(".mark")


def identity(found: os.stat_result) -> tuple[int, int, int]:
    """Return device, inode and ctime (ns): writing, copying or replacing a file changes them."""
    return found.st_dev, found.st_ino, found.st_ctime_ns


class WalMark:
    """The mark, open for writing as long as the database is. Writer thread only."""

    def __init__(self, path: Path) -> None:
        """Open the mark; create it durably if it is missing."""
        is_new = not path.exists()
        # Never through a link: the mark is written in place.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        if is_new:
            self.note(Left((0, 0, 0), LogEnd(_NOTHING, 0, 0)))
            os.fsync(self._descriptor)
            folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(folder)
            os.close(folder)

    def note(self, left: Left) -> None:
        """Record the state after a commit."""
        log = left.log
        written = _FORM.pack(_MAGIC, *left.database, log.salt, log.frames, log.backfilled)
        # An error is ignored (full disk): a mark that lags behind only detects less.
        with suppress(OSError):
            os.pwrite(self._descriptor, written + crc32(written).to_bytes(4, "big"), 0)

    def close(self) -> None:
        os.close(self._descriptor)


def refuse_lost_commits(database: Path, log: LogEnd | None) -> None:
    """
    Raise StoreDamaged if the log no longer contains the last recorded commit.

    A database that was changed since then was restored, copied or checkpointed by another program:
    then the mark does not apply.
    """
    left = _read(mark_of(database))
    if left is None or not left.log.is_needed or left.database != identity(database.stat()):
        return
    if log is not None and log.was_begun_after(left.log):
        return

    if log is None or log.salt != left.log.salt or log.frames < left.log.frames:
        had = log.frames if log is not None and log.salt == left.log.salt else 0
        raise StoreDamaged(
            f"the log {database.name}-wal was cut, damaged or lost: of {left.log.frames} pages "
            "that were written to it"
            f" {had} are left, so that what came last is missing (to go on without it, remove "
            f"{mark_of(database)})"
        )


def _read(path: Path) -> Left | None:
    try:
        written = path.read_bytes()
    except OSError:
        return None

    size = _FORM.size
    # A mark that was half written (power cut) says nothing and must not prevent a start.
    if (
        len(written) < size + 4
        or crc32(written[:size]).to_bytes(4, "big") != written[size : size + 4]
    ):
        return None

    magic, device, number, changed, salt, frames, backfilled = _FORM.unpack_from(written)
    return (
        Left((device, number, changed), LogEnd(salt, frames, backfilled))
        if magic == _MAGIC
        else None
    )
