"""Sessions as rows: find, make, change and end them, inside the caller's transaction."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from gateway.errors import Refused, UnknownSession
from gateway.model import EndReason, Opened, Session, SessionId, SessionKey
from gateway.ports import Opening
from gateway.sessions import end_session, next_session, open_session, reset_due, resumed
from gateway.stores.sqlite.rows import SESSION_COLUMNS, Fetched, checksum, session_from_row, session_to_row
from gateway.stores.texts import scrub

_SELECT = f"SELECT n, {SESSION_COLUMNS}, checksum FROM sessions"
_COUNT = SESSION_COLUMNS.count(",") + 2
_INSERT = f"INSERT INTO sessions ({SESSION_COLUMNS}, checksum) VALUES ({', '.join('?' * _COUNT)})"
_UPDATE = f"UPDATE sessions SET ({SESSION_COLUMNS}, checksum) = ({', '.join('?' * _COUNT)}) WHERE n = ?"


def current_of(db: sqlite3.Connection, key: SessionKey) -> tuple[int, Session] | None:
    """The session a key points at."""
    row = db.execute(f"{_SELECT} WHERE key = ? AND current", (key,)).fetchone()
    return row and (row[0], session_from_row(row[1:]))


def by_id(db: sqlite3.Connection, session: SessionId) -> tuple[int, Session]:
    """UnknownSession for one that never was, and for one that was deleted."""
    row = db.execute(f"{_SELECT} WHERE id = ?", (session,)).fetchone()
    return _existing(row, session)


def by_number(db: sqlite3.Connection, n: int) -> tuple[int, Session]:
    """The same by row number."""
    row = db.execute(f"{_SELECT} WHERE n = ?", (n,)).fetchone()
    return _existing(row, SessionId(f"number {n}"))


def _existing(row: Fetched | None, name: SessionId) -> tuple[int, Session]:
    if row is not None:
        session = session_from_row(row[1:])
        if session.end_reason is not EndReason.DELETED:
            return row[0], session
    raise UnknownSession(f"there is no session {name}; it may have been deleted")


def insert(db: sqlite3.Connection, session: Session) -> int:
    """A new row; returns its number."""
    values = session_to_row(session)
    n = db.execute(_INSERT, [*values, checksum(values)]).lastrowid
    return n or 0


def update(db: sqlite3.Connection, n: int, session: Session) -> None:
    """The whole row anew, because the checksum is over the whole row."""
    values = session_to_row(session)
    db.execute(_UPDATE, [*values, checksum(values), n])


def amend(db: sqlite3.Connection, session: SessionId, change: Callable[[Session], Session]) -> Session:
    """Change what is known of a session."""
    n, found = by_id(db, session)
    changed = change(found)
    update(db, n, changed)
    return changed


def open_(db: sqlite3.Connection, opening: Opening, now: datetime) -> tuple[int, Opened]:
    """Find, reset or make the session of a key."""
    found = current_of(db, opening.key)
    n, current = found or (0, None)
    is_busy = _busy_check(db, n, opening)
    decision = open_session(current, opening, now=now, fresh_id=_fresh_id(), is_busy=is_busy)
    if decision.is_new:
        if decision.ended is not None:
            update(db, n, decision.ended)
        n = insert(db, decision.session)
    return n, Opened(session=decision.session, is_new=decision.is_new)


def end_if_due(db: sqlite3.Connection, session: SessionId, opening: Opening, now: datetime) -> EndReason | None:
    """End a current session whose time has come; its key goes on pointing at it until somebody writes."""
    n, found = by_id(db, session)
    if not found.current or found.end_reason is not None:
        return None
    reason = reset_due(found, opening.policy, now, _busy_check(db, n, opening))
    if reason is not None:
        update(db, n, end_session(found, reason, now))
    return reason


def reset(db: sqlite3.Connection, key: SessionKey, title: str | None, now: datetime) -> Session:
    """End the current session and start a fresh one. The user asked for it, so there is nothing to be told."""
    found = current_of(db, key)
    if found is None:
        raise UnknownSession("there is no conversation here yet, so there is nothing to reset")
    n, current = found
    _retire(db, n, current, EndReason.RESET, now)
    fresh = replace(next_session(current, now=now, fresh_id=_fresh_id(), title=title), notice=None)
    insert(db, fresh)
    return fresh


def switch(db: sqlite3.Connection, key: SessionKey, target: SessionId, now: datetime) -> Session:
    """Point a key at an earlier session of its own."""
    n, wanted = by_id(db, target)
    if wanted.key != key:
        raise Refused(f"session {target} belongs to another conversation")
    if wanted.current and wanted.end_reason is None:
        return wanted
    found = current_of(db, key)
    if found is not None and found[0] != n:
        _retire(db, *found, EndReason.SWITCH, now)
    back = resumed(wanted, now)
    update(db, n, back)
    return back


def has_running_turn(db: sqlite3.Connection, n: int) -> bool:
    """Whether an agent is at work in it."""
    return db.execute("SELECT 1 FROM turns WHERE session = ? AND state = 'running'", (n,)).fetchone() is not None


def _retire(db: sqlite3.Connection, n: int, session: Session, reason: EndReason, now: datetime) -> None:
    """No longer current; a reason that was there before stays."""
    ended = session if session.end_reason else end_session(session, reason, now)
    update(db, n, replace(ended, current=False))


def _busy_check(db: sqlite3.Connection, n: int, opening: Opening) -> Callable[[SessionId], bool]:
    """The caller knows of background work, the database of running turns."""
    asked = opening.is_busy
    return lambda id_: has_running_turn(db, n) or (asked is not None and asked(id_))


def free_id(db: sqlite3.Connection, session: Session | None) -> SessionId:
    """An imported session's own id if that was never taken here, by a deleted one either; else a fresh one."""
    wanted = scrub(session.id) if session is not None else ""
    taken = db.execute("SELECT 1 FROM sessions WHERE id = ?", (wanted,)).fetchone()
    return SessionId(wanted) if wanted and taken is None else _fresh_id()


def _fresh_id() -> SessionId:
    return SessionId(f"s_{secrets.token_hex(8)}")
