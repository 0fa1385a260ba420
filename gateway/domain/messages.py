"""Inbound messages: where they come from, who wrote them, what they say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from turngate.gateway.domain.transcript import MediaType

MAIN_ACCOUNT = "main"

LOCAL_PLATFORM = "local"

WEB_PLATFORM = "web"

AccountKey = tuple[str, str]
ChatKey = tuple[str, str, str | None]
ThreadKey = tuple[str, str, str | None, str | None]


class ChatType(StrEnum):
    """The kind of a chat."""

    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"
    THREAD = "thread"


class MessageKind(StrEnum):
    """What a user did."""

    # Stored with the message, like the other enums of this package: a value is never renamed.
    NEW = "new"
    EDIT = "edit"
    DELETE = "delete"
    COMMAND = "command"
    BUTTON = "button"
    REACTION = "reaction"
    MOVED = "moved"
    UNREADABLE = "unreadable"


class InboxState(StrEnum):
    """An inbound message: waiting -> running -> one of the rest."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    DEAD = "dead"


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
        """
        Normalise ids: 12345 and "12345" are one id; an empty id is none; thread 0 is no thread.
        """
        for name in ("chat_id", "user_id", "thread_id", "user_id_alt", "chat_id_alt", "scope"):
            value = getattr(self, name)
            # Nearly every id is a plain string already. SDKs also give numbers and subclasses of
            # str, which would not be equal or not be written alike.
            if value is None or (type(value) is str and value):
                continue
            object.__setattr__(self, name, str(value) or None)
        if self.thread_id == "0":
            object.__setattr__(self, "thread_id", None)

    @classmethod
    def terminal(cls, session: str | None = None) -> SessionSource:
        """Return the source of the user at this machine's terminal."""
        return cls(
            platform=LOCAL_PLATFORM,
            chat_id="cli",
            thread_id=session,
            user_id="cli",
            user_name="local",
        )

    @classmethod
    def browser(cls, conversation: str) -> SessionSource:
        """
        Return the source of a user at a browser on this machine, in one of their conversations.
        """
        return cls(
            platform=WEB_PLATFORM, chat_id=conversation, user_id="browser", user_name="local"
        )

    @property
    def participant_id(self) -> str | None:
        """The user; where a platform has two ids, the alternative is the permanent one."""
        return self.user_id_alt or self.user_id

    @property
    def account_key(self) -> AccountKey:
        """The bot's account that the message came to."""
        return self.platform, self.account

    @property
    def chat_key(self) -> ChatKey:
        """The chat with all its threads."""
        return self.platform, self.account, self.chat_id

    @property
    def thread_key(self) -> ThreadKey:
        """The thread, or the chat itself for what is outside of threads."""
        return self.platform, self.account, self.chat_id, self.thread_id

    @property
    def nameless(self) -> SessionSource:
        """The same source without names."""
        return replace(self, chat_name=None, user_name=None, chat_topic=None)

    @property
    def description(self) -> str:
        """A text for people: "DM with Ann", "group: Ops, thread: 7", "CLI terminal"."""
        if self.platform == LOCAL_PLATFORM:
            return "CLI terminal"
        if self.chat_type is ChatType.DM:
            chat = f"DM with {self.user_name or self.participant_id or self.chat_id or 'somebody'}"
        else:
            chat = f"{self.chat_type}: {self.chat_name or self.chat_id or 'unknown'}"
        return f"{chat}, thread: {self.thread_id}" if self.thread_id else chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message; `path` is set once it was fetched."""

    type: MediaType
    ref: str | None = None
    path: str | None = None
    mime: str | None = None
    name: str | None = None
    size: int | None = None  # bytes, as the platform claims: the limit is enforced while reading


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTo:
    """The message that is replied to, with the quoted text."""

    message_id: str
    text: str = ""
    to_bot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """
    What a user did, normalised.

    `event_ids` are all ids under which the platform may redeliver this event. For a button press
    the text is the nonce, for a moved chat its new id; an edit has the id of the message it
    changes. What is `forwarded` was written by another user.

    An `UNREADABLE` message is an event that the adapter could not convert. It has only `raw`, the
    event as JSON, and as much of its source as could be read.

    `unanswerable` says why the adapter could not send an answer there. Such a message is refused.
    """

    id: str
    event_ids: tuple[str, ...]
    source: SessionSource
    sent_at: datetime  # by the platform's clock
    text: str = ""
    kind: MessageKind = MessageKind.NEW
    attachments: tuple[Attachment, ...] = ()
    reply_to: ReplyTo | None = None
    addressed_to_bot: bool = False
    from_bot: bool = False
    forwarded: bool = False
    raw: str | None = None
    unanswerable: str | None = None

    @property
    def wordless(self) -> InboundMessage:
        """Return the message without text and names."""
        return replace(
            self, source=self.source.nameless, text="", attachments=(), reply_to=None, raw=None
        )


# Characters.
LONGEST_BACKGROUND_MESSAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundMessage:
    """A group message that was not addressed to the bot. Unverified, and not a request."""

    source: SessionSource
    text: str
