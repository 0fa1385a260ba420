"""Entries of a session and its row, changed together inside the caller's transaction."""

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
    """Changes entries and updates the count, preview and marks of their session. Writer thread."""

    def __init__(self, sessions: SessionTable, entries: EntryTable, live_entries: int) -> None:
        self._sessions = sessions
        self._entries = entries
        self._live_entries = live_entries

    def append(
        self, db: sqlite3.Connection, session: SessionId, entries: Iterable[Entry], now: datetime
    ) -> tuple[int, tuple[Entry, ...]]:
        """Append entries outside a turn; return the session's row number and the entries."""
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
        Append what the agent, a command or a delivery said, and archive live entries above the cap.
        """
        stored = self._entries.append(db, n, entries)
        changed = answered(session, stored, now, spent, told=told)
        self._sessions.update(db, n, entry_table.within_bounds(db, n, changed, self._live_entries))

        return stored

    def cut(self, db: sqlite3.Connection, n: int, session: Session, first: EntryId) -> Session:
        """Delete an entry and all after it; the caller stores the returned session."""
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
        """Replace the content of an entry."""
        n, found = self._sessions.by_id(db, session)
        changed = self._entries.change(db, n, self._entries.find(db, n, session, entry), content)
        self._rewritten(db, n, found, now)

        return changed

    def remove(
        self, db: sqlite3.Connection, session: SessionId, entry: EntryId, now: datetime
    ) -> None:
        """Delete an entry."""
        n, found = self._sessions.by_id(db, session)
        seq = self._entries.find(db, n, session, entry).seq
        self._entries.remove(db, n, seq, seq)
        self._rewritten(db, n, found, now)

    def truncate(self, db: sqlite3.Connection, session: SessionId, keep: int, now: datetime) -> int:
        """Keep the first `keep` live entries; return how many are left."""
        n, found = self._sessions.by_id(db, session)
        first = entry_table.seq_after(db, n, found, keep)
        left = found.messages
        if first is not None:
            spared = spared_summary(found, first)
            self._entries.remove(db, n, first, but=spared)
            # A summary of older entries survives the cut, although it was appended later.
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
        """Store a summary of these entries. False if they or the mark have changed."""
        n, found = self._sessions.by_id(db, session)
        # The summary was written outside this transaction, which takes an agent seconds: an edit or
        # deletion since then must not live on in it.
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
        """Store an imported session with its entries. Current only if its key has no session."""
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
