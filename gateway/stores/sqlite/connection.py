"""Open the database file: nothing is written until it is known to be ours, no empty one replaces a lost one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.errors import StoreDamaged, StoreUnavailable
from gateway.stores.sqlite.backup import keep_copy
from gateway.stores.sqlite.migrations import migrate, our_scripts, refuse_foreign, schema_of
from gateway.stores.sqlite.restoring import finish_restore
from gateway.stores.sqlite.search_index import SearchIndex

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


def open_database(path: Path, index: SearchIndex, lock_patience: float) -> sqlite3.Connection:
    """The writing connection, its schema brought up to date."""
    finish_restore(path)
    _refuse_lost(path)
    if not path.exists():
        _create(path)
    db = _connect(path, lock_patience)
    try:
        refuse_foreign(db)
        _keep_before_migrating(path, db)
        _prepare(db)
        index.prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _refuse_lost(path: Path) -> None:
    """What was there once and is gone was lost: a new, empty database would hide that."""
    log = path.with_name(path.name + "-wal")
    if not path.exists() and log.exists() and log.stat().st_size > 0:
        raise StoreDamaged(f"{path} is missing, but its log {log.name} is there")
    if path.is_file() and path.stat().st_size < _announced_size(path, log):
        raise StoreDamaged(f"{path} is cut short")


def _announced_size(path: Path, log: Path) -> int:
    """What the header says, where no log is there to complete it; at least one page, for ours is never empty."""
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        return 0 if header else 1
    page = int.from_bytes(header[16:18], "big")
    is_whole = not (log.exists() and log.stat().st_size) and header[24:28] == header[92:96]
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big") if is_whole else 0


def _create(path: Path) -> None:
    """Made under another name and renamed when it is whole, so that a file of ours is never half-made or empty."""
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
        _prepare(db)
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _keep_before_migrating(path: Path, db: sqlite3.Connection) -> None:
    """A copy to go back to. It has no date in its name, so that a start that dies again and again makes one."""
    pending = [number for number, _ in our_scripts() if number > schema_of(db)]
    if not pending:
        return
    kept = path.with_name("backups") / f"turngate-before-{pending[0]:03}.db"
    try:
        kept.parent.mkdir(exist_ok=True, mode=0o700)
        keep_copy(path, kept)
    except (OSError, StoreUnavailable) as exc:
        raise StoreUnavailable(
            f"before the database is brought to schema {pending[-1]} a copy of it is kept, and that cannot be written:"
            f" {exc}. Nothing was changed"
        ) from exc


def _connect(path: Path, lock_patience: float) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path, isolation_level=None, timeout=lock_patience)
    except sqlite3.Error as exc:
        raise StoreUnavailable(f"{path} cannot be opened ({exc}); check the folder's owner and permissions") from exc


def _prepare(db: sqlite3.Connection) -> None:
    for pragma in PRAGMAS:
        db.execute(pragma)
    migrate(db, our_scripts())
