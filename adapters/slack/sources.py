"""The source of a message in the gateway's terms: chat, thread and user."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.adapters.slack.identity import (
    BotIdentity,
    EventContext,
    Kind,
)
from turngate.adapters.slack.json_fields import (
    Json,
    dict_in,
    text_in,
)
from turngate.gateway.domain.messages import ChatType, SessionSource

PLATFORM = "slack"

_SLACKBOT = "USLACKBOT"
_KINDS = {
    "im": Kind.IM,
    "app_home": Kind.IM,
    "mpim": Kind.MPIM,
    "group": Kind.PRIVATE,
    "channel": Kind.CHANNEL,
}
CHAT_TYPES = {
    Kind.IM: ChatType.DM,
    Kind.MPIM: ChatType.GROUP,
    Kind.CHANNEL: ChatType.CHANNEL,
    Kind.PRIVATE: ChatType.CHANNEL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """
    Position of a message. `thread` is set for replies only, not for the message that starts a
    thread; `thread_by` is the user who started it.
    """

    chat: str
    ts: str = ""
    thread: str | None = None
    thread_by: str | None = None
    kind: Kind | None = None
    in_assistant: bool = False

    @classmethod
    def of(cls, message: Json, chat: str, *, kind: str = "", ts: str = "") -> MessageRef:
        """Parse a message; fields of the surrounding event take precedence."""
        own = ts or text_in(message, "ts")
        thread = text_in(message, "thread_ts")
        is_reply = thread not in ("", own)
        return cls(
            chat=chat,
            ts=own,
            thread=thread if is_reply else None,
            thread_by=text_in(message, "parent_user_id") or None if is_reply else None,
            kind=_KINDS.get(kind or text_in(message, "channel_type")),
            in_assistant="assistant_thread" in message,
        )

    def kind_by(self, known: EventContext) -> Kind:
        """Return the chat type from the event, from the lookup, or guessed from the id."""
        looked_up = None if known.chat is None else known.chat.kind
        return self.kind or looked_up or (Kind.IM if self.chat.startswith("D") else Kind.CHANNEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Author of an event: a user or bot of this workspace or of one that shares the channel."""

    user: str | None = None
    bot: str | None = None
    name: str | None = None
    team: str | None = None
    is_bot: bool = False

    @classmethod
    def of(cls, message: Json) -> Author:
        """
        Parse the author of a message or reaction. A legacy bot has a chosen name and no user id;
        people always have one.
        """
        user = text_in(message, "user")
        bot = text_in(message, "bot_id")

        return cls(
            user=user or None,
            bot=bot or None,
            name=text_in(message, "username")
            or text_in(dict_in(message, "bot_profile"), "name")
            or None,
            team=text_in(message, "user_team") or None,
            is_bot=bool(bot)
            or not user
            or message.get("subtype") == "bot_message"
            or user == _SLACKBOT,
        )

    @property
    def id(self) -> str | None:
        """The id in this workspace."""
        return self.user or self.bot

    def is_self(self, me: BotIdentity) -> bool:
        """Whether it is the bot itself."""
        return self.user == me.user or (self.bot is not None and self.bot == me.bot)

    def is_foreign_to(self, me: BotIdentity) -> bool:
        """Whether the id belongs to another workspace, where it may mean another user."""
        return bool(self.team and me.team) and self.team not in (me.team, me.enterprise)


def source_of(
    ref: MessageRef, author: Author, me: BotIdentity, known: EventContext
) -> SessionSource:
    """
    Return the source. A user of another workspace gets `user_id_alt`, so that a bare id in the
    config does not match.
    """
    kind = ref.kind_by(known)
    chat = known.chat

    return SessionSource(
        platform=PLATFORM,
        account=me.account,
        chat_type=CHAT_TYPES[kind],
        chat_id=ref.chat,
        user_id=author.id,
        user_id_alt=f"{author.id}.{author.team}" if author.is_foreign_to(me) else None,
        thread_id=_thread(ref, kind, me, known),
        scope=me.team or None,
        chat_name=chat.name if chat is not None and kind is not Kind.IM else None,
        chat_topic=chat.topic if chat is not None else None,
        user_name=known.names.get(author.id or "") or author.name,
    )


def _thread(ref: MessageRef, kind: Kind, me: BotIdentity, known: EventContext) -> str | None:
    """
    Return the thread of the session. In a channel every message starts a thread; a direct chat is
    one conversation.
    """
    if kind is Kind.IM and not me.dm_threads:
        return ref.thread if known.is_assistant or ref.in_assistant else None
    begins = kind is not Kind.MPIM
    return ref.thread or (ref.ts or None if begins else None)
