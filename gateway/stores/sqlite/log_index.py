"""
Read the end of SQLite's log from its index:
https://www.sqlite.org/walformat.html#the_wal_index_file_format

The index is a file that SQLite maps; reading it needs no lock. Its descriptor must stay open as
long as the database is: closing any descriptor of a file drops all locks of the process on it.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

_WRITTEN_WITH = 3007000
_LOG_HEADER = 32
_FRAME_HEADER = 24
_BACKFILLED_AT = 96
# A random salt of a new log falls into this range once in 65,536 times.
_MOST_LOGS_MISSED = 1 << 16


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The number of frames in the log with this salt, and how many are in the database too."""

    salt: bytes
    frames: int
    backfilled: int
    page_size: int = 4096

    @property
    def length(self) -> int:
        """The minimum length of the log in bytes."""
        return _LOG_HEADER + self.frames * (_FRAME_HEADER + self.page_size) if self.frames else 0

    def was_begun_after(self, other: LogEnd) -> bool:
        """Return whether this log is a restart of the other one."""
        # SQLite adds one to the first half of the salt when it restarts a log, which it does only
        # when the database has all of it. A new log has a random salt, an empty one has none.
        ahead = int.from_bytes(self.salt[:4], "big") - int.from_bytes(other.salt[:4], "big")
        return any(self.salt) and 0 < ahead % (1 << 32) <= _MOST_LOGS_MISSED

    @property
    def is_needed(self) -> bool:
        """Whether the log has commits that the database has not."""
        return self.frames > self.backfilled


def read_log_end(index: int) -> LogEnd | None:
    """Return the end of the log from the index's descriptor; None if the index is not in use."""
    # The index is in the byte order of the machine ("="), unlike the log and the database.
    written = os.pread(index, _BACKFILLED_AT + 4, 0)
    if (
        len(written) < _BACKFILLED_AT + 4
        or struct.unpack_from("=I", written, 0)[0] != _WRITTEN_WITH
    ):
        return None

    page_size = struct.unpack_from("=H", written, 14)[0]
    return LogEnd(
        salt=written[32:40],
        frames=struct.unpack_from("=I", written, 16)[0],
        backfilled=struct.unpack_from("=I", written, _BACKFILLED_AT)[0],
        page_size=65536 if page_size == 1 else page_size,
    )
