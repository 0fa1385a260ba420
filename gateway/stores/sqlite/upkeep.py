"""Clean-up in small steps, each its own transaction, so that no turn waits behind a long one."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from gateway.model import EndReason, Session
from gateway.sessions import is_disused, is_empty, tombstone
from gateway.stores.sqlite import inbox_table, outbox_table
from gateway.stores.sqlite.entry_table import EntryTable
from gateway.stores.sqlite.rows import SESSION_COLUMNS, micros, session_from_row
from gateway.stores.sqlite.session_table import SessionTable, has_open_work, has_running_turn
from gateway.storing import Pruned

Position = TypeVar("Position", int, str)

_STEP = 1000
_GIVEN_UP = {
    "inbox": "'done', 'refused', 'failed', 'dead'",
    "turns": "'done', 'failed'",
    "outbox": "'sent', 'dead'",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[Position]):
    """What one step did, and where the next one goes on; None when there is none."""

    pruned: Pruned
    after: Position | None


def erase(
    db: sqlite3.Connection, n: int, session: Session, sessions: SessionTable, entries: EntryTable, now: datetime
) -> None:
    """A tombstone is left, so that nothing late brings the session back."""
    entries.remove(db, n, 0)
    inbox_table.refuse_all_of(db, n, now)
    db.execute("DELETE FROM turns WHERE session = ?", (n,))
    outbox_table.drop_all_of(db, n)
    db.execute("DELETE FROM questions WHERE session = ?", (n,))
    sessions.update(db, n, tombstone(session, now))


def prune_sessions(
    db: sqlite3.Connection,
    after: int,
    *,
    sessions: SessionTable,
    entries: EntryTable,
    now: datetime,
    empty_before: datetime,
    old_before: datetime,
) -> Step[int]:
    """Delete the empty, archive the old, bury the tombstones, among the next thousand."""
    rows = db.execute(
        f"SELECT n, {SESSION_COLUMNS}, checksum FROM sessions WHERE n > ? ORDER BY n LIMIT ?", (after, _STEP)
    ).fetchall()
    deleted = archived = forgotten = 0
    for n, *values in rows:
        session = session_from_row(tuple(values))
        if session.end_reason is EndReason.DELETED:
            if session.updated_at < old_before:
                db.execute("DELETE FROM sessions WHERE n = ?", (n,))
                forgotten += 1
        elif is_empty(session, empty_before) and not has_open_work(db, n):
            erase(db, n, session, sessions, entries, now)
            deleted += 1
        elif is_disused(session, old_before) and not has_running_turn(db, n):
            sessions.update(db, n, replace(session, archived=True, updated_at=now))
            archived += 1
    last = rows[-1][0] if len(rows) == _STEP else None
    return Step(pruned=Pruned(deleted=deleted, archived=archived, forgotten=forgotten), after=last)


def forget_work(db: sqlite3.Connection, after: int, *, table: str, born: str, before: datetime) -> Step[int]:
    """Forget old work that is settled or given up, among the next thousand rows of a table of work."""
    rows = db.execute(f"SELECT n, {born} FROM {table} WHERE n > ? ORDER BY n LIMIT ?", (after, _STEP)).fetchall()
    if not rows:
        return Step(pruned=Pruned(), after=None)
    forgotten = db.execute(
        f"DELETE FROM {table} WHERE n > ? AND n <= ? AND {born} < ? AND state IN ({_GIVEN_UP[table]})",
        (after, rows[-1][0], micros(before)),
    ).rowcount
    is_last = len(rows) < _STEP or rows[-1][1] >= micros(before)
    return Step(pruned=Pruned(forgotten=forgotten), after=None if is_last else rows[-1][0])


def forget_seen(db: sqlite3.Connection, after: str, *, before: datetime) -> Step[str]:
    """Forget event ids that no platform repeats any more and whose message is forgotten, among the next thousand."""
    rows = db.execute(
        "SELECT event, at, EXISTS (SELECT 1 FROM inbox AS kept WHERE kept.n = seen.inbox)"
        " FROM seen WHERE event > ? ORDER BY event LIMIT ?",
        (after, _STEP),
    ).fetchall()
    old = [(event,) for event, at, is_kept in rows if at < micros(before) and not is_kept]
    db.executemany("DELETE FROM seen WHERE event = ?", old)
    return Step(pruned=Pruned(forgotten=len(old)), after=rows[-1][0] if len(rows) == _STEP else None)
