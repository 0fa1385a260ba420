"""
From an update of Telegram to an inbound message. Pure: `tests/golden/telegram` has an update of
every kind.

It reads the JSON and takes what it needs, so that nothing that is new around a message costs the
message. Mentions, commands and names are recognised by entities and never by the text alone:
`foo@bot.example` mentions nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zlib import crc32

from aiogram.types import Message

from turngate.adapters.telegram import rich_text
from turngate.adapters.telegram.cache import Ephemeral
from turngate.adapters.telegram.contents import (
    attachments_of,
    full_name,
    text_of,
    words_of,
)
from turngate.adapters.telegram.fields import (
    Raw,
    flag,
    number,
    text,
    thing,
    things,
)
from turngate.adapters.telegram.rich_text import Note
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    ReplyTo,
    SessionSource,
)

PLATFORM = "telegram"
DIRECT_TOPIC = "direct-"
"""Begins the thread id of what somebody writes to a channel: those topics are no forum topics."""

_POSTED = "message", "channel_post"
_EDITED = "edited_message", "edited_channel_post"
_UNANSWERABLE = {
    "guest_message": "guest mode is not supported: the bot is not a member of this chat",
    "business_message": "business chats are not supported: the bot would write as its owner",
}
HANDLED = (*_POSTED, *_EDITED, *_UNANSWERABLE, "callback_query", "stopped_message_generation")
"""The kinds of updates that are requested."""

_CHAT_TYPES = {
    "private": ChatType.DM,
    "group": ChatType.GROUP,
    "supergroup": ChatType.GROUP,
    "channel": ChatType.CHANNEL,
}
# What a person sends: where one of these is there and nothing was read, its form is new.
_SAID = (
    "rich_message",
    "photo",
    "document",
    "voice",
    "audio",
    "video",
    "video_note",
    "animation",
    "sticker",
    "paid_media",
)
_WRITTEN = ("text", "caption")
_KNOWN_FIELDS = {field.alias or name for name, field in Message.model_fields.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The bot: its id and name on Telegram, its account name, and its commands."""

    id: int
    username: str
    account: str
    commands: frozenset[str] = frozenset()


class UnreadableError(ValueError):
    """An update from which not even the necessary could be read."""


def normalise(
    update: Raw, me: Me, now: datetime, note: Note = lambda _: None
) -> InboundMessage | None:
    """
    Convert an update. None if it is not for the bot: a user joined, a title changed, another bot
    was addressed. `note` is told the names of what is not known.

    Raises UnreadableError, or any other exception for a form that was not foreseen.
    """
    return _Reader(me, now, note, _update_id(update)).read(update)


def unreadable(update: Raw, me: Me, now: datetime) -> InboundMessage:
    """Wrap an update that cannot be converted, with as much of its source as can be read."""
    kind, content = _content(update)
    asked = thing(content, "message")
    chat = thing(content, "chat") or thing(asked, "chat")
    message_id = number(content, "message_id")
    known = [_update_id(update)]
    if message_id is not None and kind in _POSTED and number(chat, "id") is not None:
        known.append(_event_id(content))

    who, name = _sender(content)
    return InboundMessage(
        id=str(message_id or known[0]),
        event_ids=tuple(known),
        source=replace(_chat_source(chat, me, who, name), thread_id=_thread(asked or content)),
        sent_at=_time(content, "date", now),
        kind=MessageKind.UNREADABLE,
        addressed_to_bot=_chat_type(chat, who) is ChatType.DM,
        raw=json.dumps(update),
    )


def _update_id(update: Raw) -> str:
    return f"update:{number(update, 'update_id')}"


def _content(update: Raw) -> tuple[str, Raw]:
    """Return the kind of an update and what it is about."""
    kind = next((kind for kind in HANDLED if kind in update), "")
    return kind, thing(update, kind)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one update."""

    me: Me
    now: datetime
    note: Note
    update_id: str

    def read(self, update: Raw) -> InboundMessage | None:
        kind, content = _content(update)
        if kind in _POSTED:
            return self._posted(content)
        if kind in _EDITED:
            return self._edited(content)
        if kind in _UNANSWERABLE:
            return self._unanswerable(content, _UNANSWERABLE[kind])
        if kind == "callback_query":
            return self._pressed(content)
        return self._stopped(content) if kind == "stopped_message_generation" else None

    def _posted(self, message: Raw) -> InboundMessage | None:
        event_ids = self.update_id, _event_id(message)
        to = number(message, "migrate_to_chat_id")
        if to is not None:
            return self._moved(message, to, event_ids)
        return self._message(message, event_ids, MessageKind.NEW)

    def _edited(self, message: Raw) -> InboundMessage | None:
        # A message can be edited twice within a second: the time alone identifies no edit.
        version = f"{message.get('edit_date')}:{crc32(text_of(message).encode())}"
        edit = f"edit:{_chat_id(message)}:{_message_id(message)}:{version}"
        return self._message(message, (self.update_id, edit), MessageKind.EDIT)

    def _unanswerable(self, message: Raw, why: str) -> InboundMessage:
        """Convert what cannot be answered there: it is refused, and the reason recorded."""
        return InboundMessage(
            id=_message_id(message),
            event_ids=(self.update_id,),
            source=self._source(message),
            sent_at=_time(message, "date", self.now),
            addressed_to_bot=True,
            unanswerable=why,
        )

    def _message(
        self, message: Raw, event_ids: tuple[str, ...], kind: MessageKind
    ) -> InboundMessage | None:
        said = text_of(message, self.note)
        attachments = attachments_of(message)
        command = _command(message)
        sender = thing(message, "from")
        if number(sender, "id") == self.me.id or (command and not command.is_for(self.me)):
            return None
        reply_to = self._reply_to(message)
        is_addressed = self._is_addressed(message, command)
        if not (said or attachments):
            is_for_us = is_addressed or (reply_to is not None and reply_to.to_bot)
            self._check_without_content(message, is_for_us=is_for_us)
            return None

        if command is not None:
            said = command.without_name(said)
            kind = MessageKind.COMMAND if kind is MessageKind.NEW else kind

        return InboundMessage(
            id=_message_id(message),
            event_ids=event_ids,
            source=self._source(message),
            sent_at=_time(message, "date", self.now),
            text=said,
            kind=kind,
            attachments=attachments,
            reply_to=reply_to,
            addressed_to_bot=is_addressed,
            from_bot=flag(sender, "is_bot") and "sender_chat" not in message,
            forwarded="forward_origin" in message,
        )

    def _check_without_content(self, message: Raw, *, is_for_us: bool) -> None:
        """
        Pass what tells of the chat and has no user's words. What has a field that is not known may
        be either.
        """
        unknown = sorted(set(message) - _KNOWN_FIELDS)
        for name in unknown:
            self.note(f"message.{name}")
        unread = [name for name in _SAID if message.get(name)] + [
            name for name in _WRITTEN if not isinstance(message.get(name, ""), str)
        ]
        for name in unread:
            self.note(f"message.{name}")
        if is_for_us and (unknown or unread or "rich_message" in message):
            raise UnreadableError("nothing in it is known")

    def _stopped(self, stopped: Raw) -> InboundMessage:
        """
        Convert the stop button of a draft. Drafts exist in direct chats only, whose id is the
        user's.
        """
        chat = thing(stopped, "chat")
        source = self._chat(chat, _chat_id(stopped), full_name(chat) or None)
        thread = number(stopped, "message_thread_id")

        return InboundMessage(
            id=f"stop-{stopped.get('draft_id')}",
            event_ids=(self.update_id,),
            source=replace(source, thread_id=None if thread is None else str(thread)),
            sent_at=self.now,
            text="/stop",
            kind=MessageKind.COMMAND,
            addressed_to_bot=True,
        )

    def _moved(self, message: Raw, to: int, event_ids: tuple[str, ...]) -> InboundMessage:
        """Convert the upgrade of a group to a supergroup, which has another id."""
        return InboundMessage(
            id=_message_id(message),
            event_ids=event_ids,
            source=self._source(message),
            sent_at=_time(message, "date", self.now),
            text=str(to),
            kind=MessageKind.MOVED,
        )

    def _pressed(self, press: Raw) -> InboundMessage | None:
        """
        Convert a button press. Its id is that of the message with the button, which the answer
        replies to.
        """
        asked = thing(press, "message")
        data = text(press, "data")
        if not asked or not data:
            return None

        sender = thing(press, "from")
        source = self._chat(thing(asked, "chat"), *_person(sender))
        return InboundMessage(
            id=_message_id(asked),
            event_ids=(self.update_id, f"press:{press.get('id')}"),
            source=replace(source, chat_id=_chat_id(asked), thread_id=_thread(asked)),
            sent_at=self.now,
            text=data,
            kind=MessageKind.BUTTON,
            addressed_to_bot=True,
            from_bot=flag(sender, "is_bot"),
        )

    def _source(self, message: Raw) -> SessionSource:
        _chat_id(message)
        source = self._chat(thing(message, "chat"), *_sender(message))
        return replace(source, thread_id=_thread(message), chat_topic=_topic(message))

    def _chat(self, chat: Raw, who: str | None, name: str | None) -> SessionSource:
        kind = text(chat, "type")
        if kind not in _CHAT_TYPES:
            self.note(f"chat.{kind}")
        return _chat_source(chat, self.me, who, name)

    def _reply_to(self, message: Raw) -> ReplyTo | None:
        """
        Return the message that is replied to. All messages in a topic formally reply to its first
        one, which does not count.
        """
        quoted = text(thing(message, "quote"), "text")
        answered = thing(message, "reply_to_message")
        if answered and "forum_topic_created" not in answered:
            return ReplyTo(
                message_id=str(number(answered, "message_id") or ""),
                text=quoted or text_of(answered, self.note),
                to_bot=number(thing(answered, "from"), "id") == self.me.id,
            )

        elsewhere = thing(message, "external_reply")
        found = number(elsewhere, "message_id")
        if elsewhere and (quoted or found):
            return ReplyTo(message_id=str(found or ""), text=quoted)

        return None

    def _is_addressed(self, message: Raw, command: _Command | None) -> bool:
        is_direct = self._chat(thing(message, "chat"), *_sender(message)).chat_type is ChatType.DM
        if is_direct or (command is not None and command.is_known(self.me)):
            return True
        return "forward_origin" not in message and any(
            call.is_to(self.me) for call in _calls(message)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """`/name@bot` at the beginning of a message."""

    name: str
    bot: str

    def is_for(self, me: Me) -> bool:
        return self.bot in ("", me.username.lower())

    def is_known(self, me: Me) -> bool:
        return bool(self.bot) or self.name in me.commands

    def without_name(self, said: str) -> str:
        """Remove the bot's name: `/new@bot title` becomes `/new title`."""
        called = said[: len(self.name) + 1]
        rest = said[len(self.name) + 1 :]
        return called + rest[len(self.bot) + 1 :] if self.bot else said


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A mention, or a command, which may name a bot. A mention by id has no name in its words."""

    kind: str
    words: str
    user: int | None
    is_first: bool

    def is_to(self, me: Me) -> bool:
        """Check for a mention of the bot, by username or by id."""
        called = self.words.lower()
        name = f"@{me.username.lower()}"
        match self.kind:
            case "text_mention":
                return self.user == me.id
            case "mention":
                return called == name
            case _:
                return called.endswith(name)


def _calls(message: Raw) -> Iterator[_Call]:
    """Yield what calls somebody. No other entity is looked at, so none of them can be wrong."""
    said = words_of(message).encode("utf-16-le")
    name = "entities" if "text" in message else "caption_entities"
    for entity in things(message, name):
        kind = text(entity, "type")
        offset = number(entity, "offset")
        length = number(entity, "length")
        if kind not in ("mention", "text_mention", "bot_command") or offset is None or not length:
            continue
        covered = said[2 * offset : 2 * (offset + length)] if offset >= 0 else b""
        yield _Call(
            kind=kind,
            words=covered.decode("utf-16-le", "replace"),
            user=number(thing(entity, "user"), "id"),
            is_first=offset == 0,
        )

    rich = thing(message, "rich_message")
    is_first = rich_text.begins_with_command(rich)
    for found in rich_text.calls_of(rich):
        yield _Call(
            kind=text(found, "type"),
            words=rich_text.inline(found.get("text")),
            user=number(thing(found, "user"), "id"),
            is_first=is_first,
        )
        is_first = False


def _command(message: Raw) -> _Command | None:
    """Return the command at the beginning, unless the message is forwarded."""
    calls = _calls(message)
    first = next((each for each in calls if each.kind == "bot_command" and each.is_first), None)
    if first is None or "forward_origin" in message:
        return None

    name, _, bot = first.words.removeprefix("/").partition("@")
    return _Command(name=name.lower(), bot=bot.lower())


def _message_id(message: Raw) -> str:
    """Return the id. What only the sender and the bot can see has one of its own."""
    found = number(message, "message_id")
    if found is None:
        raise UnreadableError("a message without an id")
    if found:
        return str(found)
    sender = number(thing(message, "from"), "id") or 0
    ephemeral = Ephemeral(user=sender, number=number(message, "ephemeral_message_id") or 0)
    return ephemeral.id


def _event_id(message: Raw) -> str:
    """Return the id for dedupe; with the time if Telegram will use the id again."""
    event = f"message:{_chat_id(message)}:{_message_id(message)}"
    return event if number(message, "message_id") else f"{event}:{message.get('date')}"


def _chat_id(message: Raw) -> str:
    found = number(thing(message, "chat"), "id")
    if found is None:
        raise UnreadableError("a message without a chat")
    return str(found)


def _time(message: Raw, name: str, otherwise: datetime) -> datetime:
    seconds = number(message, name)
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else otherwise
    except (ValueError, OverflowError, OSError):
        return otherwise


def _thread(message: Raw) -> str | None:
    """
    Return the topic. Plain replies have a thread id too; only the flag marks a topic. The general
    topic is none. Whoever writes to a channel has a topic of another kind.
    """
    direct = number(thing(message, "direct_messages_topic"), "topic_id")
    if direct is not None:
        return f"{DIRECT_TOPIC}{direct}"
    thread = number(message, "message_thread_id")
    return str(thread) if flag(message, "is_topic_message") and thread is not None else None


def _sender(message: Raw) -> tuple[str | None, str | None]:
    """
    Return id and name of the sender. Anonymous admins and channels send as a chat, without a user.
    """
    signature = text(message, "author_signature")
    if text(thing(message, "chat"), "type") == "channel":
        return None, signature or None
    if (behind := thing(message, "sender_chat")) and (chat := number(behind, "id")) is not None:
        return str(chat), signature or text(behind, "title") or None
    return _person(thing(message, "from"))


def _person(user: Raw) -> tuple[str | None, str | None]:
    found = number(user, "id")
    return (None, None) if found is None else (str(found), full_name(user) or None)


def _topic(message: Raw) -> str | None:
    """Return the name of the topic, which only replies to its first message carry."""
    begun = thing(thing(message, "reply_to_message"), "forum_topic_created")
    return text(begun, "name") or None if flag(message, "is_topic_message") else None


def _chat_type(chat: Raw, who: str | None) -> ChatType:
    """Return the kind of a chat. One that is not known is a group, unless it is the user's own."""
    is_own = who is not None and str(number(chat, "id")) == who
    return _CHAT_TYPES.get(text(chat, "type"), ChatType.DM if is_own else ChatType.GROUP)


def _chat_source(chat: Raw, me: Me, who: str | None, name: str | None) -> SessionSource:
    found = number(chat, "id")
    return SessionSource(
        platform=PLATFORM,
        account=me.account,
        chat_type=_chat_type(chat, who),
        chat_id=None if found is None else str(found),
        user_id=who,
        chat_name=text(chat, "title") or None,
        user_name=name,
    )
