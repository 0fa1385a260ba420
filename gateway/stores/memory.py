"""
A store that forgets: for tests, and for trying things out. It keeps every promise of the port but durability.

Plain values under one lock. It is also the yardstick: written apart from the SQL, it must agree with every other store
in the behavioural suite.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count

from gateway.errors import AlreadySettled, Refused, UnknownEntry, UnknownSession, UnknownWork
from gateway.history import live_start
from gateway.model import (
    Block,
    EndReason,
    Entry,
    EntryId,
    InboundMessage,
    InboxId,
    InboxState,
    Opened,
    Origin,
    Part,
    PartId,
    PartState,
    Sent,
    Session,
    SessionId,
    SessionKey,
    SessionSource,
    Spent,
    TurnId,
)
from gateway.people import Approval, Approved, Invitation, Judged, Pending, Person
from gateway.ports import Clock
from gateway.sessions import (
    answered,
    due_before,
    end_session,
    interacted,
    is_disused,
    is_empty,
    is_over,
    next_session,
    open_session,
    preview_of,
    reset_due,
    resumed,
    said_before,
    spared_summary,
    tombstone,
    touched,
    with_moved_marks,
)
from gateway.spending import LAST_DAY, By, Payer, Spending, Used
from gateway.stores import jsonl
from gateway.stores.memory_people import MemoryPeople
from gateway.stores.memory_questions import MemoryQuestions
from gateway.stores.texts import contains_words, on_one_line, query_words, scrub, scrubbed
from gateway.storing import (
    LONGEST_PUT_OFF,
    Accepted,
    AccountRecord,
    Asked,
    Begun,
    Choice,
    Claim,
    Depth,
    Ending,
    Hit,
    Imported,
    InboxItem,
    Opening,
    Outcome,
    PolicyOf,
    Pruned,
    SessionFilter,
    Step,
    Trace,
    Transcript,
)

LIVE_ENTRIES = 2000


@dataclass(slots=True)
class _Turn:
    session: SessionId
    first_seq: int
    inbox: tuple[InboxId, ...]
    run: int
    said: tuple[EntryId, ...]
    repeatable: bool
    steps: list[Step]
    state: str = "running"
    attempt: int = 1
    preview: str | None = None


@dataclass(slots=True)
class _Outgoing:
    session: SessionId | None
    part: Part
    born: datetime
    steps: list[Step] = field(default_factory=list)


class MemoryStore:
    """All of the port, in this process only."""

    def __init__(self, clock: Clock, *, live_entries: int = LIVE_ENTRIES) -> None:
        self._clock = clock
        self._live_entries = live_entries
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._made = 0
        self.run = 1
        """Counted up to play a restart of the daemon: turns of an earlier run have died with it."""
        self._sessions: dict[SessionId, Session] = {}
        self._entries: dict[SessionId, list[Entry]] = {}
        self._inbox: dict[InboxId, InboxItem] = {}
        self._seen: dict[str, tuple[InboxId, datetime]] = {}
        self._turns: dict[TurnId, _Turn] = {}
        self._outbox: dict[PartId, _Outgoing] = {}
        self._settled: dict[InboxId, datetime] = {}
        self._accounts: dict[str, AccountRecord] = {}
        self._questions = MemoryQuestions(self._sent_id)
        self._people = MemoryPeople()
        self._usage: dict[Payer, Spending] = {}
        self._endings: dict[SessionId, tuple[int, datetime]] = {}

    async def accept(self, message: InboundMessage, key: SessionKey, *, choosing: Choice | None = None) -> Accepted:
        source = message.source
        events = [f"{source.platform}/{source.account}:{event}" for event in message.event_ids]
        with self._lock:
            now = self._clock.now()
            name = f"{source.platform}/{source.account}"
            self._accounts[name] = replace(self._accounts.get(name, AccountRecord()), received_at=now)
            known = [self._seen[event][0] for event in events if event in self._seen]
            id_ = min(known) if known else InboxId(next(self._numbers))
            if not known:
                self._inbox[id_] = InboxItem(
                    id=id_, key=key, message=scrubbed(message), state=InboxState.WAITING, received_at=now
                )
                if choosing is not None:
                    self._questions.choose(choosing, id_)
            for event in events:
                self._seen.setdefault(event, (id_, now))
            return Accepted(id=id_, duplicate=bool(known))

    async def turn_away(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        with self._lock:
            accepted = await self.accept(message, key)
            if not accepted.duplicate:
                item = self._inbox[accepted.id]
                self._inbox[item.id] = _wordless(item, InboxState.REFUSED, scrub(reason))
                self._settled[item.id] = self._clock.now()
            return accepted

    async def amend(self, inbox: InboxId, text: str) -> bool:
        with self._lock:
            item = self._inbox.get(inbox)
            if item is None or item.state is not InboxState.WAITING:
                return False
            self._inbox[inbox] = replace(item, message=scrubbed(replace(item.message, text=text)))
            return True

    async def inbox(self, *states: InboxState, limit: int = 1000, with_settled: bool = True) -> list[InboxItem]:
        with self._lock:
            items = [item for _, item in sorted(self._inbox.items()) if item.state in states]
            return [item for item in items if with_settled or item.id not in self._settled][: max(limit, 0)]

    async def open(self, opening: Opening) -> Opened:
        with self._lock:
            return self._open(opening, self._clock.now())

    async def begin(self, claim: Claim) -> Begun:
        with self._lock:
            turn = self._turn_of(claim.inbox)
            if turn is not None:
                return self._begin_again(turn, claim.history)
            now = self._clock.now()
            opened = self._open_without(claim.opening, claim.replacing, now)
            history = self._history(opened.session, claim.history)
            stored = self._append(opened.session.id, claim.entries)
            if claim.by_person:
                session = interacted(opened.session, stored, now)
            else:
                session = answered(opened.session, stored, now, Spent(), told=False)
            self._sessions[session.id] = session
            turn = TurnId(next(self._numbers))
            first_seq = stored[0].seq if stored else next(self._numbers)
            self._turns[turn] = _Turn(
                session.id,
                first_seq,
                claim.inbox,
                self.run,
                said=tuple(entry.id for entry in stored),
                repeatable=claim.repeatable,
                steps=[Step(at=now, step="claimed")],
            )
            self._mark_inbox(turn, lambda item: replace(item, state=InboxState.RUNNING, turn=turn, attempts=1))
            opened = Opened(session=session, is_new=opened.is_new)
            return Begun(turn=turn, opened=opened, said=stored, history=history, attempt=1, repeatable=claim.repeatable)

    async def join(self, turn: TurnId, inbox: InboxId, entry: Entry) -> None:
        with self._lock:
            found = self._running_turn(turn)
            if self._turn_of((inbox,)) is not None:
                raise AlreadySettled(f"inbound message {inbox} belongs to a turn")
            now = self._clock.now()
            stored = self._append(found.session, (entry,))
            self._sessions[found.session] = interacted(self._existing(found.session), stored, now)
            found.inbox = (*found.inbox, inbox)
            found.said = (*found.said, *(each.id for each in stored))
            self._inbox[inbox] = replace(self._inbox[inbox], state=InboxState.RUNNING, turn=turn, attempts=1)

    async def finish(self, turn: TurnId, outcome: Outcome) -> tuple[Part, ...]:
        with self._lock:
            found = self._running_turn(turn)
            now = self._clock.now()
            session = self._existing(found.session)
            stored = self._append(session.id, outcome.entries)
            session = answered(session, stored, now, outcome.spent, told=outcome.failure is None)
            self._sessions[session.id] = self._within_bounds(session)
            self._end_turn(turn, found, outcome, now)
            if outcome.payer is not None:
                self._charge(outcome.payer, outcome.spent)
            return tuple(self._put_out(session.id, turn, part, now) for part in outcome.parts)

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        with self._lock:
            self._charge(payer, spent)
            found = self._sessions.get(session)
            if found is not None and found.end_reason is not EndReason.DELETED:
                self._sessions[session] = answered(found, (), self._clock.now(), spent, told=False)

    async def usage(self, by: By, *, since: str = "", until: str = LAST_DAY) -> list[Used]:
        with self._lock:
            sums: dict[Payer, Spending] = {}
            for payer, spending in self._usage.items():
                if since <= payer.day <= until:
                    sums[payer.only(by)] = sums.get(payer.only(by), Spending()) + spending
            return [Used(payer=payer, spending=sums[payer]) for payer in sorted(sums)]

    async def answer(
        self, inbox: InboxId, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        with self._lock:
            if self._turn_of((inbox,)) is not None:
                raise AlreadySettled(f"inbound message {inbox} belongs to a turn")
            now = self._clock.now()
            found = self._existing(session)
            stored = self._append(session, entries)
            self._sessions[session] = self._within_bounds(answered(found, stored, now, Spent(), told=False))
            self._inbox[inbox] = _wordless(self._inbox[inbox], InboxState.DONE, None)
            self._settled[inbox] = now
            return tuple(self._put_out(session, None, part, now) for part in parts)

    async def tell(self, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]) -> tuple[Part, ...]:
        with self._lock:
            now = self._clock.now()
            found = self._existing(session)
            stored = self._append(session, entries)
            self._sessions[session] = self._within_bounds(answered(found, stored, now, Spent(), told=False))
            return tuple(self._put_out(session, None, part, now) for part in parts)

    async def ask(self, turn: TurnId, *parts: Part) -> tuple[Part, ...]:
        with self._lock:
            session, now = self._running_turn(turn).session, self._clock.now()
            return tuple(self._put_out(session, turn, part, now) for part in parts)

    async def questions(self) -> list[Asked]:
        with self._lock:
            return self._questions.open()

    async def answered(self, inbox: InboxId) -> Asked | None:
        with self._lock:
            return self._questions.answered_by(inbox)

    async def say(self, *parts: Part) -> tuple[Part, ...]:
        with self._lock:
            return tuple(self._put_out(None, None, part, self._clock.now()) for part in parts)

    async def invite(self, invitation: Invitation) -> tuple[Part, ...]:
        with self._lock:
            is_told = self._people.invite(invitation, self._clock.now())
            return (self._put_out(None, None, invitation.words, self._clock.now()),) if is_told else ()

    async def approve(self, approval: Approval) -> Judged:
        with self._lock:
            judged, words = self._people.approve(approval, self._clock.now())
            if words is None:
                return judged
            return replace(judged, parts=(self._put_out(None, None, words, self._clock.now()),))

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
            return self._accounts.get(f"{platform}/{account}", AccountRecord())

    async def record_refused(self, platform: str, account: str) -> AccountRecord:
        with self._lock:
            name = f"{platform}/{account}"
            found = self._accounts.get(name, AccountRecord())
            self._accounts[name] = replace(found, refused=found.refused + 1, refused_at=self._clock.now())
            return self._accounts[name]

    async def record_welcome(self, platform: str, account: str) -> None:
        with self._lock:
            name = f"{platform}/{account}"
            if name in self._accounts:
                self._accounts[name] = replace(self._accounts[name], refused=0, refused_at=None)

    async def record_behind(self, platform: str, account: str, since: datetime) -> None:
        with self._lock:
            name = f"{platform}/{account}"
            self._accounts[name] = replace(self._accounts.get(name, AccountRecord()), behind_since=since)

    async def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        with self._lock:
            name = f"{platform}/{account}"
            found = self._accounts.get(name, AccountRecord())
            received = max(found.received_at or until, until)
            self._accounts[name] = replace(found, behind_since=None, received_at=received)

    async def refuse(
        self, inbox: Sequence[InboxId], reason: str, *, session: SessionId, parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        with self._lock:
            self._existing(session)
            items = [self._inbox[row] for row in inbox if row in self._inbox]
            waiting = [item for item in items if item.state is InboxState.WAITING and item.turn is None]
            for item in waiting:
                self._inbox[item.id] = replace(item, state=InboxState.REFUSED, reason=scrub(reason))
            return tuple(self._put_out(session, None, part, self._clock.now()) for part in parts if waiting)

    async def record_tool(self, turn: TurnId) -> None:
        with self._lock:
            self._running_turn(turn).repeatable = False

    async def record_preview(self, turn: TurnId, message_id: str) -> None:
        with self._lock:
            self._running_turn(turn).preview = scrub(message_id)

    async def requeue(self, inbox: InboxId) -> InboxItem:
        with self._lock:
            item = self._given_up(inbox)
            if item.turn is not None:
                turn = self._turns[item.turn]
                turn.state, turn.run, turn.attempt = "running", 0, 0
                turn.steps.append(Step(at=self._clock.now(), step="requeued"))
                self._mark_inbox(
                    item.turn, lambda each: replace(each, state=InboxState.RUNNING, attempts=0, reason=None)
                )
            else:
                self._inbox[inbox] = replace(item, state=InboxState.WAITING, attempts=0, reason=None)
            return self._inbox[inbox]

    async def drop(self, inbox: InboxId, reason: str) -> None:
        with self._lock:
            item = self._inbox.get(inbox)
            if item is None or item.state is not InboxState.WAITING:
                item = self._given_up(inbox)
            self._inbox[inbox] = _wordless(item, InboxState.REFUSED, scrub(reason))
            self._settled[inbox] = self._clock.now()

    async def requeue_part(self, part: PartId) -> Part:
        with self._lock:
            found = self._given_up_part(part)
            found.part = replace(found.part, state=PartState.PENDING, not_before=None)
            found.steps.append(Step(at=self._clock.now(), step="requeued"))
            return found.part

    async def drop_part(self, part: PartId, reason: str) -> None:
        with self._lock:
            found = self._outbox.get(part)
            if found is None or found.part.state is not PartState.PENDING:
                self._given_up_part(part)
            del self._outbox[part]

    async def depth(self) -> Depth:
        with self._lock:
            inbox = Counter(item.state for item in self._inbox.values())
            outbox = Counter(out.part.state for out in self._outbox.values())
            at_work = InboxState.WAITING, InboxState.RUNNING
            on_its_way = PartState.PENDING, PartState.SENDING, PartState.FAILED
            parts = [out.part for out in self._outbox.values() if out.part.state in on_its_way]
            return Depth(
                inbox_waiting=inbox[InboxState.WAITING] + inbox[InboxState.RUNNING],
                inbox_dead=inbox[InboxState.DEAD],
                outbox_waiting=outbox[PartState.PENDING] + outbox[PartState.SENDING] + outbox[PartState.FAILED],
                outbox_dead=outbox[PartState.DEAD],
                inbox_oldest=min(
                    (item.received_at for item in self._inbox.values() if item.state in at_work), default=None
                ),
                outbox_oldest=min((part.created_at for part in parts if part.created_at), default=None),
            )

    async def find(self, message_id: str) -> list[InboxId]:
        with self._lock:
            return sorted(
                (id_ for id_, item in self._inbox.items() if item.message.id == scrub(message_id)), reverse=True
            )

    async def trace(self, inbox: InboxId) -> Trace:
        with self._lock:
            item = self._inbox.get(inbox)
            if item is None:
                raise UnknownWork(f"there is no inbound message {inbox}")
            turn = self._turns.get(item.turn) if item.turn is not None else None
            steps = [Step(at=item.received_at, step="stored"), *(turn.steps if turn else ())]
            if inbox in self._settled:
                steps.append(Step(at=self._settled[inbox], step=item.state.value, detail=item.reason or ""))
            outgoing = [
                out
                for _, out in sorted(self._outbox.items())
                if (item.turn is not None and out.part.turn == item.turn)
                or (
                    out.part.turn is None
                    and out.born == self._settled.get(inbox)
                    and out.part.reply_to == item.message.id
                )
            ]
            steps += [step for out in outgoing for step in out.steps]
            return Trace(
                item=item,
                session=turn.session if turn else None,
                steps=tuple(steps),
                parts=tuple(out.part for out in outgoing),
            )

    async def outbox(self, *states: PartState, limit: int = 1000) -> list[Part]:
        with self._lock:
            return [out.part for _, out in sorted(self._outbox.items()) if out.part.state in states][: max(limit, 0)]

    async def record_sending(self, part: PartId) -> Part:
        return self._settle(
            part,
            lambda found: replace(found, state=PartState.SENDING, attempts=found.attempts + 1),
            Step(at=self._clock.now(), step="sending"),
        )

    async def record_sent(self, part: PartId, sent: Sent) -> None:
        self._settle(
            part,
            lambda found: replace(found, state=PartState.SENT, sent_id=sent.message_id, text="", file=None, buttons=()),
            Step(at=sent.at, step="sent", detail=sent.message_id),
        )

    async def record_unsent(
        self, part: PartId, reason: str, *, retry_at: datetime | None, in_doubt: bool = False
    ) -> None:
        state = PartState.DEAD if retry_at is None else PartState.SENDING if in_doubt else PartState.FAILED
        self._settle(
            part,
            lambda found: replace(found, state=state, reason=reason, not_before=retry_at),
            Step(at=self._clock.now(), step="in doubt" if state is PartState.SENDING else state.value, detail=reason),
        )

    async def reset(self, key: SessionKey, *, title: str | None = None) -> Session:
        with self._lock:
            now = self._clock.now()
            found = self._current(key)
            if found is None:
                raise UnknownSession("there is no conversation here yet, so there is nothing to reset")
            self._retire(found, EndReason.RESET, now)
            fresh = next_session(found, now=now, fresh_id=self._fresh_id(), title=title)
            return self._add(replace(fresh, notice=None))

    async def switch(self, key: SessionKey, target: SessionId) -> Session:
        with self._lock:
            now = self._clock.now()
            wanted = self._existing(target)
            if wanted.key != key:
                raise Refused(f"session {target} belongs to another conversation")
            if wanted.current and wanted.end_reason is None:
                return wanted
            found = self._current(key)
            if found is not None and found.id != target:
                self._retire(found, EndReason.SWITCH, now)
            self._sessions[target] = resumed(wanted, now)
            self._endings.pop(target, None)
            return self._sessions[target]

    async def move_chat(self, old: SessionSource, chat_id: str, key_of: Callable[[SessionSource], SessionKey]) -> int:
        with self._lock:
            here = (old.platform, old.account, old.chat_id)
            moving = [
                session
                for session in self._sessions.values()
                if (session.origin.platform, session.origin.account, session.origin.chat_id) == here
                and session.end_reason is not EndReason.DELETED
            ]
            for session in moving:
                origin = replace(session.origin, chat_id=chat_id)
                taken = session.current and self._current(key_of(origin)) is not None
                self._sessions[session.id] = replace(
                    session, origin=origin, key=key_of(origin), current=session.current and not taken
                )
            return len(moving)

    async def end_if_due(self, session: SessionId, opening: Opening) -> EndReason | None:
        with self._lock:
            now = self._clock.now()
            found = self._existing(session)
            if not found.current or found.end_reason is not None:
                return None
            reason = reset_due(found, opening.policy, now, self._busy_check(opening))
            if reason is not None:
                self._note_ending(found)
                self._sessions[session] = end_session(found, reason, now)
            return reason

    async def due(self, policy_of: PolicyOf) -> AsyncIterator[Session]:
        with self._lock:
            now, found = self._clock.now(), list(self._sessions.values())
        for session in found:
            before = due_before(policy_of(session.origin.platform, session.origin.chat_type), now)
            is_open = session.current and session.end_reason is None
            if is_open and before is not None and session.last_interaction_at < before:
                yield session

    async def endings(self, *, limit: int = 100) -> list[Ending]:
        with self._lock:
            now = self._clock.now()
            pending = [
                Ending(session=self._sessions[session], attempts=attempts)
                for session, (attempts, not_before) in self._endings.items()
                if not now < not_before <= now + LONGEST_PUT_OFF
            ]
            return pending[:limit]

    async def record_telling(self, session: SessionId, *, retry_at: datetime) -> bool:
        with self._lock:
            if session not in self._endings:
                return False
            self._endings[session] = self._endings[session][0] + 1, retry_at
            return True

    async def record_told(self, session: SessionId) -> None:
        with self._lock:
            self._endings.pop(session, None)

    async def session(self, session: SessionId) -> Session:
        with self._lock:
            return self._existing(session)

    async def current(self, key: SessionKey) -> Session | None:
        with self._lock:
            return self._current(key)

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> list[Session]:
        with self._lock:
            since = None if wanted.active_within is None else self._clock.now() - wanted.active_within
            found = [
                session
                for session in reversed(self._sessions.values())
                if session.end_reason is not EndReason.DELETED
                and wanted.key in (None, session.key)
                and wanted.owner in (None, session.owner)
                and wanted.archived in (None, session.archived)
                and (session.current or not wanted.current_only)
                and (since is None or session.last_interaction_at >= since)
            ]
            return sorted(found, key=lambda session: session.last_interaction_at, reverse=True)[
                : None if wanted.limit is None else max(wanted.limit, 0)
            ]

    async def ever_another(self, session: SessionId) -> bool:
        with self._lock:
            return self._made > (session in self._sessions)

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
            self._erase(self._existing(session), self._clock.now())

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
            pruned = Pruned()
            for session in list(self._sessions.values()):
                pruned += self._prune_session(session, now, now - empty_after, now - archive_after)
            for session in list(self._sessions.values()) if keep is not None else ():
                pruned += self._forget_talk(session, now, said_before(now, keep or timedelta(0)))
            return pruned + Pruned(forgotten=self._forget_work(now - forget_after))

    async def append(self, session: SessionId, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        with self._lock:
            found = self._existing(session)
            stored = self._append(session, entries)
            changed = answered(found, stored, self._clock.now(), Spent(), told=False)
            self._sessions[session] = self._within_bounds(changed)
            return stored

    async def transcript(
        self, session: SessionId, *, last: int | None = None, with_archived: bool = False
    ) -> Transcript:
        with self._lock:
            floor = 0 if with_archived else self._existing(session).archived_through
            self._existing(session)
            entries = [entry for entry in self._entries[session] if entry.seq > floor]
            return Transcript(
                entries=tuple(entries if last is None else entries[max(len(entries) - max(last, 0), 0) :])
            )

    async def edit_entry(self, session: SessionId, entry: EntryId, content: tuple[Block, ...]) -> Entry:
        with self._lock:
            old = self._entry(session, entry)
            new = scrubbed(replace(old, content=content))
            self._rewrite(session, [new if each is old else each for each in self._entries[session]])
            return new

    async def delete_entry(self, session: SessionId, entry: EntryId) -> None:
        with self._lock:
            old = self._entry(session, entry)
            self._rewrite(session, [each for each in self._entries[session] if each is not old])

    async def truncate(self, session: SessionId, keep: int) -> int:
        if keep < 0:
            raise Refused(f"cannot keep {keep} messages; give 0 or more")
        with self._lock:
            found = self._existing(session)
            archived = [entry for entry in self._entries[session] if entry.seq <= found.archived_through]
            self._rewrite(session, _cut(found, self._entries[session], len(archived) + keep))
            return self._sessions[session].messages

    async def replace(self, session: SessionId, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        with self._lock:
            found = self._existing(session)
            kept = [entry for entry in self._entries[session] if entry.seq <= found.archived_through]
            self._entries[session] = list(kept)
            stored = self._append(session, entries)
            moved = {old.seq: new.seq for old, new in zip(entries, stored, strict=True) if old.seq}
            self._sessions[session] = with_moved_marks(found, moved)
            self._rewrite(session, [*kept, *stored])
            return stored

    async def clear(self, session: SessionId) -> None:
        with self._lock:
            found = self._existing(session)
            self._sessions[session] = replace(found, archived_through=0, consolidated_through=0, summary_seq=0)
            self._rewrite(session, [])

    async def consolidate(self, session: SessionId, through: int, summary: Entry | None = None) -> None:
        with self._lock:
            found = self._existing(session)
            stored = self._append(session, [] if summary is None else [summary])
            seq = stored[0].seq if stored else 0
            self._sessions[session] = replace(found, consolidated_through=max(through, 0), summary_seq=seq)
            self._rewrite(session, self._entries[session])

    async def summarise(self, session: SessionId, summary: Entry, of: Sequence[Entry], *, mark: int) -> bool:
        with self._lock:
            found = self._existing(session)
            if not of or found.consolidated_through != mark:
                return False
            there = [entry for entry in self._entries[session] if of[0].seq <= entry.seq <= of[-1].seq]
            if there != list(of):
                return False
            await self.consolidate(session, of[-1].seq, summary)
            return True

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        words = query_words(query)
        with self._lock:
            hits = [
                Hit(session=session, entry=entry)
                for session, entries in self._entries.items()
                for entry in entries
                if words and contains_words(entry.text, words)
            ]
            return sorted(hits, key=lambda hit: hit.entry.seq, reverse=True)[: max(limit, 0)]

    async def export(self, session: SessionId) -> AsyncIterator[str]:
        with self._lock:
            found, entries = self._existing(session), list(self._entries[session])
        yield jsonl.session_line(found)
        for entry in entries:
            yield jsonl.entry_line(entry)
        yield jsonl.closing_line(len(entries))

    async def import_(self, lines: Iterable[str | bytes]) -> Imported:
        export = jsonl.read_export(lines)
        if export.session is None and not export.entries:
            return Imported(session=None, entries=0, problems=export.problems)
        with self._lock:
            now = self._clock.now()
            wanted = SessionId(scrub(export.session.id)) if export.session is not None else None
            id_ = wanted if wanted and wanted not in self._sessions else self._fresh_id()
            restored = jsonl.restored_session(export, id_, now)
            if restored.current and self._current(restored.key) is not None:
                restored = replace(restored, current=False, ended_at=now, end_reason=EndReason.SWITCH)
            self._add(replace(restored, current=False))
            stored = self._append(id_, export.entries)
            self._sessions[id_] = jsonl.with_new_places(restored, export, stored)
            self._recount(id_)
            return Imported(session=id_, entries=len(stored), problems=export.problems)

    async def probe(self) -> None:
        """Memory takes everything."""

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _existing(self, session: SessionId) -> Session:
        found = self._sessions.get(SessionId(scrub(session)))
        if found is None or found.end_reason is EndReason.DELETED:
            raise UnknownSession(f"there is no session {session}; it may have been deleted")
        return found

    def _current(self, key: SessionKey) -> Session | None:
        return next((session for session in self._sessions.values() if session.key == key and session.current), None)

    def _open(self, opening: Opening, now: datetime) -> Opened:
        decision = open_session(
            self._current(opening.key),
            opening,
            now=now,
            fresh_id=self._fresh_id,
            is_busy=self._busy_check(opening),
        )
        if decision.ended is not None:
            if self._sessions[decision.ended.id].end_reason is None:
                self._note_ending(decision.ended)
            self._sessions[decision.ended.id] = decision.ended
        session = self._add(decision.session) if decision.is_new else decision.session
        return Opened(session=session, is_new=decision.is_new)

    def _open_without(self, opening: Opening, replaced: EntryId | None, now: datetime) -> Opened:
        """Opened, with an entry and all after it taken out; if there is no such entry, nothing has happened."""
        before = dict(self._sessions), dict(self._entries), dict(self._endings), self._made
        opened = self._open(opening, now)
        if replaced is None:
            return opened
        try:
            return replace(opened, session=self._without(opened.session.id, replaced))
        except UnknownEntry:
            self._sessions, self._entries, self._endings, self._made = before
            raise

    def _busy_check(self, opening: Opening) -> Callable[[SessionId], bool]:
        return lambda id_: self._has_running_turn(id_) or (opening.is_busy is not None and opening.is_busy(id_))

    def _has_running_turn(self, session: SessionId) -> bool:
        return any(turn.session == session and turn.state == "running" for turn in self._turns.values())

    def _has_unsent_part(self, session: SessionId) -> bool:
        unsent = (PartState.PENDING, PartState.SENDING, PartState.FAILED)
        return any(out.session == session and out.part.state in unsent for out in self._outbox.values())

    def _add(self, session: Session) -> Session:
        session = scrubbed(session)
        self._made += 1
        self._sessions[session.id] = session
        self._entries[session.id] = []
        return session

    def _retire(self, session: Session, reason: EndReason, now: datetime) -> None:
        if session.end_reason is None:
            self._note_ending(session)
            session = end_session(session, reason, now)
        self._sessions[session.id] = replace(session, current=False)

    def _note_ending(self, session: Session) -> None:
        if session.has_talk:
            self._endings[session.id] = 0, self._clock.now()

    def _fresh_id(self) -> SessionId:
        return SessionId(f"s_{next(self._numbers)}")

    def _append(self, session: SessionId, entries: Iterable[Entry]) -> tuple[Entry, ...]:
        stored = []
        for entry in entries:
            seq = next(self._numbers)
            stored.append(scrubbed(replace(entry, seq=seq, id=entry.id or EntryId(f"e{seq}"))))
        self._entries[session] += stored
        return tuple(stored)

    def _history(self, session: Session, count: int, before: int | None = None) -> tuple[Entry, ...]:
        floor = max(session.archived_through, session.consolidated_through)
        entries = [entry for entry in self._entries[session.id] if before is None or entry.seq < before]
        newest = [entry for entry in entries[max(len(entries) - max(count, 0), 0) :] if entry.seq > floor]
        summary = [entry for entry in self._entries[session.id] if entry.seq == session.summary_seq]
        return (*summary, *(entry for entry in newest if not summary or entry.origin is not Origin.SUMMARY))

    def _entry(self, session: SessionId, id_: EntryId) -> Entry:
        self._existing(session)
        for entry in self._entries[session]:
            if entry.id == id_:
                return entry
        raise UnknownEntry(f"session {session} has no message {id_}")

    def _within_bounds(self, session: Session) -> Session:
        if session.messages <= self._live_entries:
            return session
        live = [entry for entry in self._entries[session.id] if entry.seq > session.archived_through]
        start = live_start(live, self._live_entries - self._live_entries // 10)
        floor = live[start - 1].seq if start else session.archived_through
        return replace(session, archived_through=floor, messages=len(live) - start)

    def _without(self, session: SessionId, first: EntryId) -> Session:
        """The session with that entry, and all after it, taken out."""
        entries = self._entries[session]
        cut = entries.index(self._entry(session, first))
        self._entries[session] = _cut(self._existing(session), entries, cut)
        self._recount(session)
        return self._sessions[session]

    def _rewrite(self, session: SessionId, entries: list[Entry]) -> None:
        self._existing(session)
        self._entries[session] = entries
        self._recount(session)
        self._sessions[session] = touched(self._sessions[session], self._clock.now())

    def _recount(self, session: SessionId) -> None:
        found, entries = self._sessions[session], self._entries[session]
        live = [entry for entry in entries if entry.seq > found.archived_through]
        last = live[-1].seq if live else 0
        has_summary = any(entry.seq == found.summary_seq for entry in entries)
        keeps_mark = found.consolidated_through <= last and (has_summary or not found.summary_seq)
        preview, preview_by = preview_of(entries)
        self._sessions[session] = replace(
            found,
            messages=len(live),
            preview=preview,
            preview_by=preview_by,
            summary_seq=found.summary_seq if has_summary and keeps_mark else 0,
            consolidated_through=found.consolidated_through if keeps_mark else 0,
        )

    def _amend(self, session: SessionId, change: Callable[[Session], Session]) -> None:
        with self._lock:
            changed = touched(change(self._existing(session)), self._clock.now())
            self._sessions[changed.id] = scrubbed(changed)

    def _turn_of(self, inbox: tuple[InboxId, ...]) -> TurnId | None:
        turns = set()
        for id_ in inbox:
            item = self._inbox.get(id_)
            if item is None:
                raise UnknownWork(f"there is no inbound message {id_}")
            if item.state not in (InboxState.WAITING, InboxState.RUNNING):
                raise AlreadySettled(f"inbound message {id_} is {item.state}")
            turns.add(item.turn)
        if len(turns) > 1:
            raise AlreadySettled("some of these messages already belong to a turn, others do not")
        return turns.pop() if turns else None

    def _begin_again(self, turn: TurnId, count: int) -> Begun:
        found = self._turns[turn]
        if found.run == self.run:
            raise AlreadySettled(f"turn {turn} is being worked on")
        found.run = self.run
        found.attempt += 1
        self._close_questions(turn)
        self._mark_inbox(turn, lambda item: replace(item, attempts=found.attempt))
        session = self._existing(found.session)
        history = self._history(session, count, before=found.first_seq)
        found.steps.append(Step(at=self._clock.now(), step="claimed again"))
        said = tuple(entry for entry in self._entries[session.id] if entry.id in found.said)
        return Begun(
            turn=turn,
            opened=Opened(session=session, is_new=False),
            said=said,
            history=history,
            attempt=found.attempt,
            repeatable=found.repeatable,
            preview=found.preview,
        )

    def _running_turn(self, turn: TurnId) -> _Turn:
        found = self._turns.get(turn)
        if found is None:
            raise UnknownWork(f"there is no turn {turn}; its session may have been deleted")
        if found.state != "running":
            raise AlreadySettled(f"turn {turn} is {found.state}")
        return found

    def _given_up(self, inbox: InboxId) -> InboxItem:
        item = self._inbox.get(inbox)
        if item is None:
            raise UnknownWork(f"there is no inbound message {inbox}")
        if inbox in self._settled or item.state in (InboxState.WAITING, InboxState.RUNNING):
            raise AlreadySettled(f"inbound message {inbox} is {item.state}")
        return item

    def _given_up_part(self, part: PartId) -> _Outgoing:
        found = self._outbox.get(part)
        if found is None:
            raise UnknownWork(f"there is no part {part}; its session may have been deleted")
        if found.part.state not in (PartState.FAILED, PartState.DEAD):
            raise AlreadySettled(f"part {part} is {found.part.state}")
        return found

    def _mark_inbox(self, turn: TurnId, change: Callable[[InboxItem], InboxItem]) -> None:
        """The rows of a turn that are not settled yet."""
        for id_ in self._turns[turn].inbox:
            if id_ not in self._settled and id_ in self._inbox:
                self._inbox[id_] = change(self._inbox[id_])

    def _end_turn(self, turn: TurnId, found: _Turn, outcome: Outcome, now: datetime) -> None:
        found.state = "failed" if outcome.failure is not None else "done"
        self._close_questions(turn)
        if outcome.failure is None:
            found.steps.append(Step(at=now, step="finished"))
            self._settle_inbox(turn, InboxState.DONE, None)
            return
        state, reason = outcome.state, scrub(outcome.failure)
        found.steps.append(Step(at=now, step=state.value, detail=on_one_line(reason)))
        self._mark_inbox(turn, lambda item: replace(item, state=state, reason=reason))

    def _charge(self, payer: Payer, spent: Spent) -> None:
        payer = scrubbed(payer)
        self._usage[payer] = self._usage.get(payer, Spending()) + Spending.of(spent)

    def _settle_inbox(self, turn: TurnId, state: InboxState, reason: str | None) -> None:
        self._mark_inbox(turn, lambda item: _wordless(item, state, reason))
        for id_ in self._turns[turn].inbox:
            self._settled.setdefault(id_, self._clock.now())

    def _put_out(self, session: SessionId | None, turn: TurnId | None, part: Part, now: datetime) -> Part:
        new = replace(part, state=PartState.PENDING, attempts=0, sent_id=None, reason=None, not_before=None)
        id_ = PartId(next(self._numbers))
        stored = scrubbed(replace(new, id=id_, session=session, turn=turn, created_at=now))
        self._outbox[stored.id] = _Outgoing(session, replace(stored, question=None), now)
        if stored.question is not None:
            self._questions.put(stored)
        return stored

    def _close_questions(self, turn: TurnId) -> None:
        """Those that have not left yet are not asked."""
        for part in self._questions.close_of_turn(turn):
            if part in self._outbox and self._outbox[part].part.state in (PartState.PENDING, PartState.FAILED):
                del self._outbox[part]

    def _sent_id(self, part: PartId) -> str | None:
        found = self._outbox.get(part)
        return found.part.sent_id if found else None

    def _settle(self, part: PartId, change: Callable[[Part], Part], step: Step) -> Part:
        with self._lock:
            found = self._outbox.get(part)
            if found is None:
                raise UnknownWork(f"there is no part {part}; its session may have been deleted")
            if found.part.state in (PartState.SENT, PartState.DEAD):
                raise AlreadySettled(f"part {part} is {found.part.state}")
            found.part = scrubbed(change(found.part))
            found.steps.append(replace(step, detail=on_one_line(step.detail)))
            return found.part

    def _erase(self, session: Session, now: datetime) -> None:
        for number, turn in [(n, turn) for n, turn in self._turns.items() if turn.session == session.id]:
            if turn.state != "done":
                self._settle_inbox(number, InboxState.REFUSED, "its session was deleted")
            del self._turns[number]
        for id_ in [id_ for id_, out in self._outbox.items() if out.session == session.id]:
            if self._outbox[id_].part.state is not PartState.SENT:
                del self._outbox[id_]
        self._questions.drop_of(session.id)
        self._endings.pop(session.id, None)
        self._entries[session.id] = []
        self._sessions[session.id] = tombstone(session, now)

    def _prune_session(self, session: Session, now: datetime, empty_before: datetime, old_before: datetime) -> Pruned:
        if session.end_reason is EndReason.DELETED:
            if session.updated_at >= old_before:
                return Pruned()
            del self._sessions[session.id], self._entries[session.id]
            return Pruned(forgotten=1)
        if self._has_running_turn(session.id):
            return Pruned()
        if is_empty(session, empty_before) and not self._has_unsent_part(session.id):
            self._erase(session, now)
            return Pruned(deleted=1)
        if is_disused(session, old_before):
            self._sessions[session.id] = replace(session, archived=True, updated_at=now)
            return Pruned(archived=1)
        return Pruned()

    def _forget_talk(self, session: Session, now: datetime, before: datetime) -> Pruned:
        is_busy = self._has_running_turn(session.id) or self._has_unsent_part(session.id)
        if session.important or session.end_reason is EndReason.DELETED or is_busy:
            return Pruned()
        entries = self._entries[session.id]
        old = {entry.seq for entry in entries if entry.at < before}
        if any(seq <= session.consolidated_through for seq in old):
            old |= {entry.seq for entry in entries if entry.seq == session.summary_seq}
        self._entries[session.id] = left = [entry for entry in entries if entry.seq not in old]
        if not left and is_over(session, before):
            self._erase(session, now)
            return Pruned(entries=len(old), deleted=1)
        if old:
            self._recount(session.id)
        return Pruned(entries=len(old))

    def _forget_work(self, before: datetime) -> int:
        at_work = (InboxState.WAITING, InboxState.RUNNING)
        given_up = (PartState.SENT, PartState.DEAD)
        items = [n for n, item in self._inbox.items() if item.received_at < before and item.state not in at_work]
        parts = [n for n, out in self._outbox.items() if out.born < before and out.part.state in given_up]
        for item in items:
            del self._inbox[item]
        events = [event for event, (n, at) in self._seen.items() if at < before and n not in self._inbox]
        for part in parts:
            del self._outbox[part]
        for event in events:
            del self._seen[event]
        return len(items) + len(parts) + len(events) + self._questions.forget(before) + self._people.forget(before)


def _cut(session: Session, entries: list[Entry], keep: int) -> list[Entry]:
    """The first so many, and the summary if all that it stands for is among them."""
    spared = spared_summary(session, entries[keep].seq) if keep < len(entries) else 0
    return entries[:keep] + [entry for entry in entries[keep:] if entry.seq == spared]


def _wordless(item: InboxItem, state: InboxState, reason: str | None) -> InboxItem:
    """Settled: neither what was said nor what people and places are called."""
    return replace(item, state=state, reason=reason, message=item.message.wordless)
