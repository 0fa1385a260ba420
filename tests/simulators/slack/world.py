"""A workspace as one bot knows it: its chats, messages, people and files."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.slack import blocks as block_kit
from tests.simulators.slack import rules
from tests.simulators.slack.text import seen

TS = re.compile(r"\d{1,12}\.\d{6}")

CHANNEL_TYPES = {"im": "im", "mpim": "mpim", "channel": "channel", "private": "group"}
"""What events call each kind of chat."""

SCOPE_WORDS = {"im": "im", "mpim": "mpim", "channel": "channels", "private": "groups"}
"""What scopes and subscriptions call it."""

SCOPES = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:join",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "mpim:write",
    "reactions:read",
    "reactions:write",
    "team:read",
    "users:read",
)

EVENTS = (
    "app_home_opened",
    "app_mention",
    "assistant_thread_context_changed",
    "assistant_thread_started",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "reaction_added",
    "reaction_removed",
)


class Clock:
    """Ours, and ahead of it once it was moved; it never says the same time twice."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._last = 0

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time() + self._ahead

    def tick(self) -> str:
        """A time stamp that is newer than every other."""
        self._last = max(self._last + 1, round(self.now() * 1_000_000))
        return stamp(self._last)

    def move_on(self, seconds: float) -> None:
        """As if so much time had passed."""
        self._ahead += seconds


def stamp(micros: int) -> str:
    """As Slack writes it: also the name of a message."""
    return f"{micros // 1_000_000}.{micros % 1_000_000:06}"


@dataclass(kw_only=True)
class Person:
    """Somebody, or a bot of somebody else."""

    id: str
    name: str
    real_name: str
    is_bot: bool = False
    deleted: bool = False


@dataclass(kw_only=True)
class StoredFile:
    """A file, once its bytes are there."""

    id: str
    name: str
    mime: str
    title: str
    length: int
    user: str
    content: bytes | None = None
    created: int = 0
    deleted: bool = False
    shares: list[tuple[str, str]] = field(default_factory=list)
    """The chat and the message in which it can be seen."""


@dataclass(kw_only=True)
class Message:
    """One message, with everything it ever said."""

    ts: str
    chat: Chat
    text: str
    user: str | None
    by_bot: bool = False
    thread_ts: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    """Whatever else Slack tells of it: blocks, subtype, edited, ..."""
    files: list[StoredFile] = field(default_factory=list)
    metadata: dict[str, Any] | None = None
    reactions: dict[str, list[str]] = field(default_factory=dict)
    edits: list[str] = field(default_factory=list)
    chunks: list[dict[str, Any]] = field(default_factory=list)
    streaming: bool | None = None
    """None for what was never a stream."""
    broadcast: bool = False
    ephemeral_to: str | None = None
    deleted: bool = False
    size: int = 0
    format: str = "mrkdwn"
    unfurl: dict[str, bool] = field(default_factory=dict)
    touched: float = 0.0

    @property
    def is_reply(self) -> bool:
        """`thread_ts == ts` is the parent itself."""
        return self.thread_ts not in (None, self.ts)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """Those that can be seen."""
        return self.fields.get("blocks", [])


@dataclass(kw_only=True)
class Chat:
    """A DM, a group DM, a channel or a private channel."""

    id: str
    kind: str
    name: str
    user: str | None = None
    members: set[str] = field(default_factory=set)
    archived: bool = False
    blocked: bool = False
    bot_is_in: bool = True
    messages: dict[str, Message] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    prompts: list[dict[str, Any]] = field(default_factory=list)
    _threads: dict[str, list[Message]] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        """Something was said."""
        self.messages[message.ts] = message
        if message.is_reply:
            self._threads.setdefault(str(message.thread_ts), []).append(message)

    def remove(self, message: Message) -> bool:
        """
        Nobody sees it any more. Returns False if its thread keeps its place: then a tombstone
        stands there.
        """
        if not self.replies(message.ts):
            message.deleted = True
            return True
        message.text, message.user, message.by_bot = "This message was deleted.", "USLACKBOT", False
        message.fields = {"subtype": "tombstone", "hidden": True}
        message.files, message.metadata = [], None
        return False

    def message(self, ts: object) -> Message | None:
        """One that can still be seen."""
        found = self.messages.get(str(ts))
        return None if found is None or found.deleted or found.ephemeral_to else found

    def replies(self, ts: str) -> list[Message]:
        """The thread below a message, oldest first."""
        return _visible(self._threads.get(ts, []))

    def top_level(self) -> list[Message]:
        """What stands in the chat itself, oldest first."""
        return _visible(
            each for each in self.messages.values() if not each.is_reply or each.broadcast
        )


def _visible(messages: Iterable[Message]) -> list[Message]:
    there = [each for each in messages if not each.deleted and each.ephemeral_to is None]
    return sorted(there, key=lambda each: each.ts)


@dataclass(kw_only=True)
class Status:
    """What an assistant said it is doing, in a thread."""

    chat: str
    thread: str
    text: str
    at: float
    over: bool = False


@dataclass(kw_only=True)
class App:
    """What is set at api.slack.com/apps: one app, in one workspace or more of them."""

    id: str
    token: str
    secret: str
    events: set[str] = field(default_factory=lambda: set(EVENTS))
    socket_mode: bool = True
    url: str | None = None
    skew: float = 0.0
    view: str = "agent"
    """`agent` (agent_view, all that a new app gets), `assistant` (assistant_view) or `none`."""


@dataclass(kw_only=True)
class Bot:
    """One account: an app in a workspace, and that workspace."""

    name: str
    token: str
    app: App
    team: str
    user: str
    bot_id: str
    clock: Clock
    scopes: set[str] = field(default_factory=lambda: set(SCOPES))
    revoked: bool = False
    chats: dict[str, Chat] = field(default_factory=dict)
    people: dict[str, Person] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)
    statuses: list[Status] = field(default_factory=list)
    forgotten_before: float = 0.0

    @property
    def domain(self) -> str:
        """In addresses of the workspace."""
        return f"{self.name}-workspace"

    def chat(self, id_: str, *, user: str | None = None, kind: str | None = None) -> Chat:
        """
        That chat, which is there from now on. Its kind goes by its id unless somebody says
        otherwise.
        """
        if id_ not in self.chats:
            kind = kind or {"D": "im", "G": "mpim"}.get(id_[:1], "channel")
            other = (user or f"U{id_[1:]}") if kind == "im" else None
            self.chats[id_] = Chat(id=id_, kind=kind, name=f"chat-{id_.lower()}", user=other)
        chat = self.chats[id_]
        for each in {user, chat.user} - {None}:
            self.person(str(each))
            chat.members.add(str(each))
        return chat

    def person(self, id_: str) -> Person:
        """Somebody, known from now on."""
        return self.people.setdefault(
            id_,
            Person(
                id=id_,
                name=f"user-{id_.lower()}",
                real_name=id_.capitalize(),
                is_bot=id_ == self.user,
            ),
        )

    def known(self, id_: object) -> Chat:
        """A chat that the bot may know of; raises No for any other."""
        chat = self.chats.get(str(id_))
        if chat is None or (chat.kind != "channel" and not chat.bot_is_in):
            raise rules.No("channel_not_found", rules.KNOWN_CHANNEL)
        return chat

    def open_to_bot(self, id_: object) -> Chat:
        """A chat that takes something from the bot; raises No for any other."""
        chat = self.known(id_)
        if chat.archived:
            raise rules.No("is_archived", rules.ARCHIVED)
        if chat.blocked:
            raise rules.No(
                "messages_tab_disabled" if chat.kind == "im" else "restricted_action", rules.MEMBER
            )
        if not chat.bot_is_in:
            raise rules.No("not_in_channel", rules.MEMBER)
        return chat

    def end_status(self, chat: Chat, thread: str | None) -> None:
        """It goes away with the next message there, or with the next status."""
        for each in self.statuses:
            each.over = each.over or (each.chat, each.thread) == (chat.id, thread)

    def names(self) -> dict[str, str]:
        """For mentions."""
        people = {each.id: each.name for each in self.people.values()}
        return {
            **people,
            self.user: self.name,
            **{each.id: each.name for each in self.chats.values()},
        }

    def read(self, message: Message) -> str:
        """
        What people see: its blocks, or else its text. The end of a stream adds to what was
        streamed, an edit not.
        """
        words = self._seen(block_kit.words(message.blocks)) if message.by_bot else ""
        said = self._seen(message.text)
        if message.streaming is not None and not message.edits and words:
            return f"{said}\n{words}" if said else words
        return words or said

    def _seen(self, text: str) -> str:
        """Names are looked up only where there may be some: the whole workspace is a lot."""
        return seen(text, self.names() if "<" in text else {})
