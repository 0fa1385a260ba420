"""The values that cross the store's port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from turngate.gateway.domain.ids import (
    EntryId,
    InboxId,
    PartId,
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    InboxState,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.session import (
    Opened,
    ResetPolicy,
    Session,
)
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.domain.usage import Payer, Spent

LONGEST_RAW = 64 * 1024
"""Bytes of the raw form of an event that could not be converted. What is longer is cut."""

MOST_UNREADABLE = 1000
"""How many such events are kept. The oldest make room."""

UNREADABLE_KEPT = timedelta(days=7)

LONGEST_PUT_OFF = timedelta(hours=1)
"""Nobody waits longer than this for another try to tell an agent of an ending."""

LOST_PREVIEW = ""
"""
In place of the id of a message: it was sent, and the answer that would have told its id never came.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An inbound message in the inbox. A duplicate names the row of the first copy."""

    id: InboxId
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """An inbound message and its state."""

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
    How to find the session of a key, reset it if due, or make it.

    `is_busy` is asked about background work before a reset, on the store's thread: it must be quick
    and must not call the store. If it raises, nothing is reset. The store knows running turns by
    itself.
    """

    key: SessionKey
    source: SessionSource
    owner: str | None = None
    policy: ResetPolicy = ResetPolicy()
    is_busy: Callable[[SessionId], bool] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    The inbox rows that become one turn, as transcript entries, and how much history the turn wants
    to see.

    `replacing` takes that entry out first, and all after it: what is asked again takes the place of
    what was asked. `repeatable`: may run once more if the daemon dies during it.
    """

    inbox: tuple[InboxId, ...]
    opening: Opening
    entries: tuple[Entry, ...]
    history: int
    replacing: EntryId | None = None
    repeatable: bool = True
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """
    A turn that may run: the recorded messages, and the history before them.

    `attempt` is 1 unless the daemon died during an earlier one. Then `repeatable` says whether it
    may run again, and `preview` is the message that shows its partial answer: LOST_PREVIEW if there
    may be one of unknown id. `alone_crashes`: how often the daemon crashed while it ran alone.
    """

    turn: TurnId
    opened: Opened
    user_entries: tuple[Entry, ...]
    history: tuple[Entry, ...]
    attempt: int
    repeatable: bool = True
    preview: str | None = None
    alone_crashes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    How a turn ended: entries, usage, and parts to send. A failure is a reason, with its notice as a
    part.

    `dead`: given up; an operator has to look at it. `refused`: the agent was not asked. Usage is
    charged to the `payer`. `weight`: the estimated size of the whole session in tokens.
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
        """The state of the messages after the turn."""
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
    """Which sessions to list, latest interaction first. None means all."""

    key: SessionKey | None = None
    owner: str | None = None
    active_within: timedelta | None = None
    archived: bool | None = None
    current_only: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRecord:
    """
    What is remembered of an account across restarts: its last message, and consecutive refusals.

    `behind_since`: it may have missed messages since then, and its catch-up is not complete. Both
    are times by the platform's clock, as far as its adapter knows it.
    """

    received_at: datetime | None = None
    behind_since: datetime | None = None
    refused: int = 0
    refused_at: datetime | None = None


class QuestionState(StrEnum):
    """
    A question with buttons: open -> answered, or closed because nothing waits for it any more.
    """

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
    """A question as it was asked, with the id of its part, and its state."""

    id: PartId
    part: Part
    state: QuestionState = QuestionState.OPEN
    option: int | None = None
    answered_by: InboxId | None = None
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """
    How much work is in progress, since when, and how much was given up. `damaged_rows` are set
    aside.
    """

    inbox_waiting: int = 0
    inbox_dead: int = 0
    outbox_waiting: int = 0
    outbox_dead: int = 0
    inbox_oldest: datetime | None = None
    outbox_oldest: datetime | None = None
    damaged_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened to a message or a part, and when."""

    at: datetime
    step: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The history of one message."""

    item: InboxItem
    session: SessionId | None
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The readable part of a transcript; `damaged` has the seq of rows whose checksum is wrong."""

    entries: tuple[Entry, ...]
    damaged: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An entry found by a search."""

    session: SessionId
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What a clean-up did; `entries` were older than the retention period."""

    deleted: int = 0
    archived: int = 0
    forgotten: int = 0
    entries: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(
            deleted=self.deleted + other.deleted,
            archived=self.archived + other.archived,
            forgotten=self.forgotten + other.forgotten,
            entries=self.entries + other.entries,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSession:
    """A session that has ended, and how often its agent was notified of it."""

    session: Session
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import brought in, and each unusable line with the reason."""

    session: SessionId | None
    entries: int
    problems: tuple[str, ...] = ()


PolicyOf = Callable[[str, ChatType], ResetPolicy]
"""The reset policy of a platform's chats of one type."""
