"""
Open the database file. Nothing is written until it is known to be ours, and a lost database is
never replaced by an empty one.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from turngate.gateway.domain.errors import StoreDamaged, StoreUnavailable
from turngate.gateway.stores.sqlite.backup import keep_copy
from turngate.gateway.stores.sqlite.copy import text_of
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

# synchronous FULL: with NORMAL a power cut undoes acknowledged commits.
PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # In pages: a checkpoint every 16 MB. It writes each page once, however often it changed.
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
    # Overwrites deleted content with zeros, so that deleted text is not left in the file.
    "PRAGMA secure_delete = ON",
)


# Milliseconds of SQLite's own wait for a lock. The writer repeats it up to its timeout and can
# stop in between.
_ONE_WAIT = 100


@dataclass(slots=True)
class Database:
    """
    An open database: the connection that writes, and the checks of its files.

    `guard` is read-only. While it is open, closing the other connection does not checkpoint.
    """

    connection: sqlite3.Connection
    guard: sqlite3.Connection
    presence: FileIdentity

    def close(self, *, is_damaged: bool) -> None:
        """Close all files. A damaged database is left as it is, without a checkpoint."""
        # The last connection that closes checkpoints the log; the read-only guard cannot.
        first, second = (
            (self.connection, self.guard) if is_damaged else (self.guard, self.connection)
        )
        first.close()
        second.close()
        # Last: closing its descriptor of the -shm file drops SQLite's locks on that file.
        self.presence.close()


def open_database(path: Path, index: SearchIndex, lock_timeout: float) -> Database:
    """Open the database and bring its schema up to date. Runs on the writer thread."""
    # The order matters: a decided restore comes first, and a missing file is created only after it
    # is known that none was lost.
    finish_restore(path)
    _refuse_lost(path)
    if not path.exists():
        _create(path)

    with ExitStack() as opened:
        guard = opened.enter_context(closing(_connect(path, lock_timeout, only_read=True)))

        # Through the read-only connection: a foreign or newer file must not be changed at all.
        refuse_foreign(guard)
        db = opened.enter_context(closing(_connect(path, lock_timeout)))
        _set_up(db)
        db.text_factory = text_of
        presence = _watched(path)
        opened.callback(presence.close)
        # Before the first write, which would extend the truncated log.
        presence.refuse_lost_commits()
        _keep_before_migrating(path, db)
        migrate(db, our_scripts())
        index.prepare(db)
        db.execute(f"PRAGMA busy_timeout = {_ONE_WAIT}")
        opened.pop_all()

    return Database(db, guard, presence)


def _refuse_lost(path: Path) -> None:
    """Raise StoreDamaged if a database existed here and is missing or truncated."""
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
    Return the size in bytes that the header states; 0 if it states none, 1 for an empty file, which
    ours never is.
    """
    with path.open("rb") as file:
        header = file.read(100)

    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        return 0 if header else 1

    page = int.from_bytes(header[16:18], "big")
    # The size in the header is valid only if the change counter equals "version-valid-for", and a
    # log may contain pages that the file does not have yet.
    is_whole = not (log.exists() and log.stat().st_size) and header[24:28] == header[92:96]
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big") if is_whole else 0


def _create(path: Path) -> None:
    """Create the database under a temporary name and rename it when it is complete."""
    # So an empty or partial file under the real name is always a loss, never a first start.
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
    """Keep a copy of the database before its schema changes."""
    pending = [number for number, _ in our_scripts() if number > schema_of(db)]
    if not pending:
        return

    # No date in the name: a start that fails again and again makes one copy, not one each time.
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
