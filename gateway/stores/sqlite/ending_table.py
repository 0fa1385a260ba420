"""
Ended sessions whose agent is to be notified, as rows of the transaction that ends the session.
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
# A retry time later than LONGEST_PUT_OFF from now was set by a clock that ran ahead: it is due.
PENDING = (
    f"SELECT endings.attempts, {_COLUMNS} FROM endings JOIN sessions ON sessions.n = "
    "endings.session"
    " WHERE NOT endings.not_before BETWEEN ? + 1 AND ? ORDER BY endings.session LIMIT ?"
)


def note(db: sqlite3.Connection, n: int, session: Session) -> None:
    """Record that a session ended, unless it has no content."""
    if session.has_talk:
        db.execute("INSERT OR REPLACE INTO endings VALUES (?, 0, 0)", (n,))


def forget(db: sqlite3.Connection, n: int) -> None:
    """Delete the record: the agent was notified, or need not be."""
    db.execute("DELETE FROM endings WHERE session = ?", (n,))


def count_attempt(db: sqlite3.Connection, n: int, retry_at: datetime) -> bool:
    """Count an attempt; False if there is nothing to notify."""
    # Before the attempt, so that an agent that crashes the daemon does not do so for ever.
    changed = db.execute(
        "UPDATE endings SET attempts = attempts + 1, not_before = ? WHERE session = ?",
        (micros(retry_at), n),
    )
    return changed.rowcount > 0


def bounds(now: datetime, limit: int) -> tuple[int, int, int]:
    """Return the parameters of PENDING."""
    return micros(now), micros(now + LONGEST_PUT_OFF), limit


def ending_from_row(row: Fetched) -> EndedSession:
    """Return the ended session of a row of PENDING."""
    return EndedSession(session=session_from_row(row[1:]), attempts=row[0])
