"""
What outlives the process: the store's seam, and the values that cross it.

The verbs are those of the domain, each atomic; how they are kept is a store's own business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from turngate.gateway.domain.messages import (
    Block,
    ChatType,
    EndReason,
    Entry,
    EntryId,
    InboundMessage,
    InboxId,
    InboxState,
    Opened,
    Part,
    PartId,
    PartState,
    ResetPolicy,
    Sent,
    Session,
    SessionId,
    SessionKey,
    SessionSource,
    Spent,
    TurnId,
)
from turngate.gateway.domain.pairing_records import People
from turngate.gateway.domain.usage import LAST_DAY, By, Payer, Used

LONGEST_PUT_OFF = timedelta(hours=1)
"""Nobody waits longer than this for another try to tell an agent of an ending."""

LOST_PREVIEW = ""
"""In place of the id of a message: it was sent, and the answer that would have told its id never came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An inbound message is in the inbox. A duplicate names the row that the first copy made."""

    id: InboxId
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """An inbound message and how far it has come."""

    id: InboxId
    key: SessionKey
    message: InboundMessage
    state: InboxState
    received_at: datetime
    attempts: int = 0
    reason: str | None = None
    turn: TurnId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """
    What it takes to find the session of a key, to reset it if that is due, or to make it.

    `is_busy` is asked about background work before a reset, on the store's own thread: it must be quick and must not
    call the store. If it raises, nothing is reset. Running turns the store knows by itself.
    """

    key: SessionKey
    source: SessionSource
    owner: str | None = None
    policy: ResetPolicy = ResetPolicy()
    is_busy: Callable[[SessionId], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    The inbox rows that become one turn, as transcript entries, and how much history the turn wants to see.

    `by_person` is False for scheduled work: it must not keep an idle session alive. `replacing` takes that entry out
    first, and all after it: what is asked again takes the place of what was asked. `repeatable`: may run once more if
    the daemon dies during it.
    """

    inbox: tuple[InboxId, ...]
    opening: Opening
    entries: tuple[Entry, ...]
    history: int
    by_person: bool = True
    replacing: EntryId | None = None
    repeatable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """
    A turn that may run: what was said, and the history before it.

    `attempt` is 1 unless the daemon died during an earlier one. Then `repeatable` says whether it may run again, and
    `preview` is the message that shows what it had said by then: LOST_PREVIEW if there may be one that nobody can find.
    """

    turn: TurnId
    opened: Opened
    said: tuple[Entry, ...]
    history: tuple[Entry, ...]
    attempt: int
    repeatable: bool = True
    preview: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    How a turn ended: what was said, used and goes out. A failure is a reason, with its notice as a part.

    `dead`: failed once and for all; somebody has to look at it. `refused`: the agent was not even asked. What was used
    is charged to the `payer`. `weight`: about how many tokens the whole conversation has now, for whoever cares.
    """

    entries: tuple[Entry, ...] = ()
    spent: Spent = Spent()
    parts: tuple[Part, ...] = ()
    failure: str | None = None
    dead: bool = False
    refused: bool = False
    payer: Payer | None = None
    weight: int = 0

    @property
    def state(self) -> InboxState:
        """What becomes of the messages that the turn was about."""
        if self.failure is None:
            return InboxState.DONE
        return (
            InboxState.DEAD
            if self.dead
            else InboxState.REFUSED
            if self.refused
            else InboxState.FAILED
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to list, newest interaction first. None asks for all."""

    key: SessionKey | None = None
    owner: str | None = None
    active_within: timedelta | None = None
    archived: bool | None = None
    current_only: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRecord:
    """
    What is remembered of an account across restarts: its last message, and how often it was refused in a row.

    `behind_since`: it may have missed something since then, which has not been read again to the end.
    """

    received_at: datetime | None = None
    behind_since: datetime | None = None
    refused: int = 0
    refused_at: datetime | None = None


class QuestionState(StrEnum):
    """A question with buttons: open -> answered, or closed because nobody waits for it any more."""

    OPEN = "open"
    ANSWERED = "answered"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One option of a question."""

    question: PartId
    option: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as it was asked, with the number of its part, and what became of it."""

    id: PartId
    part: Part
    state: QuestionState = QuestionState.OPEN
    option: int | None = None
    answered_by: InboxId | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How much work there is: on its way, since when the oldest of that is, and given up."""

    inbox_waiting: int = 0
    inbox_dead: int = 0
    outbox_waiting: int = 0
    outbox_dead: int = 0
    inbox_oldest: datetime | None = None
    outbox_oldest: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened to a message or a part, and when."""

    at: datetime
    step: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One message's life."""

    item: InboxItem
    session: SessionId | None
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What could be read of a transcript; `damaged` has the seq of rows that are no longer what was written."""

    entries: tuple[Entry, ...]
    damaged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An entry that was searched for."""

    session: SessionId
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What a clean-up did; `entries` were said too long ago to be kept."""

    deleted: int = 0
    archived: int = 0
    forgotten: int = 0
    entries: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        """Both together."""
        return Pruned(
            deleted=self.deleted + other.deleted,
            archived=self.archived + other.archived,
            forgotten=self.forgotten + other.forgotten,
            entries=self.entries + other.entries,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A session that is over, and how often its agent was about to be told."""

    session: Session
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import brought in, and each line it could not use with the reason."""

    session: SessionId | None
    entries: int
    problems: tuple[str, ...] = ()


PolicyOf = Callable[[str, ChatType], ResetPolicy]
"""The reset policy of a platform's chats of one type."""


class Store(People, Protocol):
    """
    Everything that outlives the process. Each verb is atomic and durable when it returns, but for `prune`, which goes
    in steps so that no turn has to wait for it.

    Callable from any thread that runs an event loop, and from any number of tasks. A write that cannot be made raises
    StoreError and has changed nothing; a request that makes no sense raises Refused. Verbs that name a deleted session
    raise UnknownSession: a late callback writes nothing and brings nothing back.
    """

    async def accept(
        self, message: InboundMessage, key: SessionKey, *, choosing: Choice | None = None
    ) -> Accepted:
        """
        Put a message in the inbox unless one of its event ids was seen. Called before the platform is told.

        With `choosing` it answers that question, unless it is no longer open.
        """

    async def turn_away(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        """Leave a row that says why nobody answers: ids, reason and time, no words and no names. Never repeated."""

    async def amend(self, inbox: InboxId, text: str) -> bool:
        """Its sender has put a message that still waits into other words. False if it no longer waits."""

    async def inbox(
        self, *states: InboxState, limit: int = 1000, with_settled: bool = True
    ) -> list[InboxItem]:
        """
        Messages in these states, oldest first. Called at start to go on with what was left.

        Without what is settled only those are found that something can still be done about.
        """

    async def open(self, opening: Opening) -> Opened:
        """Find the current session of a key, reset it first if that is due, or make it. Moves no other clock."""

    async def begin(self, claim: Claim) -> Begun:
        """
        Start a turn: open its session, append the user's entries, read the history before them.

        A claim whose rows already belong to a turn that died with its daemon is that turn once more: nothing is
        appended again. AlreadySettled if any of the rows was finished before, or is being worked on in this very run.
        """

    async def join(self, turn: TurnId, inbox: InboxId, entry: Entry) -> None:
        """
        A message that waits becomes one of those that a running turn answers.

        AlreadySettled if the turn is over, or if the message belongs to another one or to none any more.
        """

    async def finish(self, turn: TurnId, outcome: Outcome) -> tuple[Part, ...]:
        """End a turn: transcript, totals, outbox and inbox in one transaction. Returns the parts with their ids."""

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        """
        Something was used for a session outside its turns.

        If the session was deleted meanwhile its payer is charged all the same: the money is gone.
        """

    async def usage(self, by: By, *, since: str = "", until: str = LAST_DAY) -> list[Used]:
        """Sums from one day to the other, ordered by what they are told apart by. Deleted sessions are in them."""

    async def answer(
        self, inbox: InboxId, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        """
        End a message that needs no turn (a command): transcript, outbox and inbox in one transaction. No interaction.

        AlreadySettled if it was finished before or belongs to a turn.
        """

    async def tell(
        self, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        """Say something nobody asked for: transcript and outbox in one transaction. No interaction."""

    async def ask(self, turn: TurnId, *parts: Part) -> tuple[Part, ...]:
        """
        Say something in the middle of a turn. A part with a question makes it one, whichever verb puts it out.

        When nobody waits for its answer any more, a question that has not left yet is not asked.
        """

    async def questions(self) -> list[Asked]:
        """Those that are open, oldest first, expired ones included until they are pruned."""

    async def answered(self, inbox: InboxId) -> Asked | None:
        """The question that this message answered."""

    async def say(self, *parts: Part) -> tuple[Part, ...]:
        """Put words into the outbox that belong to no session: said to somebody who has none."""

    async def account(self, platform: str, account: str) -> AccountRecord:
        """What is remembered of an account. `received_at` may lag behind by some seconds."""

    async def record_refused(self, platform: str, account: str) -> AccountRecord:
        """The platform refused our credentials once more."""

    async def record_welcome(self, platform: str, account: str) -> None:
        """The platform took our credentials: earlier refusals no longer count."""

    async def record_behind(self, platform: str, account: str, since: datetime) -> None:
        """
        What was said since then is being read again.

        Messages that are read again move `received_at` too, so a reading that breaks off must be remembered.
        """

    async def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        """Whatever was said until then has been received."""

    async def refuse(
        self, inbox: Sequence[InboxId], reason: str, *, session: SessionId, parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        """
        End waiting messages without an answer, for a reason that the parts tell. Their words stay for `requeue`.

        What no longer waits is left as it is; if none of them does, nothing is said.
        """

    async def record_tool(self, turn: TurnId) -> None:
        """The agent showed a tool at work: from now on this turn must not run again. Committed before it is shown."""

    async def record_preview(self, turn: TurnId, message_id: str) -> None:
        """
        The message in which a turn is being shown: the answer will take its place, after a crash too.

        LOST_PREVIEW is recorded before it is sent, because after that nobody can know whether it is there.
        """

    async def requeue(self, inbox: InboxId) -> InboxItem:
        """Take a message that failed, died or was refused with its words back to work. Refused if it has no words."""

    async def drop(self, inbox: InboxId, reason: str) -> None:
        """Give up a message that waits, failed or died. Refused while it runs or once it was answered."""

    async def requeue_part(self, part: PartId) -> Part:
        """Take a part that failed or died back to work."""

    async def drop_part(self, part: PartId, reason: str) -> None:
        """Give up a part that waits, failed or died."""

    async def depth(self) -> Depth:
        """How much work there is; reads no message."""

    async def find(self, message_id: str) -> list[InboxId]:
        """The inbox rows of messages that their platform calls so, newest first."""

    async def trace(self, inbox: InboxId) -> Trace:
        """What happened to a message, step by step. UnknownWork if there is no such row any more."""

    async def outbox(self, *states: PartState, limit: int = 1000) -> list[Part]:
        """Parts in these states, oldest first. Called at start and by delivery."""

    async def record_sending(self, part: PartId) -> Part:
        """Committed before a part leaves, because after it nobody can know. Counts the attempt."""

    async def record_sent(self, part: PartId, sent: Sent) -> None:
        """The platform took it."""

    async def record_unsent(
        self, part: PartId, reason: str, *, retry_at: datetime | None, in_doubt: bool = False
    ) -> None:
        """
        The platform did not take it: to be tried again at a time, or never (a dead letter).

        `in_doubt`: it may have. The part stays `sending`, so that the next try looks for it first.
        """

    async def reset(self, key: SessionKey, *, title: str | None = None) -> Session:
        """End the current session on request and start a fresh one under the same key."""

    async def switch(self, key: SessionKey, target: SessionId) -> Session:
        """Point a key at an earlier session of its own. Pointing it where it points changes nothing."""

    async def move_chat(
        self, old: SessionSource, chat_id: str, key_of: Callable[[SessionSource], SessionKey]
    ) -> int:
        """
        A chat has another id from now on: its sessions get that address and the keys that belong to it.

        Where somebody was quicker and the new key has a session already, the old one can be resumed. Returns how many.
        """

    async def end_if_due(self, session: SessionId, opening: Opening) -> EndReason | None:
        """For the sweep: end a current session whose reset is due, before the next message comes."""

    def due(self, policy_of: PolicyOf) -> AsyncIterator[Session]:
        """
        Current sessions whose reset is due by the policy of their platform and chat type, in no order of note.

        Reads those and no others, a page at a time. Whether something is at work in them is not looked at.
        """

    async def endings(self, *, limit: int = 100) -> list[Ending]:
        """
        Sessions that ended, by whatever verb, with something said in them, and of which their agent is to hear now.

        One that is resumed or deleted before that is none of them.
        """

    async def record_telling(self, session: SessionId, *, retry_at: datetime) -> bool:
        """Committed before an agent is told of an ending. Counts the attempt. False: there is nothing to tell."""

    async def record_told(self, session: SessionId) -> None:
        """Its agent has heard of the ending, or never will."""

    async def session(self, session: SessionId) -> Session:
        """One session."""

    async def current(self, key: SessionKey) -> Session | None:
        """The session a key points at, or None."""

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> list[Session]:
        """A listing; reads no transcript."""

    async def ever_another(self, session: SessionId) -> bool:
        """Whether there has ever been any session but this one, deleted ones included."""

    async def rename(self, session: SessionId, title: str | None) -> None:
        """Set or clear the title. Not activity."""

    async def archive(self, session: SessionId, *, archived: bool = True) -> None:
        """Put a session away, or take it back. Not activity."""

    async def mark_important(self, session: SessionId, *, important: bool = True) -> None:
        """Spare a session from clean-up, or no longer. Not activity."""

    async def set_goal(self, session: SessionId, goal: str | None) -> None:
        """A goal that the agent is shown until it is completed."""

    async def choose_agent(self, session: SessionId, agent: str | None) -> None:
        """The agent for this session alone."""

    async def delete(self, session: SessionId) -> None:
        """Remove a session and everything that belongs to it. Its running turn can no longer finish."""

    async def prune(
        self,
        *,
        empty_after: timedelta,
        archive_after: timedelta,
        forget_after: timedelta,
        keep: timedelta | None = None,
    ) -> Pruned:
        """
        Clean up by last interaction: delete empty sessions, archive old ones, forget settled work and its dedupe ids.

        What was said longer ago than `keep` is deleted, by whole days if it is a day or more, with the summaries that
        stand for any of it; so are sessions in which nothing is left. Important and busy sessions are spared.
        """

    async def append(self, session: SessionId, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Add entries outside a turn (command output, deliveries); no interaction. Returns them as stored."""

    async def transcript(
        self, session: SessionId, *, last: int | None = None, with_archived: bool = False
    ) -> Transcript:
        """Entries in order; `last` bounds the reading. A damaged row never hides the rest."""

    async def edit_entry(
        self, session: SessionId, entry: EntryId, content: tuple[Block, ...]
    ) -> Entry:
        """Change what one entry says; its id, place and time stay."""

    async def delete_entry(self, session: SessionId, entry: EntryId) -> None:
        """Take one entry out."""

    async def truncate(self, session: SessionId, keep: int) -> int:
        """
        Keep the first `keep` live entries; returns how many really remain. Negative is refused.

        A summary stays as long as all that it stands for does.
        """

    async def replace(self, session: SessionId, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Put these in place of all live entries, atomically. Entries that bring an id keep it."""

    async def clear(self, session: SessionId) -> None:
        """Drop all entries, the consolidation mark and the summary with them."""

    async def consolidate(
        self, session: SessionId, through: int, summary: Entry | None = None
    ) -> None:
        """Mark everything up to sequence number `through` as summarised; 0 takes the mark back."""

    async def summarise(
        self, session: SessionId, summary: Entry, of: Sequence[Entry], *, mark: int
    ) -> bool:
        """
        Let a summary stand for these entries, which are all there are from the first of them to the last.

        False, and nothing has changed, if they or the mark are no longer what they were when they were read.
        """

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Entries that contain all words of the query, newest first, archived ones included."""

    def export(self, session: SessionId) -> AsyncIterator[str]:
        """The session as JSON lines: its own line first, then one per entry."""

    async def import_(self, lines: Iterable[str | bytes]) -> Imported:
        """Read an export: keep every readable line, report the rest. Current only where its key has no session."""

    async def probe(self) -> None:
        """Write something that means nothing, as durably as anything else. Raises StoreError if that cannot be done."""

    async def close(self) -> None:
        """Finish what was handed over, then let go of the files."""
