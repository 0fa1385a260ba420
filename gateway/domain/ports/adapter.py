"""
The seams: what a platform, an agent and a clock must be able to do. The store's has a file of its own, `storing.py`.

An adapter has four members. Everything more is a capability: a protocol of its own that an adapter implements or not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Protocol, TypeGuard, TypeVar, runtime_checkable

from turngate.gateway.domain.messages import (
    AgentEvent,
    Attachment,
    ChatType,
    InboundMessage,
    Part,
    Sent,
    SessionEnded,
    SessionSource,
    Tool,
    Turn,
    TurnId,
)

T = TypeVar("T")


def can(whom: object, capability: type[T]) -> TypeGuard[T]:
    """Whether an adapter or an agent has a capability: for what is asked with every turn. It has it for life."""
    protocol: object = capability
    return _can(whom, protocol)


@lru_cache(maxsize=1024)
def _can(whom: object, capability: object) -> bool:
    # Python 3.11 looks at every member of a protocol each time: that was a tenth of what a turn costs.
    return isinstance(capability, type) and isinstance(whom, capability)


class Clock(Protocol):
    """The time, injected so that tests can stop it and make it jump."""

    def now(self) -> datetime:
        """The present, in UTC: times of one local zone Python subtracts by their wall clock. Called from any thread."""

    def monotonic(self) -> float:
        """Seconds since some moment; whatever becomes of the time of day, they go forward and at one pace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When something was: `at` for people to read, `elapsed` for whoever counts what has passed since then."""

    at: datetime
    elapsed: float

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        """By both hands of one clock."""
        return cls(at=clock.now(), elapsed=clock.monotonic())


class Agent(Protocol):
    """Whatever answers."""

    def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """
        Answer one turn. Closing it cancels: the agent must stop working and leave nothing behind.

        Raises AgentError with a reason that people may read; AgentUnavailable or AgentRefused if another try, or
        another agent, may do better.
        """


@runtime_checkable
class TakesAnswers(Protocol):
    """An agent that waits for the answers to its questions. To any other, an answer is the next message."""

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        """What was chosen in a running turn, in the agent's own words; None: nobody answered in time."""


@runtime_checkable
class LetsOthersAnswer(Protocol):
    """An agent behind which there are others. Whether it waits for answers is for the one at work to say."""

    def at_work(self, turn: TurnId) -> Agent | None:
        """Who answers a running turn now; None if nobody does."""


@runtime_checkable
class TakesWords(Protocol):
    """An agent that listens while it works. To any other, what is said during a turn waits for the next one."""

    async def steer(self, turn: TurnId, text: str) -> bool:
        """More words for a running turn. False if it is too late for them: then they are a message of their own."""


@runtime_checkable
class TellsWhoAnswered(Protocol):
    """An agent that has others answer in its place."""

    def answered_by(self, turn: TurnId) -> str | None:
        """The name of the one that was asked last in a turn that is over; told once."""


@runtime_checkable
class HearsOfEndings(Protocol):
    """An agent that wants to know when a conversation is over, to keep of it what it likes."""

    async def session_end(self, ending: SessionEnded) -> None:
        """
        Called once the session has ended, beside all turns and for a minute at most; perhaps again after a crash.

        Whatever it raises counts as a failure. After three of them nothing more is tried.
        """


@runtime_checkable
class Closes(Protocol):
    """An agent that keeps something open between turns: a connection, a process."""

    async def close(self) -> None:
        """Called once, after its last turn. Nothing of it may be left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most `count` in any stretch of `per`."""

    count: int
    per: timedelta

    def __post_init__(self) -> None:
        """A rate that lets nothing pass would hold up its chats for ever."""
        if self.count < 1 or self.per < timedelta(0):
            raise ValueError(f"a rate of {self.count} in {self.per} lets nothing pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What a platform takes. `measure` counts a piece of Markdown as the platform will count it.

    `edit_every` is the pace of previews, a second if it is zero. The rates hold for sends, edits and typing together;
    `per_group` takes the place of `per_chat` wherever more than one person can write.
    """

    largest_part: int
    measure: Callable[[str], int]
    edit_every: timedelta
    per_account: Rate | None = None
    per_chat: Rate | None = None
    per_group: Rate | None = None

    def rate_in(self, target: SessionSource) -> Rate | None:
        """Of that chat."""
        return (
            self.per_chat
            if target.chat_type is ChatType.DM or self.per_group is None
            else self.per_group
        )


Receive = Callable[[InboundMessage], Awaitable[None]]

Places = Callable[[], Awaitable[Sequence[SessionSource]]]
"""
Where an account may have been written to while nobody listened: its conversations, newest first, then what the config
allows. A person there has no chat if none is known yet; a guild or a team has only its scope.
"""


async def nowhere() -> Sequence[SessionSource]:
    """For an account that knows no place yet."""
    return ()


class Adapter(Protocol):
    """One account on one platform."""

    @property
    def platform(self) -> str:
        """The platform's name, as in session keys and in the config."""

    @property
    def limits(self) -> Limits:
        """Read once per reply."""

    async def run(self, receive: Receive) -> None:
        """
        Receive until cancelled. `await receive(m)` returning means stored: only then may the platform be told so.

        If it raises, the message is not stored and must not be confirmed; but Refused means that it never will be, and
        then it is over: what comes after it must not wait.
        """

    async def send(self, part: Part) -> Sent:
        """
        Send one part, once. A part without an id is a preview: it is not in the outbox, and will be edited.

        Raises Throttled or NotSent (it certainly did not arrive), Unreachable (nobody knows), Undeliverable or
        Unauthorized.
        """


@runtime_checkable
class EditsMessages(Protocol):
    """Can replace the text of a message it sent."""

    async def edit(self, part: Part, message_id: str) -> Sent:
        """
        Make `message_id` say `part`, with its buttons or without any. Saying what it already says is success.

        Same errors as `send`; Undeliverable if the message is gone or can no longer be changed.
        """


@runtime_checkable
class ShowsDrafts(Protocol):
    """Can show something that is still being written, in direct chats. It vanishes by itself and is no message."""

    async def show_draft(self, part: Part) -> None:
        """Show it, in place of what the same turn has shown, for half a minute at most. Same errors as `send`."""


@runtime_checkable
class StreamsNatively(Protocol):
    """
    Has the platform's own way of showing an answer while it grows, in some of its chats.

    It begins, it grows, and `edit` ends it with the answer: also one that somebody else has begun before a crash.
    """

    def can_stream(self, target: SessionSource) -> bool:
        """Whether there is such a way there, as far as is known now."""

    async def begin(self, part: Part, tools: Sequence[Tool]) -> Sent:
        """Begin a message with these words, or none, and these tools. Errors as of `send`; Undeliverable: edit one."""

    async def grow(self, part: Part, message_id: str, tools: Sequence[Tool]) -> None:
        """
        Let it say what the part says, which begins with what it says already, and show how far these tools are.

        Same errors as `send`; Undeliverable if it can only be edited from now on.
        """


@runtime_checkable
class FollowsTurns(Protocol):
    """
    Has its reader's screen open, a browser or a terminal, and shows a turn event by event.

    What is shown here is a preview; the answer itself comes through `send`. Called on the event loop between two steps
    of a turn, so nothing here may wait.
    """

    def turn_began(self, target: SessionSource, turn: TurnId, messages: Sequence[str]) -> None:
        """The messages with these ids are being answered."""

    def turn_event(self, target: SessionSource, turn: TurnId, event: AgentEvent) -> None:
        """The agent said or did something."""

    def settled(self, target: SessionSource, messages: Sequence[str]) -> None:
        """Nothing more comes for these messages: whatever there was to send has been sent, or has failed."""


@runtime_checkable
class ShowsTyping(Protocol):
    """Can show that work is going on."""

    async def show_typing(self, target: SessionSource) -> None:
        """Show it for a few seconds; called again while the turn runs."""


@runtime_checkable
class ShowsStatus(Protocol):
    """Shows that work is going on in some chats only, and for so long that it has to be taken away."""

    def has_status_in(self, target: SessionSource) -> bool:
        """Whether `show_typing` shows anything there."""

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
        Send a part with its buttons, once. A press comes back as a message of kind BUTTON with the nonce as its text.

        Same errors as `send`.
        """


@runtime_checkable
class SendsFiles(Protocol):
    """Can deliver a file."""

    async def send_file(self, part: Part) -> Sent:
        """
        Deliver the part's file with its text as caption. Its path was checked and may be read; its name is only data.

        Same errors as `send`.
        """


@runtime_checkable
class FetchesFiles(Protocol):
    """Can download what people sent."""

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """
        The bytes as they come, in pieces. The core writes them down, and stops asking when there are too many.

        Raises Refused if the platform does not give it, Throttled or Unreachable if another try may succeed. The
        reason is shown to people.
        """


@runtime_checkable
class LocatesChats(Protocol):
    """Can tell what kind of place an id means, so that it can be written to before anybody wrote from there."""

    def place(self, chat: str, thread: str | None) -> SessionSource:
        """As a message from there would have it, but for the people. Nothing is asked of the platform."""


@runtime_checkable
class CatchesUp(Protocol):
    """Can read what was said while nobody listened."""

    def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        """
        Everything since then, oldest first, bounded. Duplicates are expected.

        Raises GapRemains at the end if it could not reach back far enough.
        """


@runtime_checkable
class TellsProgress(Protocol):
    """Knows when its platform itself last answered: a poll, a heartbeat, a ping. That a chat is quiet says nothing."""

    @property
    def progress(self) -> Moment | None:
        """The last such moment; None before the first."""

    @property
    def deaf_after(self) -> timedelta:
        """A pause longer than this means that nothing would be heard any more."""


@runtime_checkable
class FindsSent(Protocol):
    """Can tell whether a part whose outcome is unknown has arrived."""

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """The message that carries this part, or None if there is certainly none."""


@runtime_checkable
class FindsPreviews(Protocol):
    """Can tell whether there is a preview of which nobody knows whether it was sent."""

    async def find_preview(self, part: Part) -> Sent | None:
        """The message that shows this part's turn, or None if there is certainly none."""
