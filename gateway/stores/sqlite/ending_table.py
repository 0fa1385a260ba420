"""
Endings that agents have yet to hear of, as rows, written in the transaction that ends the session.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime

from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import LONGEST_PUT_OFF, EndedSession
from turngate.gateway.stores.sqlite.rows import (
    SESSION_COLUMNS,
    Fetched,
    micros,
    session_from_row,
)

_COLUMNS = ", ".join(f"sessions.{name}" for name in f"{SESSION_COLUMNS}, checksum".split(", "))
# What is put off for longer than anything ever is was put off by a clock that ran ahead.
PENDING = (
    f"SELECT endings.attempts, {_COLUMNS} FROM endings JOIN sessions ON sessions.n = "
    "endings.session"
    " WHERE NOT endings.not_before BETWEEN ? + 1 AND ? ORDER BY endings.session LIMIT ?"
)


def note(db: sqlite3.Connection, n: int, session: Session) -> None:
    """It is over. Where nothing was said there is nothing to hear of."""
    if session.has_talk:
        db.execute("INSERT OR REPLACE INTO endings VALUES (?, 0, 0)", (n,))


def forget(db: sqlite3.Connection, n: int) -> None:
    """It was told, or there is nothing to tell any more."""
    db.execute("DELETE FROM endings WHERE session = ?", (n,))


def count_attempt(db: sqlite3.Connection, n: int, retry_at: datetime) -> bool:
    """False if there is nothing to tell any more."""
    changed = db.execute(
        "UPDATE endings SET attempts = attempts + 1, not_before = ? WHERE session = ?",
        (micros(retry_at), n),
    )
    return changed.rowcount > 0


def bounds(now: datetime, limit: int) -> tuple[int, int, int]:
    """The values of PENDING."""
    return micros(now), micros(now + LONGEST_PUT_OFF), limit


def ending_from_row(row: Fetched) -> EndedSession:
    """One of PENDING."""
    return EndedSession(session=session_from_row(row[1:]), attempts=row[0])
