"""
A message's way through the store in memory: from the inbox into a turn, and from a turn to the
outbox.

Its caller holds the lock and tells the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from tests.oracle_store.inbox import MemoryInbox
from tests.oracle_store.outbox import MemoryOutbox
from tests.oracle_store.questions import MemoryQuestions
from tests.oracle_store.sessions import MemorySessions
from tests.oracle_store.transcripts import MemoryTranscripts
from tests.oracle_store.turns import MemoryTurns
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.ids import (
    EntryId,
    InboxId,
    SessionId,
    TurnId,
)
from turngate.gateway.domain.messages import InboxState, MessageKind
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.session import Opened
from turngate.gateway.domain.store_values import (
    Begun,
    Claim,
    InboxItem,
    Opening,
    Outcome,
    Step,
    Trace,
)
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.stores.unreadable import NOT_READ


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWork:
    """What it passes through."""

    sessions: MemorySessions
    transcripts: MemoryTranscripts
    turns: MemoryTurns
    inbox: MemoryInbox
    outbox: MemoryOutbox
    questions: MemoryQuestions

    def open(self, opening: Opening, now: datetime, *, replacing: EntryId | None = None) -> Opened:
        """
        With an entry and all after it taken out; if there is no such entry, nothing has happened.
        """
        decision = self.sessions.decide(opening, now, self.busy_check(opening))
        if replacing is None:
            return self.sessions.open(decision, now)
        self.transcripts.find(decision.session.id, replacing)
        opened = self.sessions.open(decision, now)
        return replace(opened, session=self.transcripts.cut(opened.session, replacing))

    def busy_check(self, opening: Opening) -> Callable[[SessionId], bool]:
        """Whether a session is worked on, as far as this store or its caller knows."""
        return lambda id_: (
            self.turns.is_running_in(id_) or (opening.is_busy is not None and opening.is_busy(id_))
        )

    def begin(self, claim: Claim, run: int, now: datetime) -> Begun:
        """A turn for these messages, or the one that they had when the daemon died."""
        turn = self.inbox.turn_of(claim.inbox)
        if turn is not None:
            return self._begin_again(turn, claim, run, now)
        opened = self.open(claim.opening, now, replacing=claim.replacing)
        history = self.transcripts.history(opened.session, claim.history)
        session, said = self.transcripts.hear(opened.session, claim.entries, now)
        turn = self.turns.start(session.id, said, claim, run, now)
        self.inbox.begin(claim.inbox, turn)
        opened = Opened(session=session, is_new=opened.is_new)
        return Begun(
            turn=turn,
            opened=opened,
            user_entries=said,
            history=history,
            attempt=1,
            repeatable=claim.repeatable,
        )

    def join(self, turn: TurnId, inbox: InboxId, entry: Entry, now: datetime) -> None:
        """One message more for a turn that runs."""
        session = self.sessions.existing(self.turns.running(turn).session)
        self.inbox.without_turn(inbox)
        _, said = self.transcripts.hear(session, (entry,), now)
        self.turns.extend(turn, inbox, said, now)
        self.inbox.begin((inbox,), turn)

    def finish(self, turn: TurnId, outcome: Outcome, now: datetime) -> tuple[Part, ...]:
        """What it said, what goes out, and the end of its messages."""
        found, is_told = self.turns.running(turn), outcome.failure is None
        self.transcripts.append(found.session, outcome.entries, now, outcome.spent, told=is_told)
        self.turns.end(turn, outcome, now)
        self._close_questions(turn)
        if outcome.failure is None:
            self.inbox.settle(found.inbox, InboxState.DONE, None, now)
        else:
            self.inbox.fail(found.inbox, outcome.state, outcome.failure)
        return self.put_out(found.session, turn, outcome.parts, now)

    def put_out(
        self, session: SessionId | None, turn: TurnId | None, parts: Iterable[Part], now: datetime
    ) -> tuple[Part, ...]:
        """To be sent; what is asked is remembered apart."""
        stored = tuple(self.outbox.put(session, turn, part, now) for part in parts)
        for part in stored:
            if part.question is not None:
                self.questions.put(part)
        return stored

    def requeue(self, inbox: InboxId, now: datetime) -> InboxItem:
        """
        Back to work; a message that had a turn goes on with it, and so do the others of that turn.
        """
        item = self.inbox.given_up(inbox)
        if item.message.kind is MessageKind.UNREADABLE:
            raise Refused(NOT_READ.format(inbox))
        if item.turn is None:
            self.inbox.requeue((inbox,), InboxState.WAITING)
        else:
            self.inbox.requeue(self.turns.requeue(item.turn, now).inbox, InboxState.RUNNING)
        return self.inbox.existing(inbox)

    def trace(self, inbox: InboxId) -> Trace:
        """All that became of a message."""
        item, settled_at = self.inbox.existing(inbox), self.inbox.settled_at(inbox)
        turn, outgoing = self.turns.find(item.turn), self.outbox.about(item, settled_at)
        steps = [Step(at=item.received_at, step="stored"), *(turn.steps if turn else ())]
        if settled_at is not None:
            steps.append(Step(at=settled_at, step=item.state.value, detail=item.reason or ""))
        steps += [step for out in outgoing for step in out.steps]
        parts = tuple(out.part for out in outgoing)
        return Trace(
            item=item, session=turn.session if turn else None, steps=tuple(steps), parts=parts
        )

    def _begin_again(self, turn: TurnId, claim: Claim, run: int, now: datetime) -> Begun:
        found = self.turns.start_again(turn, run, now, alone=claim.alone)
        self._close_questions(turn)
        self.inbox.count_attempt(found.inbox, found.attempt)
        session = self.sessions.existing(found.session)
        return Begun(
            turn=turn,
            opened=Opened(session=session, is_new=False),
            user_entries=self.transcripts.those(session.id, found.said),
            history=self.transcripts.history(session, claim.history, before=found.first_seq),
            attempt=found.attempt,
            repeatable=found.repeatable,
            preview=found.preview,
            alone_crashes=found.alone_crashes,
        )

    def _close_questions(self, turn: TurnId) -> None:
        """Those that have not left yet are not asked."""
        self.outbox.take_back(self.questions.close_of_turn(turn))
