"""From the inbox into a turn, and from a turn to the outbox, each in one transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.ids import InboxId, TurnId
from turngate.gateway.domain.messages import InboxState, MessageKind
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.session import Opened
from turngate.gateway.domain.store_values import (
    Begun,
    Claim,
    InboxItem,
    Outcome,
)
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.domain.usage import Spending
from turngate.gateway.rules.session_lifecycle import interacted
from turngate.gateway.stores.sqlite import (
    entry_table,
    inbox_table,
    outbox_table,
    question_table,
    turn_table,
    usage_table,
)
from turngate.gateway.stores.sqlite.entry_table import EntryTable
from turngate.gateway.stores.sqlite.session_table import SessionTable
from turngate.gateway.stores.sqlite.transcripts import Transcripts
from turngate.gateway.stores.unreadable import NOT_READ


class TurnTransactions:
    """Steps of a turn that change several tables. Writer thread only."""

    def __init__(
        self, sessions: SessionTable, entries: EntryTable, transcripts: Transcripts
    ) -> None:
        self._sessions = sessions
        self._entries = entries
        self._transcripts = transcripts

    def begin(self, db: sqlite3.Connection, claim: Claim, run: str, now: datetime) -> Begun:
        """Begin a turn for these messages, or again the one they had when the daemon died."""
        turn = inbox_table.turn_of(db, claim.inbox)
        if turn is not None:
            return self._begin_again(db, turn, claim, run, now)

        n, opened = self._sessions.open(db, claim.opening, now)
        if claim.replacing is not None:
            opened = replace(
                opened, session=self._transcripts.cut(db, n, opened.session, claim.replacing)
            )

        # Before the append: the history must not contain the messages of this turn.
        history = self._entries.history(db, n, opened.session, claim.history)
        stored = self._entries.append(db, n, claim.entries)
        session = interacted(opened.session, stored, now)
        self._sessions.update(db, n, session)

        # Without entries the range is empty until one joins; `extend` then lowers the first number.
        seqs = (stored[0].seq, stored[-1].seq) if stored else (entry_table.LAST, entry_table.LAST)
        was_interrupted = inbox_table.was_interrupted(db, claim.inbox)
        repeatable = claim.repeatable and not was_interrupted
        turn = turn_table.start(db, n, seqs, repeatable=repeatable, run=run, now=now)
        inbox_table.begin(db, claim.inbox, turn)
        opened = Opened(session=session, is_new=opened.is_new)
        return Begun(
            turn=turn,
            opened=opened,
            user_entries=stored,
            history=history,
            attempt=2 if was_interrupted else 1,
            repeatable=repeatable,
        )

    def join(
        self, db: sqlite3.Connection, turn: TurnId, inbox: InboxId, entry: Entry, now: datetime
    ) -> None:
        """Add a waiting message to a running turn."""
        n, found = self._sessions.by_number(db, turn_table.running_session(db, turn))
        inbox_table.without_turn(db, inbox)
        stored = self._entries.append(db, n, (entry,))
        self._sessions.update(db, n, interacted(found, stored, now))
        turn_table.extend(db, turn, stored[-1].seq, now)
        inbox_table.begin(db, (inbox,), turn)

    def finish(
        self, db: sqlite3.Connection, turn: TurnId, outcome: Outcome, now: datetime
    ) -> tuple[Part, ...]:
        """End a turn: transcript, usage, messages and outgoing parts."""
        n, found = self._sessions.by_number(db, turn_table.running_session(db, turn))
        # The reset notice counts as shown only with an answer; else the next turn shows it.
        is_told = outcome.failure is None
        self._transcripts.extend(db, n, found, outcome.entries, now, outcome.spent, told=is_told)
        if outcome.payer is not None:
            usage_table.charge(db, outcome.payer, Spending.of(outcome.spent))

        question_table.close_of_turn(db, turn)
        if outcome.failure is None:
            turn_table.end(db, turn, "done", "finished", "", now)
            inbox_table.settle_turn(db, turn, now)
        else:
            turn_table.end(db, turn, "failed", outcome.state, outcome.failure, now)
            inbox_table.fail_turn(db, turn, outcome.state, outcome.failure)

        return outbox_table.put_out(db, n, found.id, turn, outcome.parts, now)

    def requeue(self, db: sqlite3.Connection, inbox: InboxId, now: datetime) -> InboxItem:
        """Requeue a message; one that had a turn continues it, with the turn's other messages."""
        item = inbox_table.given_up(db, inbox)
        if item.message.kind is MessageKind.UNREADABLE:
            raise Refused(NOT_READ.format(inbox))
        inbox_table.requeue(db, item)
        if item.turn is not None:
            turn_table.requeue(db, item.turn, now)
        state = InboxState.WAITING if item.turn is None else InboxState.RUNNING
        return replace(item, state=state, attempts=0, reason=None)

    def _begin_again(
        self, db: sqlite3.Connection, turn: TurnId, claim: Claim, run: str, now: datetime
    ) -> Begun:
        row = turn_table.start_again(db, turn, run, now, alone=claim.alone)
        # The agent that asked died with its daemon: an answer would reach nothing.
        question_table.close_of_turn(db, turn)
        inbox_table.count_attempt(db, turn, row.attempt)
        n, session = self._sessions.by_number(db, row.session)

        return Begun(
            turn=turn,
            opened=Opened(session=session, is_new=False),
            user_entries=entry_table.asked_between(db, n, row.first_seq, row.last_seq),
            history=self._entries.history(db, n, session, claim.history, before=row.first_seq),
            attempt=row.attempt,
            repeatable=row.repeatable,
            preview=row.preview,
            alone_crashes=row.alone_crashes,
        )
