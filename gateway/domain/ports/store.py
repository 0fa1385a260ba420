"""The store port: atomic verbs of the domain, not tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

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
from turngate.gateway.domain.pairing_records import People
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


class Store(People, Protocol):
    """
    Everything that outlives the process.

    Each verb is atomic and durable when it returns, except `prune`, which works in steps so that no
    turn waits for it. Callable from any thread that runs an event loop, and from any number of
    tasks. A write that fails raises StoreError and has changed nothing; an invalid request raises
    Refused. Verbs that name a deleted session raise UnknownSession: a late callback changes
    nothing.
    """

    async def accept(
        self, message: InboundMessage, key: SessionKey, *, choosing: Choice | None = None
    ) -> Accepted:
        """
        Put a message into the inbox unless one of its event ids was seen. Called before the
        platform is acknowledged.

        With `choosing` it answers that question, unless it is no longer open. Raises
        MalformedRecord for a message with a value of the wrong type, which could not be read again.
        """

    async def reject(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        """
        Record why a message is not answered: ids, reason and time, no text and no names.
        Deduplicated.
        """

    async def set_aside(self, message: InboundMessage, key: SessionKey, reason: str) -> Accepted:
        """
        Store an event that could not be converted as a dead letter, with its raw form. Deduplicated
        and bounded: see LONGEST_RAW, MOST_UNREADABLE and UNREADABLE_KEPT.
        """

    async def accept_again(
        self,
        inbox: InboxId,
        message: InboundMessage,
        key: SessionKey,
        *,
        choosing: Choice | None = None,
    ) -> Accepted:
        """
        Put the message that an event set aside has become into the inbox, in the place of its dead
        letter.

        AlreadySettled if it is none any more.
        """

    async def amend(self, inbox: InboxId, text: str) -> bool:
        """
        Replace the text of a waiting message by its sender's edit. False if it no longer waits.
        """

    async def inbox(
        self, *states: InboxState, limit: int = 1000, with_settled: bool = True
    ) -> list[InboxItem]:
        """
        Return messages in these states, oldest first. Called at start to resume what was left.

        Without settled ones only those are returned that can still be acted on.
        """

    async def open(self, opening: Opening) -> Opened:
        """
        Find the current session of a key, reset it first if due, or make it. Changes no other time.
        """

    async def begin(self, claim: Claim) -> Begun:
        """
        Begin a turn: open its session, append the user's entries, read the history before them.

        A claim whose rows belong to a turn that died with its daemon is that turn again: nothing is
        appended twice. AlreadySettled if any of the rows was finished before, or is being worked on
        in this run.
        """

    async def count_crash(self, run: str | None) -> None:
        """
        Count the crash of that run of the daemon against the turn that ran alone in it, if one did.

        None: the run did not crash. Called once at the start, before the first turn begins.
        """

    async def end_alone(self, turn: TurnId) -> None:
        """Record that a turn does not run alone any more: a crash says nothing about it now."""

    async def join(self, turn: TurnId, inbox: InboxId, entry: Entry) -> None:
        """
        Add a waiting message to a running turn.

        AlreadySettled if the turn is over, or if the message belongs to another one or to none any
        more.
        """

    async def finish(self, turn: TurnId, outcome: Outcome) -> tuple[Part, ...]:
        """
        End a turn: transcript, totals, outbox and inbox in one transaction. Returns the parts with
        their ids.
        """

    async def charge(self, session: SessionId, spent: Spent, payer: Payer) -> None:
        """
        Charge usage outside a turn.

        If the session was deleted in between, its payer is charged anyway: the cost was incurred.
        """

    async def usage(self, by: By, *, since: str = "", until: str = LAST_DAY) -> list[Used]:
        """Return sums from one day to another, ordered by group. Deleted sessions are included."""

    async def answer(
        self, inbox: InboxId, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        """
        End a message that needs no turn (a command): transcript, outbox and inbox in one
        transaction. Not an interaction.

        AlreadySettled if it was finished before or belongs to a turn.
        """

    async def tell(
        self, session: SessionId, *, entries: Sequence[Entry], parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        """Send something unasked: transcript and outbox in one transaction. Not an interaction."""

    async def ask(self, turn: TurnId, *parts: Part) -> tuple[Part, ...]:
        """
        Send something during a turn. A part with a question makes it one, whichever verb stores it.

        An unsent question is not asked once nothing waits for its answer any more.
        """

    async def questions(self) -> list[Asked]:
        """Return the open questions, oldest first, including expired ones until they are pruned."""

    async def close_question(self, question: PartId, *parts: Part) -> tuple[Part, ...]:
        """
        Close a question that nothing waits for any more, and send what is said about it.

        If it is no longer open, nothing is sent.
        """

    async def answered(self, inbox: InboxId) -> Asked | None:
        """Return the question that this message answered."""

    async def say(self, *parts: Part) -> tuple[Part, ...]:
        """Put a text into the outbox that belongs to no session: for users who have none."""

    async def account(self, platform: str, account: str) -> AccountRecord:
        """
        Return what is remembered of an account. `received_at` is the time of its newest message by
        the platform's clock, and may lag by some seconds.
        """

    async def record_refused(self, platform: str, account: str) -> AccountRecord:
        """Count a refusal of our credentials."""

    async def record_welcome(self, platform: str, account: str) -> None:
        """Reset the count: the platform accepted our credentials."""

    async def record_behind(self, platform: str, account: str, since: datetime) -> None:
        """
        Record that a catch-up from this time is running.

        Messages that are read again move `received_at` too, so an interrupted catch-up must be
        remembered. A later `received_at` is set to this time: it was wrong.
        """

    async def record_caught_up(self, platform: str, account: str, until: datetime) -> None:
        """Record that everything until then has been received."""

    async def refuse(
        self, inbox: Sequence[InboxId], reason: str, *, session: SessionId, parts: Sequence[Part]
    ) -> tuple[Part, ...]:
        """
        End waiting messages without an answer, for a reason that the parts state. Their text stays
        for `requeue`.

        Messages that no longer wait are skipped; if none waits, nothing is sent.
        """

    async def record_tool(self, turn: TurnId) -> None:
        """
        Record that the agent used a tool: from now on this turn must not run again. Committed
        before it is shown.
        """

    async def record_preview(self, turn: TurnId, message_id: str) -> None:
        """
        Record the message that shows a turn: the answer will replace it, after a crash too.

        LOST_PREVIEW is recorded before it is sent, because after a crash its delivery is unknown.
        """

    async def requeue(self, inbox: InboxId) -> InboxItem:
        """Requeue a message that failed, died or was refused. Refused if its text was not kept."""

    async def drop(self, inbox: InboxId, reason: str) -> None:
        """
        Give up a message that waits, failed or died. Refused while it runs or once it was answered.
        """

    async def requeue_part(self, part: PartId) -> Part:
        """Requeue a part that failed or died."""

    async def drop_part(self, part: PartId, reason: str) -> None:
        """Give up a part that waits, failed or died."""

    async def depth(self) -> Depth:
        """Return how much work there is; reads no message."""

    async def find(self, message_id: str) -> list[InboxId]:
        """Return the inbox rows with this platform message id, newest first."""

    async def trace(self, inbox: InboxId) -> Trace:
        """Return what happened to a message, step by step. UnknownWork if the row is gone."""

    async def outbox(self, *states: PartState, limit: int = 1000) -> list[Part]:
        """Return parts in these states, oldest first. Called at start and by delivery."""

    async def record_sending(self, part: PartId) -> Part:
        """
        Committed before a part is sent, because after a crash its delivery is unknown. Counts the
        attempt.
        """

    async def record_sent(self, part: PartId, sent: Sent) -> None:
        """Record that the platform accepted a part."""

    async def record_unsent(
        self, part: PartId, reason: str, *, retry_at: datetime | None, in_doubt: bool = False
    ) -> None:
        """
        Record that a part was not sent: to be retried at a time, or never (a dead letter).

        `in_doubt`: it may have arrived. The part stays `sending`, so that the next attempt looks
        for it first.
        """

    async def reset(self, key: SessionKey, *, title: str | None = None) -> Session:
        """End the current session on request and start a new one under the same key."""

    async def switch(self, key: SessionKey, target: SessionId) -> Session:
        """Make an earlier session of a key current. Idempotent."""

    async def move_chat(
        self, old: SessionSource, chat_id: str, key_of: Callable[[SessionSource], SessionKey]
    ) -> int:
        """
        Give the sessions of a chat its new id and the keys that belong to it.

        Where the new key has a session already, the old one can be resumed. Returns how many were
        moved.
        """

    async def end_if_due(self, session: SessionId, opening: Opening) -> EndReason | None:
        """End a current session whose reset is due, before the next message. Used by the sweep."""

    def due(self, policy_of: PolicyOf) -> AsyncIterator[Session]:
        """
        Yield current sessions whose reset is due by the policy of their platform and chat type,
        unordered.

        Reads only those, a page at a time. Running work is not considered.
        """

    async def endings(self, *, limit: int = 100) -> list[EndedSession]:
        """
        Return ended sessions with content whose agent is to be notified now.

        One that is resumed or deleted before that is left out.
        """

    async def record_telling(self, session: SessionId, *, retry_at: datetime) -> bool:
        """
        Committed before an agent is notified of an ended session. Counts the attempt. False:
        nothing to notify.
        """

    async def record_told(self, session: SessionId) -> None:
        """Record that the agent was notified, or never will be."""

    async def session(self, session: SessionId) -> Session:
        """Return one session, ended or not. Raises UnknownSession."""

    async def current(self, key: SessionKey) -> Session | None:
        """Return the session a key points at, or None."""

    async def sessions(self, wanted: SessionFilter = SessionFilter()) -> list[Session]:
        """List sessions; reads no transcript."""

    async def rename(self, session: SessionId, title: str | None) -> None:
        """Set or clear the title. Not an interaction."""

    async def archive(self, session: SessionId, *, archived: bool = True) -> None:
        """Archive a session, or bring it back. Not an interaction."""

    async def mark_important(self, session: SessionId, *, important: bool = True) -> None:
        """Exempt a session from the clean-up, or no longer. Not an interaction."""

    async def set_goal(self, session: SessionId, goal: str | None) -> None:
        """Set a goal that the agent is shown until it is completed."""

    async def choose_agent(self, session: SessionId, agent: str | None) -> None:
        """Choose the agent of this session."""

    async def delete(self, session: SessionId) -> None:
        """
        Delete a session and everything that belongs to it. Its running turn can no longer finish.
        """

    async def prune(
        self,
        *,
        empty_after: timedelta,
        archive_after: timedelta,
        forget_after: timedelta,
        keep: timedelta | None = None,
    ) -> Pruned:
        """
        Clean up by last interaction: delete empty sessions, archive old ones, forget settled work
        and its dedupe ids.

        Text older than `keep` is deleted, in whole days if it is a day or more, with the summaries
        of it; so are sessions without text. Important and busy sessions are spared.
        """

    async def transcript(
        self, session: SessionId, *, last: int | None = None, with_archived: bool = False
    ) -> Transcript:
        """
        Return entries in order; `last` limits the reading. A damaged row does not hide the rest.
        """

    async def edit_entry(
        self, session: SessionId, entry: EntryId, content: tuple[Block, ...]
    ) -> Entry:
        """Change the text of one entry; its id, position and time stay."""

    async def delete_entry(self, session: SessionId, entry: EntryId) -> None:
        """Delete one entry."""

    async def truncate(self, session: SessionId, keep: int) -> int:
        """
        Keep the first `keep` live entries; returns how many remain. Negative is refused.

        A summary stays as long as everything it covers does.
        """

    async def summarise(
        self, session: SessionId, summary: Entry, of: Sequence[Entry], *, mark: int
    ) -> bool:
        """
        Let a summary replace these entries, which are consecutive.

        False, without a change, if they or the mark have changed since they were read.
        """

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """
        Return entries that contain all words of the query, newest first, archived ones included.
        """

    def export(self, session: SessionId) -> AsyncIterator[str]:
        """Yield the session as JSON lines: its own line first, then one per entry."""

    async def import_(self, lines: Iterable[str | bytes]) -> Imported:
        """
        Read an export: keep every readable line, report the others. Current only if its key has no
        session.
        """

    async def probe(self) -> None:
        """Write a meaningless row as durably as any other. Raises StoreError if that fails."""

    async def close(self) -> None:
        """Finish pending writes, then close the files."""
