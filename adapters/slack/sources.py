"""Where something was said and by whom, in the gateway's words: the chat, the thread if it is one, the person."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.adapters.slack.identity import EventContext, Kind, Me
from turngate.adapters.slack.json_fields import Json, dict_in, text_in
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
    """A message in a chat. `thread` is that of a reply: a message whose thread is itself begins one."""

    chat: str
    ts: str = ""
    thread: str | None = None
    kind: Kind | None = None
    in_assistants: bool = False

    @classmethod
    def of(cls, message: Json, chat: str, *, kind: str = "", ts: str = "") -> MessageRef:
        """As a message says it; what an event says around it counts more."""
        own = ts or text_in(message, "ts")
        thread = text_in(message, "thread_ts")
        return cls(
            chat=chat,
            ts=own,
            thread=thread if thread not in ("", own) else None,
            kind=_KINDS.get(kind or text_in(message, "channel_type")),
            in_assistants="assistant_thread" in message,
        )

    def kind_by(self, known: EventContext) -> Kind:
        """What the event says, or what was looked up, or what the id looks like."""
        looked_up = None if known.place is None else known.place.kind
        return self.kind or looked_up or (Kind.IM if self.chat.startswith("D") else Kind.CHANNEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Whoever did it: a person, or a bot, of this workspace or of one that shares the chat."""

    user: str | None = None
    bot: str | None = None
    name: str | None = None
    team: str | None = None
    is_bot: bool = False

    @classmethod
    def of(cls, message: Json) -> Author:
        """Of a message or a reaction. An old bot has no user, and a name that it chose; people always are users."""
        user, bot = text_in(message, "user"), text_in(message, "bot_id")
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
        """As this workspace calls it."""
        return self.user or self.bot

    def is_(self, me: Me) -> bool:
        """Whether it is the bot itself."""
        return self.user == me.user or (self.bot is not None and self.bot == me.bot)

    def is_foreign_to(self, me: Me) -> bool:
        """Whether the id is that of another workspace, where it may mean somebody else."""
        return bool(self.team and me.team) and self.team not in (me.team, me.enterprise)


def source_of(spot: MessageRef, author: Author, me: Me, known: EventContext) -> SessionSource:
    """The place and the person. Somebody of another workspace is nobody that the config could name by a bare id."""
    kind, place = spot.kind_by(known), known.place
    return SessionSource(
        platform=PLATFORM,
        account=me.account,
        chat_type=CHAT_TYPES[kind],
        chat_id=spot.chat,
        user_id=author.id,
        user_id_alt=f"{author.id}.{author.team}" if author.is_foreign_to(me) else None,
        thread_id=_thread(spot, kind, me, known),
        scope=me.team or None,
        chat_name=place.name if place is not None and kind is not Kind.IM else None,
        chat_topic=place.topic if place is not None else None,
        user_name=known.names.get(author.id or "") or author.name,
    )


def _thread(spot: MessageRef, kind: Kind, me: Me, known: EventContext) -> str | None:
    """In a channel every message begins a thread, and is answered there; a direct chat is one conversation."""
    if kind is Kind.IM and not me.dm_threads:
        return spot.thread if known.is_assistants or spot.in_assistants else None
    begins = kind is not Kind.MPIM
    return spot.thread or (spot.ts or None if begins else None)
