"""
A message's way through the store: from the inbox into a turn, and from a turn to the outbox, in one
transaction.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.ids import InboxId, TurnId
from turngate.gateway.domain.messages import InboxState
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


class TurnTransactions:
    """Belongs to the writer thread, as what it passes through does."""

    def __init__(
        self, sessions: SessionTable, entries: EntryTable, transcripts: Transcripts
    ) -> None:
        self._sessions = sessions
        self._entries = entries
        self._transcripts = transcripts

    def begin(self, db: sqlite3.Connection, claim: Claim, run: str, now: datetime) -> Begun:
        """A turn for these messages, or the one that they had when the daemon died."""
        turn = inbox_table.turn_of(db, claim.inbox)
        if turn is not None:
            return self._begin_again(db, turn, claim.history, run, now)

        n, opened = self._sessions.open(db, claim.opening, now)
        if claim.replacing is not None:
            opened = replace(
                opened, session=self._transcripts.cut(db, n, opened.session, claim.replacing)
            )

        history = self._entries.history(db, n, opened.session, claim.history)
        stored = self._entries.append(db, n, claim.entries)
        session = interacted(opened.session, stored, now)
        self._sessions.update(db, n, session)

        seqs = (stored[0].seq, stored[-1].seq) if stored else (entry_table.LAST, entry_table.LAST)
        turn = turn_table.start(db, n, seqs, repeatable=claim.repeatable, run=run, now=now)
        inbox_table.begin(db, claim.inbox, turn)
        opened = Opened(session=session, is_new=opened.is_new)
        return Begun(
            turn=turn,
            opened=opened,
            said=stored,
            history=history,
            attempt=1,
            repeatable=claim.repeatable,
        )

    def join(
        self, db: sqlite3.Connection, turn: TurnId, inbox: InboxId, entry: Entry, now: datetime
    ) -> None:
        """One message more for a turn that runs."""
        n, found = self._sessions.by_number(db, turn_table.running_session(db, turn))
        inbox_table.without_turn(db, inbox)
        stored = self._entries.append(db, n, (entry,))
        self._sessions.update(db, n, interacted(found, stored, now))
        turn_table.extend(db, turn, stored[-1].seq, now)
        inbox_table.begin(db, (inbox,), turn)

    def finish(
        self, db: sqlite3.Connection, turn: TurnId, outcome: Outcome, now: datetime
    ) -> tuple[Part, ...]:
        """What it said and used, what goes out, and the end of its messages."""
        n, found = self._sessions.by_number(db, turn_table.running_session(db, turn))
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
        """
        Back to work; a message that had a turn goes on with it, and so do the others of that turn.
        """
        item = inbox_table.given_up(db, inbox)
        inbox_table.requeue(db, item)
        if item.turn is not None:
            turn_table.requeue(db, item.turn, now)
        state = InboxState.WAITING if item.turn is None else InboxState.RUNNING
        return replace(item, state=state, attempts=0, reason=None)

    def _begin_again(
        self, db: sqlite3.Connection, turn: TurnId, count: int, run: str, now: datetime
    ) -> Begun:
        row = turn_table.start_again(db, turn, run, now)
        question_table.close_of_turn(db, turn)
        inbox_table.count_attempt(db, turn, row.attempt)
        n, session = self._sessions.by_number(db, row.session)

        return Begun(
            turn=turn,
            opened=Opened(session=session, is_new=False),
            said=entry_table.asked_between(db, n, row.first_seq, row.last_seq),
            history=self._entries.history(db, n, session, count, before=row.first_seq),
            attempt=row.attempt,
            repeatable=row.repeatable,
            preview=row.preview,
        )
