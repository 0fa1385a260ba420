"""
The adapter port: what a platform must be able to do. This module is the public home of these types
for authors of adapters.

An adapter has four members. Everything else is a capability: a protocol of its own that an adapter
implements or not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, runtime_checkable

from turngate.gateway.domain.agent_events import AgentEvent, Tool
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    Attachment,
    ChatType,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.clock import Moment
from turngate.gateway.domain.ports.finding import Finding as Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most `count` calls in any interval of `per`."""

    count: int
    per: timedelta

    def __post_init__(self) -> None:
        """Reject a rate that permits no call: it would block its chats for ever."""
        if self.count < 1 or self.per < timedelta(0):
            raise ValueError(f"a rate of {self.count} in {self.per} lets nothing pass")


class CallKind(StrEnum):
    """What a call to a platform is for."""

    SEND = "send"
    EDIT = "edit"
    BEGIN = "begin"
    GROW = "grow"
    FILE = "file"
    TYPING = "typing"
    REACTION = "reaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformCall:
    """A call that is about to be made, with the message that it changes."""

    kind: CallKind
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodClass:
    """Calls that a platform counts together, over all chats of an account."""

    name: str
    rate: Rate


ClassOf = Callable[[SessionSource, PlatformCall], MethodClass | None]


def in_no_class(target: SessionSource, call: PlatformCall) -> MethodClass | None:
    """Return None: for a platform that does not count by methods."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What a platform accepts.

    `measure` counts Markdown as the platform will count it. `edit_every` is the interval of
    previews, a second if zero. The rates hold for sends, edits and typing together; `per_group`
    replaces `per_chat` where more than one user can write. `class_of` names the calls that have a
    rate of their own beside these.
    """

    largest_part: int
    measure: Callable[[str], int]
    edit_every: timedelta
    per_account: Rate | None = None
    per_chat: Rate | None = None
    per_group: Rate | None = None
    class_of: ClassOf = in_no_class

    def rate_in(self, target: SessionSource) -> Rate | None:
        """Return the rate of a chat."""
        # A channel or thread counts as a group: more than one user can write there.
        return (
            self.per_chat
            if target.chat_type is ChatType.DM or self.per_group is None
            else self.per_group
        )


# Returns when the message is stored; see `Adapter.run` for what may be acknowledged.
Receive = Callable[[InboundMessage], Awaitable[None]]

CatchUpChats = Callable[[], Awaitable[Sequence[SessionSource]]]
"""
Where an account may have been written to while nobody listened: its conversations, newest first,
then what the config allows. A person there has no chat if none is known yet; a guild or a team has
only its scope.
"""


async def no_chats() -> Sequence[SessionSource]:
    """Return nothing: for an account without chats to catch up."""
    return ()


class Adapter(Protocol):
    """One account on one platform."""

    @property
    def platform(self) -> str:
        """The platform's name, as in session keys and in the config."""

    @property
    def limits(self) -> Limits:
        """The limits of the platform; read once per reply."""

    async def run(self, receive: Receive) -> None:
        """
        Receive until cancelled.

        When `await receive(m)` returns, the message is stored: only then may it be acknowledged to
        the platform. If it raises, the message is not stored and must not be acknowledged; except
        for Refused, which means that it never will be: acknowledge it and continue.
        """

    async def send(self, part: Part) -> Sent:
        """
        Send one part, once.

        A part without an id is a preview: it is not in the outbox and will be edited. Raises
        Throttled or NotSent (it certainly did not arrive), Unreachable (unknown), Undeliverable or
        Unauthorized.
        """


@runtime_checkable
class EditsMessages(Protocol):
    """Can replace the text of a message it sent."""

    async def edit(self, part: Part, message_id: str) -> Sent:
        """
        Make `message_id` show `part`, with its buttons or without any. An edit without a change is
        success.

        Same errors as `send`; Undeliverable if the message is gone or can no longer be changed.
        """


@runtime_checkable
class ShowsDrafts(Protocol):
    """Can show a draft in direct chats. It vanishes by itself and is not a message."""

    async def show_draft(self, part: Part) -> None:
        """
        Show a draft in place of the turn's previous one, for half a minute at most. Same errors as
        `send`.
        """


@runtime_checkable
class StreamsNatively(Protocol):
    """
    Has the platform's own way to show an answer while it grows, in some chats.

    It begins, it grows, and `edit` ends it with the answer, also after a crash in between.
    """

    def can_stream(self, target: SessionSource) -> bool:
        """Return whether a chat supports it, as far as is known."""

    async def begin(self, part: Part, tools: Sequence[Tool]) -> Sent:
        """
        Begin a message with this text, or none, and these tools. Same errors as `send`;
        Undeliverable: use an edited message.
        """

    async def grow(self, part: Part, message_id: str, tools: Sequence[Tool]) -> None:
        """
        Extend the message to the part's text, which begins with what it shows already, and update
        the tools.

        Same errors as `send`; Undeliverable if it can only be edited from now on.
        """


@runtime_checkable
class FollowsTurns(Protocol):
    """
    Has the user's screen open (browser, terminal) and shows a turn event by event.

    What is shown here is a preview; the answer itself comes through `send`. Called on the event
    loop, so nothing here may block.
    """

    def turn_began(self, target: SessionSource, turn: TurnId, messages: Sequence[str]) -> None:
        """The messages with these ids are being answered."""

    def turn_event(self, target: SessionSource, turn: TurnId, event: AgentEvent) -> None:
        """The agent reported an event."""

    def settled(self, target: SessionSource, messages: Sequence[str]) -> None:
        """Nothing more comes for these messages: everything was sent or has failed."""


@runtime_checkable
class ShowsTyping(Protocol):
    """Can show a typing indicator."""

    async def show_typing(self, target: SessionSource) -> None:
        """Show it for a few seconds; called repeatedly while the turn runs."""


@runtime_checkable
class ShowsStatus(Protocol):
    """Shows a typing indicator in some chats only, and has to remove it."""

    def has_status_in(self, target: SessionSource) -> bool:
        """Return whether `show_typing` shows anything in this chat."""

    async def hide_typing(self, target: SessionSource) -> None:
        """Called once at the end of a turn, if it was shown."""


@runtime_checkable
class Reacts(Protocol):
    """Can put a reaction on a message."""

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """Add one reaction; a missing message is not an error."""


@runtime_checkable
class AsksWithButtons(Protocol):
    """Can show a question with buttons."""

    async def ask(self, part: Part) -> Sent:
        """
        Send a part with its buttons, once.

        A press arrives as a message of kind BUTTON with the nonce as its text. Same errors as
        `send`.
        """


@runtime_checkable
class SendsFiles(Protocol):
    """Can send a file."""

    async def send_file(self, part: Part) -> Sent:
        """
        Send the part's file with its text as caption.

        Its path was checked and may be read; its name is only data. Same errors as `send`.
        """


@runtime_checkable
class FetchesFiles(Protocol):
    """Can download attachments."""

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """
        Yield the bytes in chunks. The core writes them and stops at its limit.

        Raises Refused if the platform does not provide the file, Throttled or Unreachable if a
        retry may succeed. The reason is shown to users.
        """


@runtime_checkable
class LocatesChats(Protocol):
    """
    Can tell what kind of chat an id means, so that it can be written to before a message came from
    there.
    """

    def source_of(self, chat: str, thread: str | None) -> SessionSource:
        """
        Return the source as a message from there would have it, without a user. Asks nothing of the
        platform.
        """


@runtime_checkable
class CatchesUp(Protocol):
    """Can read messages that were missed while offline (backfill)."""

    def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        """
        Yield everything since then, oldest first, bounded. Duplicates are expected. `since` is by
        the platform's clock, if the adapter `TellsTime`.

        It is called before `run`, and again while `run` receives. What takes long may be left to
        the second call: messages count as missed until that has returned. Raises GapRemains at the
        end if it could not reach back far enough, or had to leave anything out.
        """


@runtime_checkable
class TellsTime(Protocol):
    """Knows its platform's time of day, in which messages are dated. Ours may be wrong."""

    async def platform_time(self) -> datetime:
        """
        Return it, asking the platform if it has not answered yet. Raises Retryable or Unauthorized
        if it does not answer.
        """


@runtime_checkable
class ReadsAgain(Protocol):
    """Can convert an event that was set aside as unreadable, after an upgrade."""

    async def read_again(self, raw: str) -> InboundMessage | None:
        """
        Convert the raw event of an `UNREADABLE` message. None if there is nothing in it for the
        bot. Raises ValueError if it is still unreadable.
        """


@runtime_checkable
class TellsProgress(Protocol):
    """
    Knows when its platform last answered: a poll, a heartbeat, a ping. A quiet chat says nothing
    about that.
    """

    @property
    def progress(self) -> Moment | None:
        """The time of the last answer; None before the first."""

    @property
    def stale_after(self) -> timedelta:
        """A longer pause means that no messages would arrive any more."""


@runtime_checkable
class FindsSent(Protocol):
    """Can tell whether a part whose delivery is unknown has arrived."""

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """Return the message that carries this part, or None if there is certainly none."""


@runtime_checkable
class FindsPreviews(Protocol):
    """Can find a preview that may or may not have been sent."""

    async def find_preview(self, part: Part) -> Sent | None:
        """Return the message that shows this part's turn, or None if there is certainly none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """A command as offered to users, or an alias that is understood but not offered."""

    name: str
    summary: str
    argument: str = ""
    offered: bool = True
