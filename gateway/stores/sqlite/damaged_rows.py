"""
Rows that are not what was written: set aside one by one, so that all others go on.

A row that is set aside is left as it is and used by nobody, except that open work becomes a dead
letter. The table `damaged` lists them until `repair` has rebuilt them. What SQLite itself finds
corrupt is not handled here: it stops all writes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TypeVar

from turngate.gateway.domain.errors import RowDamaged
from turngate.gateway.domain.messages import InboundMessage, MessageKind, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.stores.sqlite.rows import (
    ENTRY_COLUMNS,
    INBOX_COLUMNS,
    PART_COLUMNS,
    SESSION_COLUMNS,
    Fetched,
    checksum,
    entry_from_row,
    inbox_from_row,
    message_json,
    micros,
    part_from_row,
    part_to_row,
    session_from_row,
)
from turngate.gateway.stores.texts import scrub

T = TypeVar("T")

DAMAGED = "its row was damaged on disk"
SET_ASIDE = "session {} was damaged on disk and is set aside; `turngate repair` may rebuild it"

_NOWHERE = SessionSource(platform="unknown")


def set_aside(db: sqlite3.Connection, found: RowDamaged, now: datetime) -> bool:
    """Set a row aside; False if it was before, or is what was written after all."""
    if not _is_damaged(db, found):
        return False

    added = db.execute(
        "INSERT OR IGNORE INTO damaged VALUES (?, ?, ?, ?)",
        (found.place, found.key, micros(now), scrub(str(found))),
    ).rowcount
    handle = _HANDLERS.get(found.place)
    if added and handle is not None:
        handle(db, found.key, now)
    return bool(added)


def is_set_aside(db: sqlite3.Connection, found: RowDamaged) -> bool:
    """Return whether a row was set aside before."""
    return (
        db.execute(
            "SELECT 1 FROM damaged WHERE place = ? AND row = ?", (found.place, found.key)
        ).fetchone()
        is not None
    )


def usable(
    db: sqlite3.Connection, decode: Callable[[Fetched], T], rows: Iterable[Fetched]
) -> Iterator[T]:
    """Yield the decoded rows without those that are set aside. Raises RowDamaged for others."""
    for row in rows:
        try:
            yield decode(row)
        except RowDamaged as exc:
            if not is_set_aside(db, exc):
                raise


def _is_damaged(db: sqlite3.Connection, found: RowDamaged) -> bool:
    # Whoever found it may have read it before a later write replaced it.
    reading = _READING.get(found.place)
    if reading is None:
        return True

    query, decode = reading
    try:
        for row in db.execute(query, (found.key,)):
            decode(row)
    except RowDamaged:
        return True
    return False


def forget(db: sqlite3.Connection, place: str, key: str) -> None:
    """Take a row off the list: it was rebuilt."""
    db.execute("DELETE FROM damaged WHERE place = ? AND row = ?", (place, key))


def last_session_of(db: sqlite3.Connection, key: str) -> str | None:
    """Return the id of the session of a key that was set aside last."""
    row = db.execute(
        "SELECT sessions.id FROM damaged JOIN sessions ON sessions.id = damaged.row"
        " WHERE damaged.place = 'sessions' AND sessions.key = ? ORDER BY found_at DESC LIMIT 1",
        (key,),
    ).fetchone()
    return None if row is None else str(row[0])


def _retire_session(db: sqlite3.Connection, key: str, now: datetime) -> None:
    # Its open turns go on in the session that takes its place.
    turns = db.execute(
        "SELECT n FROM turns WHERE state = 'running'"
        " AND session = (SELECT n FROM sessions WHERE id = ?)",
        (key,),
    ).fetchall()
    for (turn,) in turns:
        _detach_turn(db, turn, now)

    # Its key is free for a new session.
    retire = "UPDATE sessions SET current = 0 WHERE id = ?"
    is_json = db.execute("SELECT json_valid(origin) FROM sessions WHERE id = ?", (key,)).fetchone()
    if is_json is None or is_json[0]:
        db.execute(retire, (key,))
        return

    # An index reads the origin as JSON, so SQLite changes no row in it whose origin is none.
    (index,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'sessions_open'").fetchone()
    db.execute("DROP INDEX sessions_open")
    db.execute(retire, (key,))
    db.execute(index)


def _give_up_message(db: sqlite3.Connection, key: str, now: datetime) -> None:
    row = db.execute("SELECT key, message, settled_at FROM inbox WHERE n = ?", (key,)).fetchone()
    if row is None:
        return

    session_key, written, settled_at = row
    # What is left of it is shown as it is, and never read as a message.
    left = InboundMessage(
        id="",
        event_ids=(),
        source=_NOWHERE,
        sent_at=now,
        kind=MessageKind.UNREADABLE,
        raw=None if settled_at is not None else written,
    )
    values = [scrub(session_key), message_json(left)]
    state = "dead" if settled_at is None else "refused"
    db.execute(
        "UPDATE inbox SET key = ?, message = ?, checksum = ?, state = ?, reason = ?, turn = NULL,"
        " aside = 'damaged' WHERE n = ?",
        (*values, checksum(values), state, DAMAGED, key),
    )


def _give_up_part(db: sqlite3.Connection, key: str, now: datetime) -> None:
    row = db.execute("SELECT text, settled_at FROM outbox WHERE n = ?", (key,)).fetchone()
    if row is None:
        return

    written, settled_at = row
    # Never sent: where it should go may be what was damaged.
    values = part_to_row(Part(target=_NOWHERE, text=written))
    state = "dead" if settled_at is None else "sent"
    db.execute(
        "UPDATE outbox SET ordinal = ?, target = ?, text = ?, reply_to = ?, edits = ?, more = ?,"
        " checksum = ?, state = ?, reason = ?, aside = 'damaged' WHERE n = ?",
        (*values, checksum(values), state, DAMAGED, key),
    )


def _detach_turn(db: sqlite3.Connection, key: str, now: datetime) -> None:
    row = db.execute("SELECT repeatable FROM turns WHERE n = ?", (key,)).fetchone()
    db.execute("UPDATE turns SET state = 'failed' WHERE n = ?", (key,))
    # Its messages are whole: they get a turn of their own, which runs unless that could do harm.
    is_repeatable = row is not None and bool(row[0])
    db.execute(
        "UPDATE inbox SET turn = NULL, state = 'waiting', attempts = ? WHERE turn = ?"
        " AND settled_at IS NULL",
        (0 if is_repeatable else 1, key),
    )


def _close_question(db: sqlite3.Connection, key: str, now: datetime) -> None:
    db.execute("UPDATE questions SET state = 'closed' WHERE part = ?", (key,))


_READING: dict[str, tuple[str, Callable[[Fetched], object]]] = {
    "sessions": (
        f"SELECT {SESSION_COLUMNS}, checksum FROM sessions WHERE id = ?",
        session_from_row,
    ),
    "entries": (
        f"SELECT seq, {ENTRY_COLUMNS}, checksum FROM entries WHERE seq = ?",
        entry_from_row,
    ),
    "inbox": (f"SELECT n, {INBOX_COLUMNS}, checksum FROM inbox WHERE n = ?", inbox_from_row),
    "outbox": (f"SELECT n, {PART_COLUMNS}, checksum FROM outbox WHERE n = ?", part_from_row),
}
_HANDLERS: dict[str, Callable[[sqlite3.Connection, str, datetime], None]] = {
    "sessions": _retire_session,
    "inbox": _give_up_message,
    "outbox": _give_up_part,
    "turns": _detach_turn,
    "questions": _close_question,
}
