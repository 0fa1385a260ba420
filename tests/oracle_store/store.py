"""
The verbs of the Store port over plain values under one lock.

It is also the yardstick: written apart from the SQL, it must agree with every other store in the
behavioural suite.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

from tests.oracle_store.accounts import MemoryAccounts
from tests.oracle_store.endings import MemoryEndings
from tests.oracle_store.inbox import MemoryInbox
from tests.oracle_store.outbox import MemoryOutbox
from tests.oracle_store.people import MemoryPeople
from tests.oracle_store.questions import MemoryQuestions
from tests.oracle_store.sessions import MemorySessions, may_be_due
from tests.oracle_store.transcripts import MemoryTranscripts
from tests.oracle_store.turns import MemoryTurns
from tests.oracle_store.upkeep import MemoryUpkeep
from tests.oracle_store.usage import MemoryUsage
from tests.oracle_store.work import MemoryWork
from turngate.gateway.domain.ids import (
    EntryId,
    InboxId,
    PartId,
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import (
    InboundMessage,
    InboxState,
    SessionSource,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.pairing_records import (
    Approval,
    Approved,
    Invitation,
    Judged,
    Pending,
    Person,
)
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.session import (
    EndReason,
    Opened,
    Session,
)
from turngate.gateway.domain.store_values import (
    Accepted,
    AccountRecord,
    Asked,
    Begun,
    Choice,
    Claim,
    Depth,
    EndedSession,
    Hit,
    Imported,
    InboxItem,
    Opening,
    Outcome,
    PolicyOf,
    Pruned,
    SessionFilter,
    Trace,
    Transcript,
)
from turngate.gateway.domain.transcript import Block, Entry
from turngate.gateway.domain.usage import (
    LAST_DAY,
    By,
    Payer,
    Spent,
    Used,
)
from turngate.gateway.rules.session_lifecycle import answered
from turngate.gateway.stores import jsonl
from turngate.gateway.stores.unreadable import make_sure_it_can_be_read, refusable

LIVE_ENTRIES = 2000


class MemoryStore:
    """
    All of the port, in this process only. Each thing has a file of its own; here is what takes
    several of them.
    """

    def __init__(self, clock: Clock, *, live_entries: int = LIVE_ENTRIES) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self.run = 1
        """Counted up to play a restart of the daemon: turns of an earlier run have died with it."""
        numbers = count(1)
        self._accounts = MemoryAccounts()
        self._people = MemoryPeople()
        self._usage = MemoryUsage()
        self._endings = MemoryEndings()
        self._sessions = MemorySessions(numbers, self._endings)
        self._transcripts = MemoryTranscripts(numbers, self._sessions, live_entries)
        self._turns = MemoryTurns(numbers)
        self._inbox = MemoryInbox(numbers)
        self._outbox = MemoryOutbox(numbers)
        self._questions = MemoryQuestions(self._outbox.sent_id)
        self._work = MemoryWork(
            sessions=self._sessions,
            transcripts=self._transcripts,
            turns=self._turns,
            inbox=self._inbox,
            outbox=self._outbox,
            questions=self._questions,
        )
        self._upkeep = MemoryUpkeep(
            sessions=self._sessions,
            transcripts=self._transcripts,
            turns=self._turns,
            inbox=self._inbox,
            outbox=self._outbox,
            questions=self._questions,
            people=self._people,
        )

    async def accept(
        self, message: InboundMessage, key: SessionKey, *, choosing: Choice | None = None
    ) -> Accepted:
        make_sure_it_can_be_read(message)
        with self._lock:
            now = self._clock.now()
            self._accounts.note_message(message)
            accepted = self._inbox.accept(message, key, now)
            if choosing is not None and not accepted.duplicate:
                self._questions.choose(choosing, accepted.id)
            return accepted

    async def reject(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        with self._lock:
            accepted = await self.accept(refusable(message, self._clock.now()), key)
            if not accepted.duplicate:
                self._inbox.settle((accepted.id,), InboxState.REFUSED, reason, self._clock.now())
            return accepted

    async def set_aside(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        with self._lock:
            now = self._clock.now()
            self._accounts.note_message(message)
            return self._inbox.set_aside(message, key, reason, now)

    async def accept_again(
        self,
        inbox: InboxId,
        message: InboundMessage,
        key: SessionKey,
        *,
        choosing: Choice | None = None,
    ) -> Accepted:
        make_sure_it_can_be_read(message)
        with self._lock:
            accepted = self._inbox.accept_again(inbox, message, key, self._clock.now())
            if choosing is not None:
                self._questions.choose(choosing, accepted.id)
            return accepted

    async def amend(self, inbox: InboxId, text: str) -> bool:
        with self._lock:
            return self._inbox.amend(inbox, text)

    async def inbox(
        self, *states: InboxState, limit: int = 1000, with_settled: bool = True
    ) -> list[InboxItem]:
        with self._lock:
            return self._inbox.items(states, limit, with_settled=with_settled)

    async def open(self, opening: Opening) -> Opened:
        with self._lock:
            return self._work.open(opening, self._clock.now())

    async def begin(self, claim: Claim) -> Begun:
        with self._lock:
            return self._work.begin(claim, self.run, self._clock.now())

    async def count_crash(self, run: str | None) -> None:
        with self._lock:
            self._work.turns.count_crash(None if run is None else int(run))

    async def end_alone(self, turn: TurnId) -> None:
        with self._lock:
            self._work.turns.end_alone(turn)

    async def join(self, turn: TurnId, inbox: InboxId, entry: Entry) -> None:
        with self._lock:
            self._work.join(turn, inbox, entry, self._clock.now())

    async def finish(self, turn: TurnId, outcome: Outcome) -> tuple[Part, ...]:
        with self._lock:
            parts = self._work.finish(turn, outcome, self._clock.now())
            if outcome.payer is not None:
                self._usage.charge(outcome.payer, outcome.spent)
            return parts

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        with self._lock:
            self._usage.charge(payer, spent)
            found = self._sessions.find(session)
            if found is not None:
                self._sessions.put(answered(found, (), self._clock.now(), spent, told=False))

    async def usage(self, by: By, *, since: str = "", until: str = LAST_DAY) -> list[Used]:
        with self._lock:
            return self._usage.by(by, since, until)

    async def answer(
        self, inbox: InboxId, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        with self._lock:
            now = self._clock.now()
            self._inbox.without_turn(inbox)
            self._transcripts.append(session, entries, now)
            self._inbox.settle((inbox,), InboxState.DONE, None, now)
            return self._work.put_out(session, None, parts, now)

    async def tell(
        self, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        with self._lock:
            now = self._clock.now()
            self._transcripts.append(session, entries, now)
            return self._work.put_out(session, None, parts, now)

    async def ask(self, turn: TurnId, *parts: Part) -> tuple[Part, ...]:
        with self._lock:
            return self._work.put_out(
                self._turns.running(turn).session, turn, parts, self._clock.now()
            )

    async def questions(self) -> list[Asked]:
        with self._lock:
            return self._questions.open()

    async def close_question(self, question: PartId, *parts: Part) -> tuple[Part, ...]:
        with self._lock:
            told = parts if self._questions.close(question) else ()
            return self._work.put_out(None, None, told, self._clock.now())

    async def answered(self, inbox: InboxId) -> Asked | None:
        with self._lock:
            return self._questions.answered_by(inbox)

    async def say(self, *parts: Part) -> tuple[Part, ...]:
        with self._lock:
            return self._work.put_out(None, None, parts, self._clock.now())

    async def invite(self, invitation: Invitation) -> tuple[Part, ...]:
        with self._lock:
            now = self._clock.now()
            is_told = self._people.invite(invitation, now)
            return self._work.put_out(None, None, (invitation.words,) if is_told else (), now)

    async def approve(self, approval: Approval) -> Judged:
        with self._lock:
            now = self._clock.now()
            judged, words = self._people.approve(approval, now)
            return (
                judged
                if words is None
                else replace(judged, parts=self._work.put_out(None, None, (words,), now))
            )

    async def revoke(self, platform: str, account: str | None, person: str) -> tuple[Person, ...]:
        with self._lock:
            return self._people.revoke(platform, account, person, self._clock.now())

    async def approved(self) -> list[Approved]:
        with self._lock:
            return self._people.approved()

    async def pending(self) -> list[Pending]:
        with self._lock:
            return self._people.pending(self._clock.now())

    async def account(self, platform: str, account: str) -> AccountRecord:
        with self._lock:
            return self._accounts.record(platform, account)

    async def record_refused(self, platform: str, account: str) -> AccountRecord:
        with self._lock:
            return self._accounts.record_refused(platform, account, self._clock.now())

    async def record_welcome(self, platform: str, account: str) -> None:
        with self._lock:
            self._accounts.record_welcome(platform, account)

    async def record_behind(self, platform: str, account: str, since: datetime) -> None:
        with self._lock:
            self._accounts.record_behind(platform, account, since)

    async def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        with self._lock:
            self._accounts.record_caught_up(platform, account, until)

    async def refuse(
        self, inbox: Sequence[InboxId], reason: str, *, session: SessionId, parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        with self._lock:
            self._sessions.existing(session)
            is_refused = self._inbox.refuse(inbox, reason)
            return self._work.put_out(session, None, parts if is_refused else (), self._clock.now())

    async def record_tool(self, turn: TurnId) -> None:
        with self._lock:
            self._turns.record_tool(turn)

    async def record_preview(self, turn: TurnId, message_id: str) -> None:
        with self._lock:
            self._turns.record_preview(turn, message_id)

    async def requeue(self, inbox: InboxId) -> InboxItem:
        with self._lock:
            return self._work.requeue(inbox, self._clock.now())

    async def drop(self, inbox: InboxId, reason: str) -> None:
        with self._lock:
            self._inbox.drop(inbox, reason, self._clock.now())

    async def requeue_part(self, part: PartId) -> Part:
        with self._lock:
            return self._outbox.requeue(part, self._clock.now())

    async def drop_part(self, part: PartId, reason: str) -> None:
        with self._lock:
            self._outbox.drop(part)

    async def depth(self) -> Depth:
        with self._lock:
            return Depth(
                inbox_waiting=self._inbox.waiting(),
                inbox_dead=self._inbox.dead(),
                inbox_oldest=self._inbox.oldest(),
                outbox_waiting=self._outbox.waiting(),
                outbox_dead=self._outbox.dead(),
                outbox_oldest=self._outbox.oldest(),
            )

    async def find(self, message_id: str) -> list[InboxId]:
        with self._lock:
            return self._inbox.find(message_id)

    async def trace(self, inbox: InboxId) -> Trace:
        with self._lock:
            return self._work.trace(inbox)

    async def outbox(self, *states: PartState, limit: int = 1000) -> list[Part]:
        with self._lock:
            return self._outbox.parts(states, limit)

    async def record_sending(self, part: PartId) -> Part:
        with self._lock:
            return self._outbox.record_sending(part, self._clock.now())

    async def record_sent(self, part: PartId, sent: Sent) -> None:
        with self._lock:
            self._outbox.record_sent(part, sent)

    async def record_unsent(
        self, part: PartId, reason: str, *, retry_at: datetime | None, in_doubt: bool = False
    ) -> None:
        with self._lock:
            self._outbox.record_unsent(part, reason, retry_at, self._clock.now(), in_doubt=in_doubt)

    async def reset(self, key: SessionKey, *, title: str | None = None) -> Session:
        with self._lock:
            return self._sessions.reset(key, title, self._clock.now())

    async def switch(self, key: SessionKey, target: SessionId) -> Session:
        with self._lock:
            return self._sessions.switch(key, target, self._clock.now())

    async def move_chat(
        self, old: SessionSource, chat_id: str, key_of: Callable[[SessionSource], SessionKey]
    ) -> int:
        with self._lock:
            return self._sessions.move_chat(old, chat_id, key_of)

    async def end_if_due(self, session: SessionId, opening: Opening) -> EndReason | None:
        with self._lock:
            return self._sessions.end_if_due(
                session, opening, self._clock.now(), self._work.busy_check(opening)
            )

    async def due(self, policy_of: PolicyOf) -> AsyncIterator[Session]:
        with self._lock:
            now, found = self._clock.now(), self._sessions.all()
        for session in found:
            if may_be_due(
                session, policy_of(session.origin.platform, session.origin.chat_type), now
            ):
                yield session

    async def endings(self, *, limit: int = 100) -> list[EndedSession]:
        with self._lock:
            untold = self._endings.untold(self._clock.now())
            pending = [
                EndedSession(session=self._sessions.existing(id_), attempts=tried)
                for id_, tried in untold.items()
            ]
            return pending[:limit]

    async def record_telling(self, session: SessionId, *, retry_at: datetime) -> bool:
        with self._lock:
            return self._endings.count_attempt(session, retry_at)

    async def record_told(self, session: SessionId) -> None:
        with self._lock:
            self._endings.forget(session)

    async def session(self, session: SessionId) -> Session:
        with self._lock:
            return self._sessions.existing(session)

    async def current(self, key: SessionKey) -> Session | None:
        with self._lock:
            return self._sessions.current(key)

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> list[Session]:
        with self._lock:
            return self._sessions.listed(wanted, self._clock.now())

    async def rename(self, session: SessionId, title: str | None) -> None:
        self._amend(session, lambda found: replace(found, title=title))

    async def archive(self, session: SessionId, *, archived: bool = True) -> None:
        self._amend(session, lambda found: replace(found, archived=archived))

    async def mark_important(self, session: SessionId, *, important: bool = True) -> None:
        self._amend(session, lambda found: replace(found, important=important))

    async def set_goal(self, session: SessionId, goal: str | None) -> None:
        self._amend(session, lambda found: replace(found, goal=goal))

    async def choose_agent(self, session: SessionId, agent: str | None) -> None:
        self._amend(session, lambda found: replace(found, agent=agent))

    async def delete(self, session: SessionId) -> None:
        with self._lock:
            self._upkeep.erase(self._sessions.existing(session), self._clock.now())

    async def prune(
        self,
        *,
        empty_after: timedelta,
        archive_after: timedelta,
        forget_after: timedelta,
        keep: timedelta | None = None,
    ) -> Pruned:
        with self._lock:
            now = self._clock.now()
            pruned = self._upkeep.prune_sessions(now, empty_after, archive_after)
            if keep is not None:
                pruned += self._upkeep.forget_talk(now, keep)
            pruned += self._upkeep.forget_unreadable(now)
            return pruned + self._upkeep.forget_work(now - forget_after)

    async def transcript(
        self, session: SessionId, *, last: int | None = None, with_archived: bool = False
    ) -> Transcript:
        with self._lock:
            return self._transcripts.newest(session, last, with_archived=with_archived)

    async def edit_entry(
        self, session: SessionId, entry: EntryId, content: tuple[Block, ...]
    ) -> Entry:
        with self._lock:
            return self._transcripts.edit(session, entry, content, self._clock.now())

    async def delete_entry(self, session: SessionId, entry: EntryId) -> None:
        with self._lock:
            self._transcripts.remove(session, entry, self._clock.now())

    async def truncate(self, session: SessionId, keep: int) -> int:
        with self._lock:
            return self._transcripts.truncate(session, keep, self._clock.now())

    async def summarise(
        self, session: SessionId, summary: Entry, of: Sequence[Entry], *, mark: int
    ) -> bool:
        with self._lock:
            return self._transcripts.summarise(session, summary, of, mark, self._clock.now())

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        with self._lock:
            return self._transcripts.search(query, limit)

    async def export(self, session: SessionId) -> AsyncIterator[str]:
        with self._lock:
            found = self._sessions.existing(session)
            entries = self._transcripts.all(found.id)
        yield jsonl.session_line(found)
        for entry in entries:
            yield jsonl.entry_line(entry)
        yield jsonl.closing_line(len(entries))

    async def import_(self, lines: Iterable[str | bytes]) -> Imported:
        export = jsonl.read_export(lines)
        if export.session is None and not export.entries:
            return Imported(session=None, entries=0, problems=export.problems)
        with self._lock:
            restored = self._transcripts.restore(export, self._clock.now())
        return Imported(session=restored, entries=len(export.entries), problems=export.problems)

    async def probe(self) -> None:
        """Memory takes everything."""

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _amend(self, session: SessionId, change: Callable[[Session], Session]) -> None:
        with self._lock:
            self._sessions.amend(session, change, self._clock.now())
