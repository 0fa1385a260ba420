"""
The mark beside the database: that there is one, and how far its log had come with the last commit.

SQLite takes a log that was cut, or lost, for one that ends there, and a missing database for one
that is to be made: either would take back what was acknowledged, and nobody would know. So
something outside remembers. It is written with every commit and never synchronised, so that it
costs no time: after a power cut it may lag behind, never be ahead. The time of the database's last
change may lag behind as well, for SQLite asks for its pages to be on disk and not for that; so a
log that was begun anew since then is no loss.
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
    """
    How the files were left: the database by its device, its number and its last change, and the end
    of the log.
    """

    database: tuple[int, int, int]
    log: LogEnd


def mark_of(database: Path) -> Path:
    """Where it is. Not named after the database, so that what deletes `turngate.db*` leaves it."""
    return database.with_suffix(".mark")


def identity(found: os.stat_result) -> tuple[int, int, int]:
    """Whoever writes to a file, copies or replaces it, changes this."""
    return found.st_dev, found.st_ino, found.st_ctime_ns


class WalMark:
    """Open for writing, for as long as the database is."""

    def __init__(self, path: Path) -> None:
        """Made where it is missing, and on disk before anything else is."""
        is_new = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if is_new:
            self.note(Left((0, 0, 0), LogEnd(_NOTHING, 0, 0)))
            os.fsync(self._descriptor)
            folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(folder)
            os.close(folder)

    def note(self, left: Left) -> None:
        """
        What was just committed. On a disk that takes nothing it stays behind, which does no harm.
        """
        log = left.log
        written = _FORM.pack(_MAGIC, *left.database, log.salt, log.frames, log.backfilled)
        with suppress(OSError):
            os.pwrite(self._descriptor, written + crc32(written).to_bytes(4, "big"), 0)

    def close(self) -> None:
        """What it says stays."""
        os.close(self._descriptor)


def refuse_lost_commits(database: Path, log: LogEnd | None) -> None:
    """
    Raise if the log no longer has what was committed last.

    A database that was changed since then has been restored, copied, or put in order by somebody
    who wrote the log into it: then the mark knows nothing.
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
