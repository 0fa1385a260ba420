"""
What was said in a session and what is known of it, changed together, inside the caller's
transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.ids import EntryId, SessionId
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.transcript import Block, Entry
from turngate.gateway.domain.usage import Spent
from turngate.gateway.rules.retention import spared_summary
from turngate.gateway.rules.session_lifecycle import answered, touched
from turngate.gateway.stores import jsonl
from turngate.gateway.stores.sqlite import entry_table
from turngate.gateway.stores.sqlite.entry_table import EntryTable
from turngate.gateway.stores.sqlite.session_table import SessionTable
from turngate.gateway.stores.texts import scrubbed


class Transcripts:
    """
    After each change of its entries, a session fits them again. Belongs to the writer thread, as
    its tables do.
    """

    def __init__(self, sessions: SessionTable, entries: EntryTable, live_entries: int) -> None:
        self._sessions = sessions
        self._entries = entries
        self._live_entries = live_entries

    def append(
        self, db: sqlite3.Connection, session: SessionId, entries: Iterable[Entry], now: datetime
    ) -> tuple[int, tuple[Entry, ...]]:
        """What nobody's turn said; returns the session's number too."""
        n, found = self._sessions.by_id(db, session)
        return n, self.extend(db, n, found, entries, now, Spent(), told=False)

    def extend(
        self,
        db: sqlite3.Connection,
        n: int,
        session: Session,
        entries: Iterable[Entry],
        now: datetime,
        spent: Spent,
        *,
        told: bool,
    ) -> tuple[Entry, ...]:
        """
        What the agent, a command or a delivery said, with the live entries kept within bounds.
        """
        stored = self._entries.append(db, n, entries)
        changed = answered(session, stored, now, spent, told=told)
        self._sessions.update(db, n, entry_table.within_bounds(db, n, changed, self._live_entries))

        return stored

    def cut(self, db: sqlite3.Connection, n: int, session: Session, first: EntryId) -> Session:
        """Take out that entry and all after it; the caller stores the session."""
        found = self._entries.find(db, n, session.id, first)
        self._entries.remove(db, n, found.seq, but=spared_summary(session, found.seq))
        return entry_table.after_rewrite(db, n, session)

    def edit(
        self,
        db: sqlite3.Connection,
        session: SessionId,
        entry: EntryId,
        content: tuple[Block, ...],
        now: datetime,
    ) -> Entry:
        """Let one of them say something else."""
        n, found = self._sessions.by_id(db, session)
        changed = self._entries.change(db, n, self._entries.find(db, n, session, entry), content)
        self._rewritten(db, n, found, now)

        return changed

    def remove(
        self, db: sqlite3.Connection, session: SessionId, entry: EntryId, now: datetime
    ) -> None:
        """One of them."""
        n, found = self._sessions.by_id(db, session)
        seq = self._entries.find(db, n, session, entry).seq
        self._entries.remove(db, n, seq, seq)
        self._rewritten(db, n, found, now)

    def truncate(self, db: sqlite3.Connection, session: SessionId, keep: int, now: datetime) -> int:
        """All but the first so many that are live; returns how many are left."""
        n, found = self._sessions.by_id(db, session)
        first = entry_table.seq_after(db, n, found, keep)
        left = found.messages
        if first is not None:
            spared = spared_summary(found, first)
            self._entries.remove(db, n, first, but=spared)
            left = keep + (spared >= first)
        self._rewritten(db, n, found, now)
        return left

    def summarise(
        self,
        db: sqlite3.Connection,
        session: SessionId,
        summary: Entry,
        of: Sequence[Entry],
        now: datetime,
        *,
        mark: int,
    ) -> bool:
        """The same, unless anything of it has changed meanwhile."""
        n, found = self._sessions.by_id(db, session)
        if not of or found.consolidated_through != mark:
            return False
        if entry_table.between(db, n, of[0].seq, of[-1].seq) != tuple(of):
            return False

        (stored,) = self._entries.append(db, n, [summary])
        self._rewritten(
            db, n, replace(found, consolidated_through=of[-1].seq, summary_seq=stored.seq), now
        )
        return True

    def restore(self, db: sqlite3.Connection, export: jsonl.Export, now: datetime) -> SessionId:
        """A session with all that was said in it. It takes no key away from another."""
        id_ = self._sessions.free_id(db, export.session)
        restored = jsonl.restored_session(export, id_, now)
        if restored.current and self._sessions.current_of(db, restored.key) is not None:
            restored = replace(restored, current=False, ended_at=now, end_reason=EndReason.SWITCH)
        n, _ = self._sessions.insert(db, replace(restored, current=False))
        stored = self._entries.append(db, n, export.entries)
        restored = jsonl.with_new_places(restored, export, stored)
        self._sessions.update(db, n, scrubbed(entry_table.after_rewrite(db, n, restored)))
        return id_

    def _rewritten(self, db: sqlite3.Connection, n: int, session: Session, now: datetime) -> None:
        self._sessions.update(db, n, entry_table.after_rewrite(db, n, touched(session, now)))
