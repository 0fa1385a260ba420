"""
Open the database file: nothing is written until it is known to be ours, no empty one replaces a
lost one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from turngate.gateway.domain.errors import StoreDamaged, StoreUnavailable
from turngate.gateway.stores.sqlite.backup import keep_copy
from turngate.gateway.stores.sqlite.file_identity import FileIdentity
from turngate.gateway.stores.sqlite.migrations import (
    migrate,
    our_scripts,
    refuse_foreign,
    schema_of,
)
from turngate.gateway.stores.sqlite.restore import finish_restore
from turngate.gateway.stores.sqlite.search_index import SearchIndex
from turngate.gateway.stores.sqlite.wal_mark import mark_of

# FULL: with NORMAL a power cut takes acknowledged commits back.
PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # Checkpoints every 16 MB: each writes a page once, however often it changed since the last.
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
    # What is deleted is overwritten: it shall not be found in the file any more.
    "PRAGMA secure_delete = ON",
)


# A lock is waited for in so many milliseconds at once, so that a writer who is told to stop hears
# it.
_ONE_WAIT = 100


@dataclass(slots=True)
class Database:
    """
    An open database: the connection that writes, and what watches over its files.

    `guard` can only read. As long as it is open, closing the other one does not write the log into
    the database.
    """

    connection: sqlite3.Connection
    guard: sqlite3.Connection
    presence: FileIdentity

    def close(self, *, is_damaged: bool) -> None:
        """What is damaged is left as it is."""
        first, second = (
            (self.connection, self.guard) if is_damaged else (self.guard, self.connection)
        )
        first.close()
        second.close()
        self.presence.close()


def open_database(path: Path, index: SearchIndex, lock_timeout: float) -> Database:
    """With its schema brought up to date."""
    finish_restore(path)
    _refuse_lost(path)
    if not path.exists():
        _create(path)

    with ExitStack() as opened:
        guard = opened.enter_context(closing(_connect(path, lock_timeout, only_read=True)))

        refuse_foreign(guard)
        db = opened.enter_context(closing(_connect(path, lock_timeout)))
        _set_up(db)
        presence = _watched(path)
        opened.callback(presence.close)
        presence.refuse_lost_commits()
        _keep_before_migrating(path, db)
        migrate(db, our_scripts())
        index.prepare(db)
        db.execute(f"PRAGMA busy_timeout = {_ONE_WAIT}")
        opened.pop_all()

    return Database(db, guard, presence)


def _refuse_lost(path: Path) -> None:
    """What was there once and is gone was lost: a new, empty database would hide that."""
    log = path.with_name(path.name + "-wal")
    mark = mark_of(path)
    if not path.exists() and log.exists() and log.stat().st_size > 0:
        raise StoreDamaged(f"{path} is missing, but its log {log.name} is there")

    if not path.exists() and mark.exists():
        raise StoreDamaged(
            f"{path} is missing, and it was there before (to begin with an empty one, remove "
            f"{mark})"
        )

    if path.is_file() and path.stat().st_size < _announced_size(path, log):
        raise StoreDamaged(f"{path} is cut short")


def _announced_size(path: Path, log: Path) -> int:
    """
    What the header says, where no log is there to complete it; at least one page, for ours is never
    empty.
    """
    with path.open("rb") as file:
        header = file.read(100)

    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        return 0 if header else 1

    page = int.from_bytes(header[16:18], "big")
    is_whole = not (log.exists() and log.stat().st_size) and header[24:28] == header[92:96]
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big") if is_whole else 0


def _create(path: Path) -> None:
    """
    Made under another name and renamed when it is whole, so that a file of ours is never half-made
    or empty.
    """
    draft = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in path.parent.glob(f"{draft.name}*"):
            leftover.unlink()
        draft.touch(mode=0o600)
    except OSError as exc:
        raise StoreUnavailable(
            f"{path} cannot be made ({exc.strerror}); check the folder's owner and permissions,"
            " or choose another state_dir"
        ) from exc

    with closing(_connect(draft, 0)) as db:
        _set_up(db)
        migrate(db, our_scripts())

    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _keep_before_migrating(path: Path, db: sqlite3.Connection) -> None:
    """
    A copy to go back to. It has no date in its name, so that a start that dies again and again
    makes one.
    """
    pending = [number for number, _ in our_scripts() if number > schema_of(db)]
    if not pending:
        return

    kept = path.with_name("backups") / f"turngate-before-{pending[0]:03}.db"
    try:
        kept.parent.mkdir(exist_ok=True, mode=0o700)
        keep_copy(path, kept)
    except (OSError, StoreUnavailable) as exc:
        raise StoreUnavailable(
            f"before the database is brought to schema {pending[-1]} a copy of it is kept, and "
            "that cannot be written:"
            f" {exc}. Nothing was changed"
        ) from exc


def _connect(path: Path, lock_timeout: float, *, only_read: bool = False) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={'ro' if only_read else 'rw'}"
    try:
        return sqlite3.connect(address, uri=True, isolation_level=None, timeout=lock_timeout)
    except sqlite3.Error as exc:
        raise StoreUnavailable(
            f"{path} cannot be opened ({exc}); check the folder's owner and permissions"
        ) from exc


def _set_up(db: sqlite3.Connection) -> None:
    for pragma in PRAGMAS:
        db.execute(pragma)
    db.execute("SELECT count(*) FROM sqlite_schema").fetchall()


def _watched(path: Path) -> FileIdentity:
    try:
        return FileIdentity(path)
    except OSError as exc:
        raise StoreUnavailable(
            f"the files beside {path} cannot be written ({exc.strerror}); free some space, or "
            "check the folder's owner"
        ) from exc
