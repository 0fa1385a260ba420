"""Clean-up in small steps, each its own transaction, so that no turn waits behind a long one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Generic, Protocol, TypeVar

from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.store_values import UNREADABLE_KEPT, Pruned
from turngate.gateway.rules.retention import (
    is_disused,
    is_empty,
    is_over,
    tombstone,
)
from turngate.gateway.stores.sqlite import (
    ending_table,
    inbox_table,
    outbox_table,
    people_table,
    question_table,
)
from turngate.gateway.stores.sqlite.damaged_rows import usable
from turngate.gateway.stores.sqlite.entry_table import (
    EntryTable,
    after_rewrite,
    has_entries,
)
from turngate.gateway.stores.sqlite.rows import (
    SESSION_COLUMNS,
    Fetched,
    micros,
    session_from_row,
)
from turngate.gateway.stores.sqlite.search_index import SearchIndex
from turngate.gateway.stores.sqlite.session_table import (
    SessionTable,
    has_open_work,
    has_running_turn,
)
from turngate.gateway.stores.sqlite.writer import Operation

T = TypeVar("T")
Position = TypeVar("Position", int, str)


class Run(Protocol):
    """Run an operation in a transaction of its own."""

    async def __call__(self, operation: Operation[T], /) -> T:
        """Return its result once that is on disk."""


_STEP = 1000
_LAST = 1 << 62
_SELECT = f"SELECT n, {SESSION_COLUMNS}, checksum FROM sessions WHERE n > ? AND n <= ?"
# rules/retention.py decides; this query only limits the rows that are read, so it must never be
# stricter than the rules.
_PRUNABLE = f"""
    {_SELECT} AND CASE WHEN end_reason IS 'deleted' THEN updated_at < ? ELSE
        NOT important AND (
            last_interaction_at < ?
                AND messages + archived_through + input + output + cache_read + cache_write = 0
            OR last_interaction_at < ? AND NOT archived
        )
    END ORDER BY n
"""
# The first entry of a session is its oldest, so one lookup per session tells whether it has any
# that is too old.
_TOO_OLD = f"""
    {_SELECT} AND NOT important AND end_reason IS NOT 'deleted' AND started_at < ?
    AND coalesce((SELECT at FROM entries WHERE session = n ORDER BY seq LIMIT 1), 0) < ? ORDER BY n
"""
_GIVEN_UP = {
    "inbox": "'done', 'refused', 'failed', 'dead'",
    "turns": "'done', 'failed'",
    "outbox": "'sent', 'dead'",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepStep(Generic[Position]):
    """What one step did, and the position of the next one; None after the last."""

    pruned: Pruned
    after: Position | None


def erase(
    db: sqlite3.Connection,
    n: int,
    session: Session,
    sessions: SessionTable,
    entries: EntryTable,
    now: datetime,
) -> None:
    """Delete a session and its work; a tombstone prevents a late write from recreating it."""
    entries.remove(db, n, 0)
    # Before the turns are deleted: the inbox rows of a session are found through them.
    inbox_table.refuse_all_of(db, n, now)
    db.execute("DELETE FROM turns WHERE session = ?", (n,))
    outbox_table.drop_all_of(db, n)
    db.execute("DELETE FROM questions WHERE session = ?", (n,))
    ending_table.forget(db, n)
    sessions.update(db, n, tombstone(session, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """The time limits of one clean-up, and its steps on the writer thread."""

    sessions: SessionTable
    entries: EntryTable
    now: datetime
    empty_before: datetime
    old_before: datetime
    said_before: datetime | None = None

    def prune_sessions(self, db: sqlite3.Connection, after: int) -> UpkeepStep[int]:
        """Delete empty sessions, archive old ones, remove tombstones, among the next thousand."""
        last = _further(db, after)
        moments = micros(self.old_before), micros(self.empty_before), micros(self.old_before)
        pruned = Pruned()
        rows = db.execute(_PRUNABLE, (after, last or _LAST, *moments)).fetchall()
        for n, session in usable(db, _numbered, rows):
            pruned += self._prune(db, n, session)
        return UpkeepStep(pruned=pruned, after=last)

    def forget_talk(self, db: sqlite3.Connection, after: int) -> UpkeepStep[int]:
        """Delete entries past their retention, and emptied sessions, among the next thousand."""
        if self.said_before is None:
            return UpkeepStep(pruned=Pruned(), after=None)

        last = _further(db, after)
        before = micros(self.said_before)
        pruned = Pruned()
        rows = db.execute(_TOO_OLD, (after, last or _LAST, before, before)).fetchall()
        for n, session in usable(db, _numbered, rows):
            done = self._forget(db, n, session, self.said_before)
            pruned += done
            # A long session fills a step alone: then it comes again (n - 1), as it may have more.
            if pruned.entries >= _STEP:
                return UpkeepStep(pruned=pruned, after=n if done.entries < _STEP else n - 1)

        return UpkeepStep(pruned=pruned, after=last)

    def _prune(self, db: sqlite3.Connection, n: int, session: Session) -> Pruned:
        if session.end_reason is EndReason.DELETED:
            db.execute("DELETE FROM sessions WHERE n = ?", (n,))
            return Pruned(forgotten=1)
        if is_empty(session, self.empty_before) and not has_open_work(db, n):
            erase(db, n, session, self.sessions, self.entries, self.now)
            return Pruned(deleted=1)
        if is_disused(session, self.old_before) and not has_running_turn(db, n):
            self.sessions.update(db, n, replace(session, archived=True, updated_at=self.now))
            return Pruned(archived=1)
        return Pruned()

    def _forget(self, db: sqlite3.Connection, n: int, session: Session, before: datetime) -> Pruned:
        """Delete a session's old entries, and the session if nothing is left."""
        if has_open_work(db, n):
            return Pruned()

        removed = self.entries.remove_old(db, n, session, before, _STEP)
        if is_over(session, before) and not has_entries(db, n):
            erase(db, n, session, self.sessions, self.entries, self.now)
            return Pruned(entries=removed, deleted=1)

        if removed:
            # `updated_at` stays: a clean-up that counted as a change would keep sessions young.
            self.sessions.update(db, n, after_rewrite(db, n, session))

        return Pruned(entries=removed)


def _numbered(row: Fetched) -> tuple[int, Session]:
    n, *values = row
    return n, session_from_row(tuple(values))


async def clean_up(run: Run, broom: Upkeep, index: SearchIndex, forget_before: datetime) -> Pruned:
    """Run all steps, each in its own transaction, so that turns can commit in between."""
    total = await _in_steps(run, broom.prune_sessions, 0) + await _in_steps(
        run, broom.forget_talk, 0
    )
    for table, born in (
        ("inbox", "received_at"),
        ("turns", "started_at"),
        ("outbox", "created_at"),
    ):
        total += await _in_steps(
            run, partial(forget_work, table=table, born=born, before=forget_before), 0
        )

    unreadable_before = broom.now - UNREADABLE_KEPT
    unreadable = await run(lambda db: inbox_table.forget_unreadable(db, unreadable_before))
    codes = await run(lambda db: people_table.forget(db, forget_before))
    questions = await run(lambda db: question_table.forget(db, forget_before))
    total += Pruned(forgotten=unreadable + codes + questions)
    # After the inbox: a dedupe id is kept as long as its message is.
    total += await _in_steps(run, partial(forget_seen, before=forget_before), "")
    return total + await _in_steps(run, partial(remove_traces, index=index), 0)


async def _in_steps(
    run: Run,
    step: Callable[[sqlite3.Connection, Position], UpkeepStep[Position]],
    start: Position,
) -> Pruned:
    total = Pruned()
    position: Position | None = start
    while position is not None:
        done = await run(partial(_swapped, step, position))
        total += done.pruned
        position = done.after

    return total


def _swapped(
    step: Callable[[sqlite3.Connection, Position], UpkeepStep[Position]],
    position: Position,
    db: sqlite3.Connection,
) -> UpkeepStep[Position]:
    return step(db, position)


def _further(db: sqlite3.Connection, after: int) -> int | None:
    """Return the number of the thousandth session from here; None if there are fewer."""
    row = db.execute(
        "SELECT n FROM sessions WHERE n > ? ORDER BY n LIMIT 1 OFFSET ?", (after, _STEP - 1)
    ).fetchone()
    return None if row is None else int(row[0])


def forget_work(
    db: sqlite3.Connection, after: int, *, table: str, born: str, before: datetime
) -> UpkeepStep[int]:
    """Delete old work that is settled or given up, among the next thousand rows of a table."""
    rows = db.execute(
        f"SELECT n, {born} FROM {table} WHERE n > ? ORDER BY n LIMIT ?", (after, _STEP)
    ).fetchall()
    if not rows:
        return UpkeepStep(pruned=Pruned(), after=None)

    forgotten = db.execute(
        f"DELETE FROM {table} WHERE n > ? AND n <= ? AND {born} < ? AND state IN "
        f"({_GIVEN_UP[table]})",
        (after, rows[-1][0], micros(before)),
    ).rowcount
    # Numbers and times rise together, so the first young row ends the work. After a clock jump this
    # only delays a deletion.
    is_last = len(rows) < _STEP or rows[-1][1] >= micros(before)
    return UpkeepStep(pruned=Pruned(forgotten=forgotten), after=None if is_last else rows[-1][0])


def forget_seen(db: sqlite3.Connection, after: str, *, before: datetime) -> UpkeepStep[str]:
    """
    Delete dedupe ids that no platform redelivers any more and whose message is deleted, among the
    next thousand.
    """
    rows = db.execute(
        "SELECT event, at, EXISTS (SELECT 1 FROM inbox AS kept WHERE kept.n = seen.inbox)"
        " FROM seen WHERE event > ? ORDER BY event LIMIT ?",
        (after, _STEP),
    ).fetchall()
    old = [(event,) for event, at, is_kept in rows if at < micros(before) and not is_kept]
    db.executemany("DELETE FROM seen WHERE event = ?", old)

    return UpkeepStep(
        pruned=Pruned(forgotten=len(old)), after=rows[-1][0] if len(rows) == _STEP else None
    )


def remove_traces(db: sqlite3.Connection, after: int, *, index: SearchIndex) -> UpkeepStep[int]:
    """Remove deleted words from the files of the search index, one step."""
    return UpkeepStep(pruned=Pruned(), after=index.remove_traces(db, after))
