"""Translate errors of SQLite and the system into ours."""

from __future__ import annotations

import sqlite3

from turngate.gateway.domain.errors import (
    Refused,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)

FOREIGN_ERRORS = (sqlite3.Error, OSError, UnicodeError, OverflowError)
# Our statements are fixed and tested: if one does not fit the schema or finds invalid JSON, the
# file was changed.
_SIGNS_OF_DAMAGE = (
    "no such column",
    "no such table",
    "no column named",
    "malformed",
    "invalid fts5 file format",
)


def is_locked(exc: BaseException) -> bool:
    """Return whether another connection holds a lock."""
    return name_of(exc).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def name_of(exc: BaseException) -> str:
    """Return SQLite's name of the error, such as SQLITE_BUSY_SNAPSHOT; "" for other errors."""
    return getattr(exc, "sqlite_errorname", None) or ""


def as_our_error(exc: BaseException) -> StoreError | Refused:
    """Return our error for one of FOREIGN_ERRORS."""
    name = name_of(exc)
    if isinstance(exc, OverflowError):
        return Refused("a number is larger than anything can be counted by")
    if isinstance(exc, UnicodeEncodeError):
        return Refused("a name or id holds half a character, which nothing is called by")

    if isinstance(exc, UnicodeError) or "Could not decode to UTF-8" in str(exc):
        # Without SQLite's message, which quotes the text: it may be a user's.
        return StoreDamaged("the database holds a text that is none")

    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or any(
        sign in str(exc) for sign in _SIGNS_OF_DAMAGE
    ):
        return StoreDamaged(f"SQLite finds the database damaged ({exc})")

    if name.startswith("SQLITE_FULL"):
        return StoreUnavailable("the disk is full; free some space, then writing goes on by itself")

    if is_locked(exc):
        return StoreUnavailable(
            "another process holds the database locked; end it, then writing goes on by itself"
        )

    if name.startswith("SQLITE_IOERR"):
        return StoreUnavailable(
            f"the disk fails ({name}); look into the kernel's log and save what is on it"
        )

    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StoreUnavailable(
            f"the database cannot be written ({exc}); check the folder's owner and permissions"
        )

    return StoreUnavailable(
        f"the database cannot be read or written ({exc}, {name or type(exc).__name__})"
    )
