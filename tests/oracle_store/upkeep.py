"""
Deleting and cleaning up, which go through everything that the store in memory holds. Its caller
holds the lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tests.oracle_store.inbox import MemoryInbox
from tests.oracle_store.outbox import MemoryOutbox
from tests.oracle_store.people import MemoryPeople
from tests.oracle_store.questions import MemoryQuestions
from tests.oracle_store.sessions import MemorySessions
from tests.oracle_store.transcripts import MemoryTranscripts
from tests.oracle_store.turns import MemoryTurns
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.store_values import UNREADABLE_KEPT, Pruned
from turngate.gateway.rules.retention import (
    is_disused,
    is_empty,
    is_over,
    said_before,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUpkeep:
    """What it takes things out of."""

    sessions: MemorySessions
    transcripts: MemoryTranscripts
    turns: MemoryTurns
    inbox: MemoryInbox
    outbox: MemoryOutbox
    questions: MemoryQuestions
    people: MemoryPeople

    def erase(self, session: Session, now: datetime) -> None:
        """A tombstone is left. What was not answered ends as refused, with a reason."""
        for turn in self.turns.drop_of(session.id):
            if turn.state != "done":
                self.inbox.settle(turn.inbox, InboxState.REFUSED, "its session was deleted", now)
        self.outbox.drop_unsent_of(session.id)
        self.questions.drop_of(session.id)
        self.transcripts.drop(session.id)
        self.sessions.bury(session, now)

    def prune_sessions(
        self, now: datetime, empty_after: timedelta, archive_after: timedelta
    ) -> Pruned:
        """Delete the empty, archive the old, bury the tombstones."""
        pruned = Pruned()
        for session in self.sessions.all():
            pruned += self._prune(session, now, now - empty_after, now - archive_after)
        return pruned

    def forget_talk(self, now: datetime, keep: timedelta) -> Pruned:
        """Delete what was said too long ago, and sessions in which nothing is left."""
        pruned = Pruned()
        for session in self.sessions.all():
            pruned += self._forget(session, now, said_before(now, keep))
        return pruned

    def forget_unreadable(self, now: datetime) -> Pruned:
        """Events that could not be converted and that nobody looked at."""
        return Pruned(forgotten=self.inbox.forget_unreadable(now - UNREADABLE_KEPT))

    def forget_work(self, before: datetime) -> Pruned:
        """Old work that is settled or given up, and whatever ran out."""
        work = self.inbox.forget(before) + self.outbox.forget(before)
        return Pruned(forgotten=work + self.questions.forget(before) + self.people.forget(before))

    def _prune(
        self, session: Session, now: datetime, empty_before: datetime, old_before: datetime
    ) -> Pruned:
        if session.end_reason is EndReason.DELETED:
            if session.updated_at >= old_before:
                return Pruned()
            self.sessions.forget(session.id)
            return Pruned(forgotten=1)
        if self.turns.is_running_in(session.id):
            return Pruned()
        if is_empty(session, empty_before) and not self.outbox.has_unsent_of(session.id):
            self.erase(session, now)
            return Pruned(deleted=1)
        if is_disused(session, old_before):
            self.sessions.put(replace(session, archived=True, updated_at=now))
            return Pruned(archived=1)
        return Pruned()

    def _forget(self, session: Session, now: datetime, before: datetime) -> Pruned:
        is_busy = self.turns.is_running_in(session.id) or self.outbox.has_unsent_of(session.id)
        if session.important or session.end_reason is EndReason.DELETED or is_busy:
            return Pruned()
        removed = self.transcripts.forget(session, before)
        if is_over(session, before) and not self.transcripts.all(session.id):
            self.erase(session, now)
            return Pruned(entries=removed, deleted=1)
        return Pruned(entries=removed)
