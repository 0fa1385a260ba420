"""
From an update of Telegram to an inbound message. Pure: `tests/golden/telegram` has an update of
every kind.

Mentions, commands and names are recognised by entities and never by the text alone:
`foo@bot.example` mentions nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from zlib import crc32

from aiogram.types import (
    CallbackQuery,
    Chat,
    InaccessibleMessage,
    Message,
    MessageEntity,
    MessageGenerationStopped,
    MessageReactionUpdated,
    ReactionTypeEmoji,
    Update,
    User,
)

from turngate.adapters.telegram.contents import attachments_of, text_of
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    ReplyTo,
    SessionSource,
)

PLATFORM = "telegram"
HANDLED = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "message_reaction",
    "stopped_message_generation",
)
"""The kinds of updates that are requested."""

_CHAT_TYPES = {
    "private": ChatType.DM,
    "group": ChatType.GROUP,
    "supergroup": ChatType.GROUP,
    "channel": ChatType.CHANNEL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The bot: its id and name on Telegram, its account name, and its commands."""

    id: int
    username: str
    account: str
    commands: frozenset[str] = frozenset()


def normalise(update: Update, me: Me, now: datetime) -> InboundMessage | None:
    """
    Convert an update. None if it is not for the bot: a user joined, a title changed, another bot
    was addressed.
    """
    number = f"update:{update.update_id}"
    if (posted := update.message or update.channel_post) is not None:
        if posted.migrate_to_chat_id is not None:
            return _moved(posted, posted.migrate_to_chat_id, me, number)
        return _message(
            posted, me, (number, f"message:{posted.chat.id}:{posted.message_id}"), MessageKind.NEW
        )

    if (edited := update.edited_message or update.edited_channel_post) is not None:
        # A message can be edited twice within a second: the time alone identifies no edit.
        version = f"{edited.edit_date}:{crc32(text_of(edited).encode('utf-8', 'replace'))}"
        return _message(
            edited,
            me,
            (number, f"edit:{edited.chat.id}:{edited.message_id}:{version}"),
            MessageKind.EDIT,
        )

    if update.callback_query is not None:
        return _pressed(update.callback_query, me, number, now)
    if update.message_reaction is not None:
        return _reacted(update.message_reaction, me, number)
    if update.stopped_message_generation is not None:
        return _stopped(update.stopped_message_generation, me, number, now)

    return None


def _message(
    message: Message, me: Me, event_ids: tuple[str, ...], kind: MessageKind
) -> InboundMessage | None:
    text = text_of(message)
    attachments = attachments_of(message)
    command = _command(message)
    is_own = message.from_user is not None and message.from_user.id == me.id
    if is_own or not (text or attachments) or (command is not None and not command.is_for(me)):
        return None

    if command is not None:
        text = command.without_name(text)
        kind = MessageKind.COMMAND if kind is MessageKind.NEW else kind

    return InboundMessage(
        id=str(message.message_id),
        event_ids=event_ids,
        source=_source(message, me),
        sent_at=message.date,
        text=text,
        kind=kind,
        attachments=attachments,
        reply_to=_reply_to(message, me),
        addressed_to_bot=_is_addressed(message, me, command),
        from_bot=message.from_user is not None
        and message.from_user.is_bot
        and message.sender_chat is None,
        forwarded=message.forward_origin is not None,
    )


def _stopped(
    stopped: MessageGenerationStopped, me: Me, number: str, now: datetime
) -> InboundMessage:
    """
    Convert the stop button of a draft. Drafts exist in direct chats only, whose id is the user's.
    """
    source = _chat_source(stopped.chat, me, str(stopped.chat.id), stopped.chat.full_name)
    thread = None if stopped.message_thread_id is None else str(stopped.message_thread_id)

    return InboundMessage(
        id=f"stop-{stopped.draft_id}",
        event_ids=(number,),
        source=replace(source, thread_id=thread),
        sent_at=now,
        text="/stop",
        kind=MessageKind.COMMAND,
        addressed_to_bot=True,
    )


def _moved(message: Message, to: int, me: Me, number: str) -> InboundMessage:
    """Convert the upgrade of a group to a supergroup, which has another id."""
    return InboundMessage(
        id=str(message.message_id),
        event_ids=(number, f"message:{message.chat.id}:{message.message_id}"),
        source=_source(message, me),
        sent_at=message.date,
        text=str(to),
        kind=MessageKind.MOVED,
    )


def _source(message: Message, me: Me) -> SessionSource:
    source = _chat_source(message.chat, me, *_sender(message))
    return replace(source, thread_id=_thread(message), chat_topic=_topic(message))


def _thread(message: Message) -> str | None:
    """
    Return the topic. Plain replies have a thread id too; only the flag marks a topic. The general
    topic is none.
    """
    return str(message.message_thread_id) if message.is_topic_message else None


def _sender(message: Message) -> tuple[str | None, str | None]:
    """
    Return id and name of the sender. Anonymous admins and channels send as a chat, without a user.
    """
    if message.chat.type == "channel":
        return None, message.author_signature
    if message.sender_chat is not None:
        return str(message.sender_chat.id), message.author_signature or message.sender_chat.title
    return _person(message.from_user)


def _person(user: User | None) -> tuple[str | None, str | None]:
    return (None, None) if user is None else (str(user.id), user.full_name)


def _topic(message: Message) -> str | None:
    """Return the name of the topic, which only replies to its first message carry."""
    begun = message.reply_to_message and message.reply_to_message.forum_topic_created
    return begun.name if begun and message.is_topic_message else None


def _reply_to(message: Message, me: Me) -> ReplyTo | None:
    """
    Return the message that is replied to. All messages in a topic formally reply to its first one,
    which does not count.
    """
    quoted = message.quote.text if message.quote is not None else None
    answered = message.reply_to_message
    if answered is not None and answered.forum_topic_created is None:
        to_bot = answered.from_user is not None and answered.from_user.id == me.id
        return ReplyTo(
            message_id=str(answered.message_id), text=quoted or text_of(answered), to_bot=to_bot
        )

    elsewhere = message.external_reply
    if elsewhere is not None and (quoted or elsewhere.message_id):
        return ReplyTo(message_id=str(elsewhere.message_id or ""), text=quoted or "")

    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """`/name@bot` at the beginning of a message."""

    name: str
    bot: str

    def is_for(self, me: Me) -> bool:
        return self.bot in ("", me.username.lower())

    def is_known(self, me: Me) -> bool:
        return bool(self.bot) or self.name in me.commands

    def without_name(self, text: str) -> str:
        """Remove the bot's name: `/new@bot title` becomes `/new title`."""
        called = text[: len(self.name) + 1]
        rest = text[len(self.name) + 1 :]
        return called + rest[len(self.bot) + 1 :] if self.bot else text


def _command(message: Message) -> _Command | None:
    """Return the command at the beginning, unless the message is forwarded."""
    first = next(
        (each for each in _entities(message) if each.type == "bot_command" and each.offset == 0),
        None,
    )
    if first is None or message.forward_origin is not None:
        return None

    name, _, bot = (
        first.extract_from(message.text or message.caption or "").removeprefix("/").partition("@")
    )
    return _Command(name=name.lower(), bot=bot.lower())


def _is_addressed(message: Message, me: Me, command: _Command | None) -> bool:
    if message.chat.type == "private" or (command is not None and command.is_known(me)):
        return True
    return message.forward_origin is None and any(
        _mentions(each, message, me) for each in _entities(message)
    )


def _mentions(entity: MessageEntity, message: Message, me: Me) -> bool:
    """Check for a mention of the bot, by username or by id."""
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == me.id
    called = entity.extract_from(message.text or message.caption or "").lower()
    name = f"@{me.username.lower()}"
    return (entity.type == "mention" and called == name) or (
        entity.type == "bot_command" and called.endswith(name)
    )


def _entities(message: Message) -> Iterator[MessageEntity]:
    yield from message.entities or message.caption_entities or ()


def _pressed(press: CallbackQuery, me: Me, number: str, now: datetime) -> InboundMessage | None:
    """
    Convert a button press. Its id is that of the message with the button, which the answer replies
    to.
    """
    asked = press.message
    if asked is None or press.data is None:
        return None

    who, name = _person(press.from_user)
    thread = None if isinstance(asked, InaccessibleMessage) else _thread(asked)

    return InboundMessage(
        id=str(asked.message_id),
        event_ids=(number, f"press:{press.id}"),
        source=replace(_chat_source(asked.chat, me, who, name), thread_id=thread),
        sent_at=now,
        text=press.data,
        kind=MessageKind.BUTTON,
        addressed_to_bot=True,
        from_bot=press.from_user.is_bot,
    )


def _reacted(reaction: MessageReactionUpdated, me: Me, number: str) -> InboundMessage:
    """Convert a reaction: all current emoji, none if they were removed."""
    who, name = _person(reaction.user)
    if reaction.actor_chat is not None:
        who = str(reaction.actor_chat.id)
        name = reaction.actor_chat.title

    return InboundMessage(
        id=str(reaction.message_id),
        event_ids=(number,),
        source=_chat_source(reaction.chat, me, who, name),
        sent_at=reaction.date,
        text="".join(
            each.emoji for each in reaction.new_reaction if isinstance(each, ReactionTypeEmoji)
        ),
        kind=MessageKind.REACTION,
        from_bot=reaction.user is not None and reaction.user.is_bot,
    )


def _chat_source(chat: Chat, me: Me, who: str | None, name: str | None) -> SessionSource:
    return SessionSource(
        platform=PLATFORM,
        account=me.account,
        chat_type=_CHAT_TYPES[chat.type],
        chat_id=str(chat.id),
        user_id=who,
        chat_name=chat.title,
        user_name=name,
    )
