"""
The vocabulary: frozen values that every other file speaks in. Standard library only.

Identity comes first in each type. Labels (names, topics, titles) are third-party text: they never enter a key, a log
line or a decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from enum import StrEnum
from typing import ClassVar, NewType

SessionId = NewType("SessionId", str)
SessionKey = NewType("SessionKey", str)
EntryId = NewType("EntryId", str)
InboxId = NewType("InboxId", int)
TurnId = NewType("TurnId", int)
PartId = NewType("PartId", int)

MAIN_ACCOUNT = "main"
LOCAL_PLATFORM = "local"
WEB_PLATFORM = "web"

LARGEST_NUMBER = 2**63 - 1
"""The largest that databases and other programs can be told."""


class ChatType(StrEnum):
    """Where people meet."""

    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"


class MessageKind(StrEnum):
    """What a person did."""

    NEW = "new"
    EDIT = "edit"
    DELETE = "delete"
    COMMAND = "command"
    BUTTON = "button"
    REACTION = "reaction"
    MOVED = "moved"


class Role(StrEnum):
    """Who an entry speaks as."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Origin(StrEnum):
    """How an entry came into the transcript."""

    CHAT = "chat"
    COMMAND = "command"
    DELIVERY = "delivery"
    SUMMARY = "summary"


class MediaType(StrEnum):
    """What a content block other than text holds."""

    IMAGE = "image"
    AUDIO = "audio"
    DOCUMENT = "document"
    FILE = "file"


class EndReason(StrEnum):
    """Why a session ended."""

    RESET = "reset"
    IDLE = "idle"
    DAILY = "daily"
    SWITCH = "switch"
    DELETED = "deleted"


class InboxState(StrEnum):
    """An inbound message: waiting -> running -> one of the rest."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    DEAD = "dead"


class PartState(StrEnum):
    """An outbound part: pending -> sending -> sent, or failed (to be tried again) -> dead."""

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    DEAD = "dead"


class Does(StrEnum):
    """What a chosen option does: tells the agent that waits for it, says it, or runs a turn again."""

    ANSWER = "answer"
    SAY = "say"
    RERUN = "rerun"


class ToolStatus(StrEnum):
    """How far a tool has come."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


class CostStatus(StrEnum):
    """How much a sum of money can be trusted; `partial` means some turns had no price."""

    UNKNOWN = "unknown"
    REPORTED = "reported"
    ESTIMATED = "estimated"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSource:
    """Where a message comes from and where its answer goes."""

    platform: str
    account: str = MAIN_ACCOUNT
    chat_type: ChatType = ChatType.DM
    chat_id: str | None = None
    user_id: str | None = None
    thread_id: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    scope: str | None = None
    chat_name: str | None = None
    user_name: str | None = None
    chat_topic: str | None = None

    def __post_init__(self) -> None:
        """12345 and "12345" are one id; an empty id is none; thread 0 is no thread."""
        for name in ("chat_id", "user_id", "thread_id", "user_id_alt", "chat_id_alt", "scope"):
            value = getattr(self, name)
            if value is None or (type(value) is str and value):
                continue
            object.__setattr__(self, name, str(value) or None)
        if self.thread_id == "0":
            object.__setattr__(self, "thread_id", None)

    @classmethod
    def terminal(cls, session: str | None = None) -> SessionSource:
        """The person at this machine's own terminal."""
        return cls(
            platform=LOCAL_PLATFORM,
            chat_id="cli",
            thread_id=session,
            user_id="cli",
            user_name="local",
        )

    @classmethod
    def browser(cls, conversation: str) -> SessionSource:
        """The person at a browser on this machine, in one of his conversations."""
        return cls(
            platform=WEB_PLATFORM, chat_id=conversation, user_id="browser", user_name="local"
        )

    @property
    def participant_id(self) -> str | None:
        """The person; where a platform has two ids for one, the alternative is the lasting one."""
        return self.user_id_alt or self.user_id

    @property
    def nameless(self) -> SessionSource:
        """The same place and person without what they are called."""
        return replace(self, chat_name=None, user_name=None, chat_topic=None)

    @property
    def description(self) -> str:
        """For people: "DM with Ann", "group: Ops, thread: 7", "CLI terminal"."""
        if self.platform == LOCAL_PLATFORM:
            return "CLI terminal"
        if self.chat_type is ChatType.DM:
            place = f"DM with {self.user_name or self.participant_id or self.chat_id or 'somebody'}"
        else:
            place = f"{self.chat_type}: {self.chat_name or self.chat_id or 'unknown'}"
        return f"{place}, thread: {self.thread_id}" if self.thread_id else place


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message; `path` is set once it was fetched."""

    type: MediaType
    ref: str | None = None
    path: str | None = None
    mime: str | None = None
    name: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTo:
    """The message that is being answered, with the words that were quoted."""

    message_id: str
    text: str = ""
    to_bot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """
    What a person did, normalised.

    `event_ids` are all the names under which the platform may deliver this very event again. Of a press of a button the
    text is the button's nonce, of a chat that moved its new id; an edit has the id of the message it changes. What is
    `forwarded` was written by somebody else; who brings it speaks for himself.
    """

    id: str
    event_ids: tuple[str, ...]
    source: SessionSource
    sent_at: datetime
    text: str = ""
    kind: MessageKind = MessageKind.NEW
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTo | None = None
    addressed_to_bot: bool = False
    from_bot: bool = False
    forwarded: bool = False

    @property
    def wordless(self) -> InboundMessage:
        """That there was a message: neither what it said nor what people and places are called."""
        return replace(self, source=self.source.nameless, text="", attachments=(), reply_to=None)


@dataclass(frozen=True, slots=True)
class Text:
    """Words: a block of a message, and an event of an agent."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A block that is not text. The bytes stay in a file."""

    type: MediaType
    path: str | None = None
    mime: str | None = None
    name: str | None = None


Block = Text | Media


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """A model's thinking; some models need it back, signed, together with the call it led to."""

    type: ClassVar[str] = "reasoning"
    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool the assistant asked for; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a transcript. The store gives `seq` (order) and `id` (stable for life); until then they are empty."""

    role: Role
    content: tuple[Block, ...]
    at: datetime
    origin: Origin = Origin.CHAT
    seq: int = 0
    id: EntryId = EntryId("")
    sender: str | None = None
    message_id: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: Reasoning | None = None
    tokens: int | None = None
    latency_ms: int | None = None

    @property
    def text(self) -> str:
        """The words alone."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What was used; sums add up, `last_prompt` on the session does not."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __post_init__(self) -> None:
        """Agents report what they like: a number that cannot be must not spoil the sums for ever."""
        counts = (self.input, self.output, self.cache_read, self.cache_write)
        if min(counts) >= 0 and max(counts) <= LARGEST_NUMBER:
            return
        for name in ("input", "output", "cache_read", "cache_write"):
            object.__setattr__(self, name, min(max(getattr(self, name), 0), LARGEST_NUMBER))

    @property
    def total(self) -> int:
        """All four together."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Tokens) -> Tokens:
        """The sum, kind by kind."""
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Money, and how it is known."""

    usd: float = 0.0
    status: CostStatus = CostStatus.UNKNOWN
    source: str | None = None

    def __add__(self, other: Cost) -> Cost:
        """The sum is as trustworthy as its weaker half."""
        statuses = {self.status, other.status}
        if len(statuses) == 1:
            status = self.status
        elif statuses <= {CostStatus.REPORTED, CostStatus.ESTIMATED}:
            status = CostStatus.ESTIMATED
        else:
            status = CostStatus.PARTIAL
        return Cost(usd=self.usd + other.usd, status=status, source=other.source or self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Which model answered, of whom, and where."""

    name: str
    provider: str | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """
    What one turn used. `cost` is None when nothing was called that could cost.

    `estimated`: nobody reported the tokens, so they are counted from the words.
    """

    tokens: Tokens = Tokens()
    estimated: bool = False
    prompt_tokens: int = 0
    cost: Cost | None = None
    model: Model | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPolicy:
    """When a conversation starts anew by itself. Neither set means never, so no illegal mode exists."""

    idle_after: timedelta | None = None
    daily_at: time | None = None
    zone: str = "UTC"

    @property
    def is_never(self) -> bool:
        """Whether nothing ever ends by it."""
        return self.idle_after is None and self.daily_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetNotice:
    """What the first turn of a new session must know about the one before. Commands alone are nothing to go back to."""

    reason: EndReason
    had_activity: bool
    previous: SessionId
    commands_only: bool = False

    @property
    def is_way_back(self) -> bool:
        """Whether /resume leads to anything."""
        return self.had_activity and not self.commands_only


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """
    A conversation. The id is fresh after each reset, the key is for life.

    Three clocks: `started_at`; `last_interaction_at`, moved only by a person; `updated_at`, moved by any change.
    `messages` counts the live entries; those up to `archived_through` are kept and searchable but no longer live, those
    up to `consolidated_through` are summarised and not replayed; the summary itself is the entry `summary_seq`.
    `tokens_estimated`: some of them were not reported but counted from the words.
    """

    id: SessionId
    key: SessionKey
    origin: SessionSource
    started_at: datetime
    last_interaction_at: datetime
    updated_at: datetime
    owner: str | None = None
    title: str | None = None
    preview: str = ""
    preview_by: Role | None = None
    goal: str | None = None
    agent: str | None = None
    archived: bool = False
    important: bool = False
    ended_at: datetime | None = None
    end_reason: EndReason | None = None
    notice: ResetNotice | None = None
    messages: int = 0
    archived_through: int = 0
    consolidated_through: int = 0
    summary_seq: int = 0
    tokens: Tokens = Tokens()
    tokens_estimated: bool = False
    last_prompt_tokens: int = 0
    cost: Cost | None = None
    model: Model | None = None
    current: bool = True

    @property
    def display_name(self) -> str | None:
        """What the platform calls this place; unlike the title it survives a reset."""
        return self.origin.chat_name or self.origin.user_name

    @property
    def had_activity(self) -> bool:
        """Anything said or any token used."""
        return self.messages > 0 or self.archived_through > 0 or self.tokens.total > 0

    @property
    def has_talk(self) -> bool:
        """Whether there is anything to come back to: commands alone are no talk."""
        return bool(self.preview) or self.tokens.total > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The session a message belongs to. `notice` stays until a turn was finished with it: a crash cannot swallow it."""

    session: Session
    is_new: bool

    @property
    def notice(self) -> ResetNotice | None:
        """Why the session before this one ended by itself, if the user has not been told yet."""
        return self.session.notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Everything the agent may know. `shared`: several people may speak, so that each must be named."""

    id: TurnId
    session: Session
    source: SessionSource
    messages: tuple[InboundMessage, ...]
    history: tuple[Entry, ...] = ()
    system: str = ""
    context: str = ""
    workdir: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    """
    A conversation is over: what its agent may keep of it, as the last turn would have been shown it.

    `id` and `title` are the session's, `history` ends with the last word that was said.
    """

    id: SessionId
    reason: EndReason
    source: SessionSource
    started_at: datetime
    ended_at: datetime
    title: str | None = None
    goal: str | None = None
    history: tuple[Entry, ...] = ()
    workdir: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool at work."""

    type: ClassVar[str] = "tool"
    id: str
    name: str
    status: ToolStatus
    title: str | None = None
    input: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file for the user."""

    type: ClassVar[str] = "file"
    path: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question with options."""

    type: ClassVar[str] = "ask"
    id: str
    text: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A message to somewhere else."""

    type: ClassVar[str] = "send"
    target: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and money, as the agent reports them."""

    type: ClassVar[str] = "usage"
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The agent has nothing more to say."""

    type: ClassVar[str] = "done"


AgentEvent = Text | Reasoning | Tool | File | Ask | Send | Usage | Done


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What goes out, before it is cut to size. The address is the one the message came from."""

    target: SessionSource
    text: str
    files: tuple[File, ...] = ()
    reply_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """One way to answer a question. All that a press brings back is the nonce."""

    label: str
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """
    What buttons are about: who may press one, until when, and what that does. Once, and only in the chat it stands in.

    Without a person it is for everybody who may talk there. `ask` is what the agent calls it. `first_number`:
    there are no buttons to press, so the numbers of the options count, from this one on, written by that person in the
    conversation `key`.
    """

    does: Does
    person: str | None
    key: SessionKey
    expires_at: datetime
    ask: str = ""
    first_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    One piece of a reply, in Markdown, small enough for its platform.

    `edits` is the message that already shows a preview of it: it is changed into the part instead of being sent again.
    With a `file` the text is its caption; with `buttons` it is a `question`, which stays here: no platform is told what
    a button does.
    """

    target: SessionSource
    text: str
    ordinal: int = 0
    reply_to: str | None = None
    edits: str | None = None
    file: File | None = None
    buttons: tuple[Button, ...] = ()
    question: Question | None = None
    id: PartId = PartId(0)
    session: SessionId | None = None
    turn: TurnId | None = None
    state: PartState = PartState.PENDING
    attempts: int = 0
    created_at: datetime | None = None
    sent_id: str | None = None
    reason: str | None = None
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the platform called the part that it took."""

    message_id: str
    at: datetime
