"""
What was said in each session, for the store in memory. Its caller holds the lock and tells the
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from tests.oracle_store.sessions import MemorySessions
from turngate.gateway.domain.errors import Refused, UnknownEntry
from turngate.gateway.domain.ids import EntryId, SessionId
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.store_values import Hit, Transcript
from turngate.gateway.domain.transcript import (
    Block,
    Entry,
    Origin,
)
from turngate.gateway.domain.usage import Spent
from turngate.gateway.rules.history_window import live_start
from turngate.gateway.rules.retention import spared_summary
from turngate.gateway.rules.session_lifecycle import (
    answered,
    interacted,
    preview_of,
    touched,
)
from turngate.gateway.stores import jsonl
from turngate.gateway.stores.texts import (
    contains_words,
    query_words,
    scrubbed,
)


class MemoryTranscripts:
    """Entries by session. Each change makes what is known of the session fit them again."""

    def __init__(self, numbers: Iterator[int], sessions: MemorySessions, live_entries: int) -> None:
        self._numbers = numbers
        self._sessions = sessions
        self._live_entries = live_entries
        self._entries: dict[SessionId, list[Entry]] = {}

    def hear(
        self, session: Session, entries: Iterable[Entry], now: datetime
    ) -> tuple[Session, tuple[Entry, ...]]:
        """What a turn is about. The bounds are looked after when it ends."""
        stored = self._append(session.id, entries)
        changed = interacted(session, stored, now)
        self._sessions.put(changed)
        return changed, stored

    def append(
        self,
        session: SessionId,
        entries: Iterable[Entry],
        now: datetime,
        spent: Spent = Spent(),
        *,
        told: bool = False,
    ) -> tuple[Entry, ...]:
        """What the agent, a command or a delivery said, or nobody's turn."""
        found = self._sessions.existing(session)
        stored = self._append(found.id, entries)
        self._sessions.put(self._within_bounds(answered(found, stored, now, spent, told=told)))
        return stored

    def all(self, session: SessionId) -> list[Entry]:
        """What was archived too."""
        return list(self._of(session))

    def newest(self, session: SessionId, last: int | None, *, with_archived: bool) -> Transcript:
        """As people read it."""
        found = self._sessions.existing(session)
        entries = self._of(found.id) if with_archived else self._live(found)
        return Transcript(
            entries=tuple(
                entries if last is None else entries[max(len(entries) - max(last, 0), 0) :]
            )
        )

    def history(self, session: Session, count: int, before: int | None = None) -> tuple[Entry, ...]:
        """
        What a turn is shown of the past: the summary, if there is one, then the newest entries
        after the mark.
        """
        floor = max(session.archived_through, session.consolidated_through)
        entries = [entry for entry in self._of(session.id) if before is None or entry.seq < before]
        newest = [
            entry for entry in entries[max(len(entries) - max(count, 0), 0) :] if entry.seq > floor
        ]
        summary = [entry for entry in self._of(session.id) if entry.seq == session.summary_seq]
        return (
            *summary,
            *(entry for entry in newest if not summary or entry.origin is not Origin.SUMMARY),
        )

    def those(self, session: SessionId, ids: Sequence[EntryId]) -> tuple[Entry, ...]:
        """Of these, what is still there."""
        return tuple(entry for entry in self._of(session) if entry.id in ids)

    def find(self, session: SessionId, id_: EntryId) -> Entry:
        """By id."""
        for entry in self._of(session):
            if entry.id == id_:
                return entry
        raise UnknownEntry(f"session {session} has no message {id_}")

    def search(self, query: str, limit: int) -> list[Hit]:
        """Newest first."""
        words = query_words(query)
        hits = [
            Hit(session=session, entry=entry)
            for session, entries in self._entries.items()
            for entry in entries
            if words and contains_words(entry.text, words)
        ]
        return sorted(hits, key=lambda hit: hit.entry.seq, reverse=True)[: max(limit, 0)]

    def cut(self, session: Session, first: EntryId) -> Session:
        """The session with that entry, and all after it, taken out."""
        entries = self._of(session.id)
        self._entries[session.id] = _first_of(
            session, entries, entries.index(self.find(session.id, first))
        )
        return self._recount(session)

    def edit(
        self, session: SessionId, entry: EntryId, content: tuple[Block, ...], now: datetime
    ) -> Entry:
        """Let it say something else; id, place and time stay."""
        found = self._sessions.existing(session)
        old = self.find(found.id, entry)
        new = scrubbed(replace(old, content=content))
        self._rewrite(found, [new if each is old else each for each in self._of(found.id)], now)
        return new

    def remove(self, session: SessionId, entry: EntryId, now: datetime) -> None:
        """One of them."""
        found = self._sessions.existing(session)
        old = self.find(found.id, entry)
        self._rewrite(found, [each for each in self._of(found.id) if each is not old], now)

    def truncate(self, session: SessionId, keep: int, now: datetime) -> int:
        """All but the first so many that are live; returns how many are left."""
        if keep < 0:
            raise Refused(f"cannot keep {keep} messages; give 0 or more")
        found = self._sessions.existing(session)
        archived = len(self._archived(found))
        return self._rewrite(
            found, _first_of(found, self._of(found.id), archived + keep), now
        ).messages

    def summarise(
        self, session: SessionId, summary: Entry, of: Sequence[Entry], mark: int, now: datetime
    ) -> bool:
        """The same, unless anything of it has changed meanwhile."""
        found = self._sessions.existing(session)
        if not of or found.consolidated_through != mark:
            return False
        there = [entry for entry in self._of(found.id) if of[0].seq <= entry.seq <= of[-1].seq]
        if there != list(of):
            return False
        (stored,) = self._numbered((summary,))
        marked = replace(found, consolidated_through=of[-1].seq, summary_seq=stored.seq)
        self._rewrite(marked, [*self._of(found.id), stored], now)
        return True

    def restore(self, export: jsonl.Export, now: datetime) -> SessionId:
        """A session with all that was said in it. It takes no key away from another."""
        id_ = self._sessions.free_id(export.session)
        restored = scrubbed(jsonl.restored_session(export, id_, now))
        if restored.current and self._sessions.current(restored.key) is not None:
            restored = replace(restored, current=False, ended_at=now, end_reason=EndReason.SWITCH)
        self._sessions.add(replace(restored, current=False))
        stored = self._append(id_, export.entries)
        self._recount(jsonl.with_new_places(restored, export, stored))
        return id_

    def forget(self, session: Session, before: datetime) -> int:
        """
        What was said before then, and the summary if it stands for any of it. No change in the
        sense of clocks.
        """
        entries = self._of(session.id)
        old = {entry.seq for entry in entries if entry.at < before}
        if any(seq <= session.consolidated_through for seq in old):
            old |= {entry.seq for entry in entries if entry.seq == session.summary_seq}
        if old:
            self._entries[session.id] = [entry for entry in entries if entry.seq not in old]
            self._recount(session)
        return len(old)

    def drop(self, session: SessionId) -> None:
        """Its session is gone."""
        self._entries.pop(session, None)

    def _of(self, session: SessionId) -> list[Entry]:
        return self._entries.get(session, [])

    def _archived(self, session: Session) -> list[Entry]:
        return [entry for entry in self._of(session.id) if entry.seq <= session.archived_through]

    def _live(self, session: Session) -> list[Entry]:
        return [entry for entry in self._of(session.id) if entry.seq > session.archived_through]

    def _append(self, session: SessionId, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        stored = self._numbered(entries)
        self._entries.setdefault(session, []).extend(stored)
        return stored

    def _numbered(self, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        """As anybody will read them. An entry that brings an id keeps it."""
        stored = []
        for entry in entries:
            seq = next(self._numbers)
            stored.append(scrubbed(replace(entry, seq=seq, id=entry.id or EntryId(f"e{seq}"))))
        return tuple(stored)

    def _within_bounds(self, session: Session) -> Session:
        """
        Past the bound, archive the oldest: a tenth more than needed, so that it is not done with
        every turn.
        """
        if session.messages <= self._live_entries:
            return session
        live = self._live(session)
        start = live_start(live, self._live_entries - self._live_entries // 10)
        floor = live[start - 1].seq if start else session.archived_through
        return replace(session, archived_through=floor, messages=len(live) - start)

    def _rewrite(self, session: Session, entries: list[Entry], now: datetime) -> Session:
        self._entries[session.id] = entries
        changed = touched(self._recount(session), now)
        self._sessions.put(changed)
        return changed

    def _recount(self, session: Session) -> Session:
        """
        Count, preview and marks as the entries now say; a mark or summary that lost its entries is
        taken back.
        """
        entries, live = self._of(session.id), self._live(session)
        last = live[-1].seq if live else 0
        has_summary = any(entry.seq == session.summary_seq for entry in entries)
        keeps_mark = session.consolidated_through <= last and (
            has_summary or not session.summary_seq
        )
        preview, preview_by = preview_of(entries)
        changed = replace(
            session,
            messages=len(live),
            preview=preview,
            preview_by=preview_by,
            summary_seq=session.summary_seq if has_summary and keeps_mark else 0,
            consolidated_through=session.consolidated_through if keeps_mark else 0,
        )
        self._sessions.put(changed)
        return changed


def _first_of(session: Session, entries: list[Entry], keep: int) -> list[Entry]:
    """The first so many, and the summary if all that it stands for is among them."""
    spared = spared_summary(session, entries[keep].seq) if keep < len(entries) else 0
    return entries[:keep] + [entry for entry in entries[keep:] if entry.seq == spared]
