"""Sessions as rows: find, make, change and end them, inside the caller's transaction."""

from __future__ import annotations

import secrets
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cache
from operator import itemgetter

from turngate.gateway.domain.errors import Refused, RowDamaged, UnknownSession
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.session import (
    EndReason,
    Opened,
    ResetNotice,
    Session,
)
from turngate.gateway.domain.store_values import Opening
from turngate.gateway.rules.session_lifecycle import (
    end_session,
    next_session,
    open_session,
    reset_due,
    resumed,
)
from turngate.gateway.stores.sqlite import ending_table
from turngate.gateway.stores.sqlite.damaged_rows import (
    SET_ASIDE,
    is_set_aside,
    last_session_of,
    usable,
)
from turngate.gateway.stores.sqlite.rows import (
    SESSION_COLUMNS,
    Fetched,
    Value,
    checksum,
    session_from_row,
    session_to_row,
)
from turngate.gateway.stores.texts import scrub, scrubbed

_SELECT = f"SELECT n, {SESSION_COLUMNS}, checksum FROM sessions"
_COLUMNS = [*SESSION_COLUMNS.split(", "), "checksum"]
_INSERT = f"INSERT INTO sessions ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_REWRITE = f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _COLUMNS)} WHERE n = ?"
# `move_chat` is the one exception: it changes keys, and so uses _REWRITE.
_NEVER_CHANGED = frozenset({"id", "key", "owner"})
_INDEXED = frozenset({"current", "end_reason", "last_interaction_at", "origin"})
_REMEMBERED = 256


class SessionTable:
    """
    All changes of sessions. Those used last stay decoded, so that a turn need not read them.

    Writer thread only. The cache is changed inside the transaction, so a rollback must clear it.
    """

    def __init__(self) -> None:
        self._recent: OrderedDict[int, Session] = OrderedDict()
        self._current: dict[SessionKey, int] = {}

    def forget_all(self) -> None:
        """Clear the cache, after a rollback or a change of keys."""
        self._recent.clear()
        self._current.clear()

    def current_of(self, db: sqlite3.Connection, key: SessionKey) -> tuple[int, Session] | None:
        """Return the session a key points at, or None."""
        n = self._current.get(key)
        if n is not None:
            return n, self._recent[n]
        row = db.execute(f"{_SELECT} WHERE key = ? AND current", (scrub(key),)).fetchone()
        return None if row is None else self._read(db, row)

    def by_id(self, db: sqlite3.Connection, session: SessionId) -> tuple[int, Session]:
        """Return a session and its row number. Raises UnknownSession, for a deleted one too."""
        row = db.execute(f"{_SELECT} WHERE id = ?", (scrub(session),)).fetchone()
        return self._existing(db, row, session)

    def by_number(self, db: sqlite3.Connection, n: int) -> tuple[int, Session]:
        """Return a session by row number. Raises UnknownSession."""
        if n in self._recent:
            return n, self._recent[n]
        row = db.execute(f"{_SELECT} WHERE n = ?", (n,)).fetchone()
        return self._existing(db, row, f"number {n}")

    def write_again(self, db: sqlite3.Connection, session: str) -> bool:
        """Write a session again that was damaged on disk and is remembered; False if it is not."""
        for n, found in self._recent.items():
            if found.id == session:
                values = session_to_row(found)
                db.execute(_REWRITE, [*values, checksum(values), n])
                return True
        return False

    def insert(self, db: sqlite3.Connection, session: Session) -> tuple[int, Session]:
        """Insert a row; return its number and the session as written."""
        session = scrubbed(session)
        values = session_to_row(session)
        n = db.execute(_INSERT, [*values, checksum(values)]).lastrowid or 0
        self._remember(n, session)
        return n, session

    def update(self, db: sqlite3.Connection, n: int, session: Session) -> None:
        """Write a changed session."""
        # All values are needed even for one change: the checksum covers the whole row.
        values = session_to_row(session)
        before = self._recent.get(n)
        statement, choose = _update(_INDEXED if before is None else _changed(before, session))
        db.execute(statement, choose([*values, checksum(values), n]))
        self._remember(n, session)

    def amend(
        self, db: sqlite3.Connection, session: SessionId, change: Callable[[Session], Session]
    ) -> None:
        """Apply a change to a session by id."""
        n, found = self.by_id(db, session)
        self.update(db, n, scrubbed(change(found)))

    def open(self, db: sqlite3.Connection, opening: Opening, now: datetime) -> tuple[int, Opened]:
        """Find the session of a key, reset it if due, or make it."""
        n, current = self.current_of(db, opening.key) or (0, None)
        is_busy = _busy_check(db, n, opening)
        decision = open_session(current, opening, now=now, fresh_id=_fresh_id, is_busy=is_busy)
        if decision.ended is not None and current is not None:
            # One that the sweep ended before has its notice already, or its agent was notified.
            if current.end_reason is None:
                ending_table.note(db, n, decision.ended)
            self.update(db, n, decision.ended)

        if decision.is_new:
            fresh = decision.session if current else _after_damage(db, decision.session)
            n, current = self.insert(db, fresh)

        return n, Opened(session=current or decision.session, is_new=decision.is_new)

    def move_chat(
        self,
        db: sqlite3.Connection,
        old: SessionSource,
        chat_id: str,
        key_of: Callable[[SessionSource], SessionKey],
    ) -> int:
        """Give the sessions of a chat its new id and keys; return how many were moved."""
        rows = db.execute(
            f"{_SELECT} WHERE json_valid(origin) AND json_extract(origin, '$.chat_id') = ?"
            " AND json_extract(origin, '$.platform') = ?",
            (scrub(old.chat_id or ""), scrub(old.platform)),
        ).fetchall()
        moved = 0
        for n, session in usable(db, lambda row: self._read(db, row), rows):
            if session.origin.account != old.account or session.end_reason is EndReason.DELETED:
                continue

            origin = replace(session.origin, chat_id=chat_id)
            # The unique index allows one current session per key, and the new chat may have one.
            taken = session.current and self.current_of(db, key_of(origin)) is not None
            values = session_to_row(
                replace(
                    session,
                    origin=origin,
                    key=key_of(origin),
                    current=session.current and not taken,
                )
            )
            db.execute(_REWRITE, [*values, checksum(values), n])
            # The cache still has this session under its old key.
            self.forget_all()
            moved += 1

        return moved

    def end_if_due(
        self, db: sqlite3.Connection, session: SessionId, opening: Opening, now: datetime
    ) -> EndReason | None:
        """End a current session if its reset is due. Its key keeps it until the next message."""
        n, found = self.by_id(db, session)
        if not found.current or found.end_reason is not None:
            return None

        reason = reset_due(found, opening.policy, now, _busy_check(db, n, opening))
        if reason is not None:
            ending_table.note(db, n, found)
            self.update(db, n, end_session(found, reason, now))

        return reason

    def reset(
        self, db: sqlite3.Connection, key: SessionKey, title: str | None, now: datetime
    ) -> Session:
        """End the current session and start a new one, on the user's request."""
        found = self.current_of(db, key)
        if found is None:
            raise UnknownSession("there is no conversation here yet, so there is nothing to reset")

        n, current = found
        # Before the insert: the unique index allows one current session per key.
        self._retire(db, n, current, EndReason.RESET, now)
        fresh = replace(
            next_session(current, now=now, fresh_id=_fresh_id(), title=title), notice=None
        )
        return self.insert(db, fresh)[1]

    def switch(
        self, db: sqlite3.Connection, key: SessionKey, target: SessionId, now: datetime
    ) -> Session:
        """Make an earlier session of a key current again."""
        n, wanted = self.by_id(db, target)
        if wanted.key != key:
            raise Refused(f"session {target} belongs to another conversation")
        if wanted.current and wanted.end_reason is None:
            return wanted

        found = self.current_of(db, key)
        if found is not None and found[0] != n:
            self._retire(db, *found, EndReason.SWITCH, now)

        back = resumed(wanted, now)
        # It is open again, so its agent must not be notified of an end.
        ending_table.forget(db, n)
        self.update(db, n, back)
        return back

    def free_id(self, db: sqlite3.Connection, session: Session | None) -> SessionId:
        """Return the imported session's own id if it is free here, else a new one."""
        wanted = scrub(session.id) if session is not None else ""
        # Tombstones of deleted sessions count as taken.
        taken = db.execute("SELECT 1 FROM sessions WHERE id = ?", (wanted,)).fetchone()
        return SessionId(wanted) if wanted and taken is None else _fresh_id()

    def _existing(
        self, db: sqlite3.Connection, row: Fetched | None, name: str
    ) -> tuple[int, Session]:
        if row is not None:
            n, session = self._read(db, row)
            if session.end_reason is not EndReason.DELETED:
                return n, session
        raise UnknownSession(f"there is no session {name}; it may have been deleted")

    def _read(self, db: sqlite3.Connection, row: Fetched) -> tuple[int, Session]:
        n = row[0]
        try:
            session = session_from_row(row[1:])
        except RowDamaged as exc:
            # Late writes to it end like those to a deleted session.
            if is_set_aside(db, exc):
                raise UnknownSession(SET_ASIDE.format(exc.key)) from exc
            raise
        self._remember(n, session)
        return n, session

    def _remember(self, n: int, session: Session) -> None:
        self._forget(n)
        if session.end_reason is EndReason.DELETED:
            return
        self._recent[n] = session
        if session.current:
            self._current[session.key] = n
        if len(self._recent) > _REMEMBERED:
            self._forget(next(iter(self._recent)))

    def _forget(self, n: int) -> None:
        session = self._recent.pop(n, None)
        if session is not None and self._current.get(session.key) == n:
            del self._current[session.key]

    def _retire(
        self, db: sqlite3.Connection, n: int, session: Session, reason: EndReason, now: datetime
    ) -> None:
        """Make a session no longer current; an earlier end reason stays."""
        if session.end_reason is None:
            ending_table.note(db, n, session)
            session = end_session(session, reason, now)
        self.update(db, n, replace(session, current=False))


def _changed(before: Session, after: Session) -> frozenset[str]:
    return frozenset(name for name in _INDEXED if getattr(before, name) != getattr(after, name))


@cache
def _update(changed: frozenset[str]) -> tuple[str, itemgetter[tuple[Value, ...]]]:
    """Return the UPDATE statement for these indexed columns, and the selector of its values."""
    # SQLite rewrites every index that has a column named in SET, even if the value is the same.
    # Naming all of them wrote 28 % more bytes per turn.
    unchanged = _NEVER_CHANGED | (_INDEXED - changed)
    chosen = [i for i, column in enumerate(_COLUMNS) if column not in unchanged]
    changes = ", ".join(f"{_COLUMNS[i]} = ?" for i in chosen)
    return f"UPDATE sessions SET {changes} WHERE n = ?", itemgetter(*chosen, len(_COLUMNS))


def _after_damage(db: sqlite3.Connection, session: Session) -> Session:
    """Return the first session of a key, with a notice if the one before was set aside."""
    before = last_session_of(db, scrub(session.key))
    if before is None:
        return session
    notice = ResetNotice(
        reason=EndReason.DAMAGED, had_activity=True, previous=SessionId(before), commands_only=True
    )
    return replace(session, notice=notice)


def has_open_work(db: sqlite3.Connection, n: int) -> bool:
    """Return whether a session has a running turn or an unsent part."""
    unsent = "SELECT 1 FROM outbox WHERE session = ? AND settled_at IS NULL AND state != 'dead'"
    return has_running_turn(db, n) or db.execute(unsent, (n,)).fetchone() is not None


def has_running_turn(db: sqlite3.Connection, n: int) -> bool:
    """Return whether a session has a running turn."""
    return (
        db.execute("SELECT 1 FROM turns WHERE session = ? AND state = 'running'", (n,)).fetchone()
        is not None
    )


def _busy_check(db: sqlite3.Connection, n: int, opening: Opening) -> Callable[[SessionId], bool]:
    """Return a check that asks the database for running turns, the caller for background work."""
    asked = opening.is_busy
    return lambda id_: has_running_turn(db, n) or (asked is not None and asked(id_))


def _fresh_id() -> SessionId:
    return SessionId(f"s_{secrets.token_hex(8)}")
