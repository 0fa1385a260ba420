"""What there is: bots, and for each the people, chats, messages and files that it knows."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.simulators.telegram import rules
from tests.simulators.telegram.clock import Clock
from tests.simulators.telegram.queue import UpdateQueue

Raw = dict[str, Any]
"""An object of the Bot API, as JSON."""

GENERAL = 1
"""The topic of a forum that has no message_thread_id."""

_SUPERGROUPS_BELOW = -1_000_000_000_000


@dataclass(slots=True, kw_only=True)
class Topic:
    """A thread of a forum, or of a private chat."""

    id: int
    name: str
    closed: bool = False


@dataclass(slots=True, kw_only=True)
class Chat:
    """A place, and whether the bot may still write there."""

    id: int
    type: str
    title: str | None = None
    username: str | None = None
    forum: bool = False
    direct: bool = False
    topics: dict[int, Topic] = field(default_factory=dict)
    discussion: int | None = None
    blocked: bool = False
    migrated_to: int | None = None
    members: dict[int, str] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=lambda: count(2))  # the first is that it was made

    def as_json(self, people: Mapping[int, Raw]) -> Raw:
        """As messages name it."""
        if self.type == "private":
            person = people[self.id]
            names = {name: person.get(name) for name in ("first_name", "last_name", "username")}
            return _without_none({"id": self.id, "type": self.type, **names})
        more = {
            "title": self.title,
            "username": self.username,
            "is_forum": True if self.forum else None,
            "is_direct_messages": True if self.direct else None,
        }
        return _without_none({"id": self.id, "type": self.type, **more})


@dataclass(slots=True, kw_only=True, eq=False)
class Message:
    """
    One in a chat, whoever wrote it. `raw` is how the Bot API tells it now, `edits` what it said
    before.
    """

    chat: Chat
    raw: Raw
    by_bot: bool
    edits: list[str] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)
    file: StoredFile | None = None
    silent: bool = False
    preview: Raw | None = None
    deleted: bool = False

    @property
    def id(self) -> int:
        """Unique in its chat. What only one person sees has numbers of its own, below zero."""
        return int(self.raw["message_id"]) or -int(self.raw["ephemeral_message_id"])


@dataclass(slots=True, kw_only=True)
class StoredFile:
    """Bytes that were sent. `link_until` is how long its link works, once it was asked for."""

    id: str
    unique_id: str
    name: str
    mime: str
    size: int
    content: bytes
    path: str
    link_until: float = 0.0


@dataclass(slots=True, kw_only=True)
class Draft:
    """What a person sees of a message that is still being written."""

    chat: int
    id: int
    text: str
    thread: int | None
    at: float
    can_stop: bool
    keep_on_stop: bool
    stopped: bool = False
    rich: Raw | None = None
    history: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Query:
    """A press of a button that waits for its answer."""

    id: str
    at: float
    answer: Raw | None = None


@dataclass(slots=True, kw_only=True)
class Webhook:
    """Where updates are delivered, and how that goes."""

    url: str = ""
    secret: str = ""
    max_connections: int = 40
    ip_address: str | None = None
    last_error: tuple[float, str] | None = None


@dataclass(kw_only=True, eq=False)
class Bot:
    """One account and everything it knows."""

    account: str
    token: str
    clock: Clock
    news: asyncio.Event
    username: str
    privacy: bool = False
    topics_in_private: bool = False
    revoked: bool = False
    logged_out_until: float = 0.0
    people: dict[int, Raw] = field(default_factory=dict)
    chats: dict[int, Chat] = field(default_factory=dict)
    messages: dict[tuple[int, int], Message] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)
    drafts: dict[tuple[int, int], Draft] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    commands: dict[str, list[Raw]] = field(default_factory=dict)
    typing: list[Raw] = field(default_factory=list)
    webhook: Webhook = field(default_factory=Webhook)
    numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        """Nothing has happened yet."""
        self.queue = UpdateQueue(self.clock, self.news)
        self.launched_at = self.clock.now()

    @property
    def id(self) -> int:
        """The first half of the token."""
        return int(self.token.partition(":")[0])

    @property
    def user(self) -> Raw:
        """As messages name it."""
        return {
            "id": self.id,
            "is_bot": True,
            "first_name": self.account,
            "username": self.username,
        }

    def person(self, user_id: int) -> Raw:
        """Whoever has this id; people need no introduction."""
        fresh = {"id": user_id, "is_bot": False, "first_name": f"Person {user_id}"}
        return self.people.setdefault(user_id, fresh)

    def open(self, chat_id: int, **what: Any) -> Chat:
        """
        The chat with this id, made if there is none. What is not said of it is told by its id.
        """
        if chat_id not in self.chats:
            type_ = what.get("type") or _type_of(chat_id)
            chat = Chat(
                id=chat_id, type=type_, title=None if type_ == "private" else f"Chat {chat_id}"
            )
            self.chats[chat_id] = chat
            if type_ == "private":
                self.person(chat_id)
        chat = self.chats[chat_id]
        for name, value in what.items():
            setattr(chat, name, value)
        return chat

    def chat(self, chat_id: str) -> Chat:
        """
        The chat that a bot names, by number or by @username. Raises if it may not write there.
        """
        chat = self.known_chat(chat_id)
        if chat.migrated_to is not None:
            raise rules.Migrated(chat.migrated_to)
        if chat.blocked and chat.type == "private":
            raise rules.forbidden("bot was blocked by the user")
        if chat.blocked:
            raise rules.forbidden(f"bot was kicked from the {chat.type} chat")
        return chat

    def known_chat(self, chat_id: str) -> Chat:
        """The same, only to read."""
        named = [
            chat for chat in self.chats.values() if chat_id in (str(chat.id), f"@{chat.username}")
        ]
        if not named:
            raise rules.bad("chat not found", rules.KNOWN_CHAT)
        return named[0]

    def message(self, chat: Chat, message_id: object) -> Message | None:
        """One that can still be seen."""
        message = self.messages.get((chat.id, message_id)) if isinstance(message_id, int) else None
        return None if message is None or message.deleted else message

    def next_number(self, chat: Chat) -> int:
        """Private chats and small groups share the numbers of the bot, others have their own."""
        numbers = chat.numbers if chat.id < _SUPERGROUPS_BELOW else self.numbers
        return next(number for number in numbers if (chat.id, number) not in self.messages)

    def keep(self, message: Message) -> Message:
        """From now on it can be found."""
        self.messages[message.chat.id, message.id] = message
        return message

    def keep_file(
        self, *, name: str, mime: str, content: bytes, folder: str, size: int | None = None
    ) -> StoredFile:
        """From now on it can be fetched."""
        path = (
            f"{folder}/file_{len(self.files)}{'.' + name.rpartition('.')[2] if '.' in name else ''}"
        )
        file = StoredFile(
            id=f"BQAC{secrets.token_urlsafe(24)}",
            unique_id=f"AgAD{secrets.token_urlsafe(8)}",
            name=name,
            mime=mime,
            size=len(content) if size is None else size,
            content=content,
            path=path,
        )
        self.files[file.id] = file
        return file


def _type_of(chat_id: int) -> str:
    if chat_id > 0:
        return "private"
    return "supergroup" if chat_id < _SUPERGROUPS_BELOW else "group"


def _without_none(raw: Raw) -> Raw:
    return {name: value for name, value in raw.items() if value is not None}
