"""Open the database file: nothing is written until it is known to be ours, no empty one replaces a lost one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from gateway.errors import StoreDamaged, StoreUnavailable
from gateway.stores.sqlite.migrations import migrate, refuse_foreign
from gateway.stores.sqlite.search_index import SearchIndex

LOCK_PATIENCE_SECONDS = 5.0

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
)


def open_database(path: Path, index: SearchIndex) -> sqlite3.Connection:
    """The writing connection, its schema brought up to date."""
    _refuse_lost(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise StoreUnavailable(
            f"the folder {path.parent} cannot be made ({exc.strerror}); choose another state_dir"
        ) from exc
    is_new = not path.exists()
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=LOCK_PATIENCE_SECONDS)
    except sqlite3.Error as exc:
        raise StoreUnavailable(f"{path} cannot be opened ({exc}); check the folder's owner and permissions") from exc
    try:
        if is_new:
            path.chmod(0o600)
        refuse_foreign(db)
        for pragma in PRAGMAS:
            db.execute(pragma)
        migrate(db)
        index.prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _refuse_lost(path: Path) -> None:
    """A write-ahead log without its database means that the database was lost: a new, empty one would hide that."""
    log = path.with_name(path.name + "-wal")
    is_missing = not path.exists() or path.stat().st_size == 0
    if is_missing and log.exists() and log.stat().st_size > 0:
        raise StoreDamaged(f"{path} is missing, but its log {log.name} is there")
