"""
From Discord's events to inbound messages. Pure: `tests/golden/discord` has an event of every kind.

Messages from the gateway and from a channel's history are the same JSON and are both read here.
Discord lists mentioned users (`mentions`), but a reply also lists its addressee without a name in
the text: that counts as a reply, not as a mention.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from turngate.adapters.discord.channels import (
    Channel,
    Names,
)
from turngate.adapters.discord.contents import (
    attachments_of,
    forwarded_in,
    text_of,
)
from turngate.adapters.discord.ids import time_of
from turngate.adapters.discord.json_fields import (
    Payload,
    id_in,
    ids_in,
    is_set,
    needed_id,
    number_in,
    object_in,
    objects_in,
    text_in,
)
from turngate.adapters.discord.mentions import readable
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    ReplyTo,
    SessionSource,
)

PLATFORM = "discord"
HANDLED = (
    "MESSAGE_CREATE",
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "INTERACTION_CREATE",
)
"""The events that become messages."""

# Discord's own notices: joined, pinned, boosted; a thread's first message (21) only points at its
# message in the parent channel. Types that are not known yet are read as messages.
# https://docs.discord.com/developers/resources/message#message-object-message-types
_NOTICES = frozenset(
    {*range(1, 13), *range(14, 19), 21, 22, *range(24, 30), 31, 32, *range(36, 40), 44, 46}
)
_REPLY = 19
_FORWARD = 1
_LOADING = 1 << 7
_COMMAND = 2
_PRESS = 3
_CHAT_INPUT = 1
_BUTTON = 2
_SUBCOMMANDS = (1, 2)
_TYPED = re.compile(r"[/!]([a-z][\w-]*)(?=\s|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """
    The bot: its id and name on Discord, its account name, and its commands.

    `roles` are those that Discord created for it; mentioning one mentions the bot. `threads`: it
    answers in a new thread.
    """

    id: str
    name: str
    account: str
    roles: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    threads: bool = False


def normalise(
    event: str,
    payload: Payload,
    chat: Channel,
    me: Me,
    now: datetime,
    names: Names = Names(),  # noqa: B008 - frozen
) -> InboundMessage | None:
    """
    Convert an event. None if it is not for the bot: a user joined, a link got its preview, the bot
    wrote it.

    A message from history is a MESSAGE_CREATE. `chat` is the payload's channel, `now` the time of
    events without one.
    """
    match event:
        case "MESSAGE_CREATE":
            return _message(payload, chat, me, names, MessageKind.NEW)
        case "MESSAGE_UPDATE" if _is_edit(payload):
            return _message(payload, chat, me, names, MessageKind.EDIT)
        case "MESSAGE_DELETE":
            return _deleted(payload, chat, me, now)
        case "INTERACTION_CREATE":
            return _interacted(payload, chat, me, now)

    return None


UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What an event of an unknown form raises here."""


def unreadable(
    event: str, payload: Payload, chat: Channel, me: Me, now: datetime
) -> InboundMessage:
    """
    Wrap an event that cannot be converted, with as much of its source as can be read. A message
    from a history does not name its server, so that is noted beside it.
    """
    known_as = {"t": event, "d": payload, "guild_id": chat.guild}
    raw = json.dumps(known_as, ensure_ascii=False, default=str)
    digest = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    id_ = id_in(payload, "id")
    claim = {"MESSAGE_CREATE": "message", "INTERACTION_CREATE": "interaction"}.get(event)
    member = object_in(payload, "member")
    user = object_in(payload, "author") or object_in(member, "user") or object_in(payload, "user")
    return InboundMessage(
        id=id_ or digest,
        # The id that a message has in the history too, so that it is set aside only once.
        event_ids=(f"{claim}:{id_}" if claim and id_ else f"unreadable:{digest}",),
        source=_source(chat, me, id_in(user, "id"), None),
        sent_at=now,
        kind=MessageKind.UNREADABLE,
        addressed_to_bot=chat.is_dm,
        from_bot=is_set(user, "bot"),
        raw=raw,
    )


def lacks_content(message: Payload) -> bool:
    """
    Check for a user's message without content, which Discord would not accept.

    It means that the message content intent is off. Direct messages and mentions always have
    content.
    """
    is_empty = not (_words(message) or attachments_of(message))
    is_person = not _is_bot(message) and not (number_in(message, "flags") or 0) & _LOADING
    return is_empty and is_person and number_in(message, "type") not in _NOTICES


def _is_edit(message: Payload) -> bool:
    """
    Check for a changed text: pins, threads and link previews also send updates, some without an
    author.
    """
    return bool(message.get("edited_timestamp")) and "author" in message


def _message(
    message: Payload, chat: Channel, me: Me, names: Names, kind: MessageKind
) -> InboundMessage | None:
    id_ = needed_id(message, "id")
    author = needed_id(object_in(message, "author"), "id")
    attachments = attachments_of(message)
    words = _words(message)
    is_forward = bool(forwarded_in(message))
    is_notice = number_in(message, "type") in _NOTICES
    if author == me.id or is_notice or not (words or attachments):
        return None

    text = readable(
        words if is_forward else _without_mention(words, me), names, bot=me.id, bot_name=me.name
    )
    command = None if is_forward else _command(text, me)
    reply_to = _reply_to(message, me, names)
    is_addressed = chat.is_dm or (not is_forward and _is_mentioned(message, me))
    source = _source(chat, me, author, _author_name(message))
    if command is None and (is_addressed or (reply_to is not None and reply_to.to_bot)):
        source = _in_own_thread(source, chat, me, id_)

    return InboundMessage(
        id=id_,
        event_ids=(_event_id(message, kind),),
        source=source,
        sent_at=sent_at(message),
        text=command or text,
        kind=MessageKind.COMMAND if command and kind is MessageKind.NEW else kind,
        attachments=attachments,
        reply_to=reply_to,
        addressed_to_bot=is_addressed,
        from_bot=_is_bot(message),
        forwarded=is_forward,
    )


def sent_at(message: Payload) -> datetime:
    """Return the time of a message; without a timestamp, by its id."""
    moment = time_of(int(needed_id(message, "id")))
    with suppress(ValueError):
        moment = datetime.fromisoformat(text_in(message, "timestamp") or "")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _words(message: Payload) -> str:
    """Join its own text and forwarded texts."""
    return "\n".join(filter(None, map(text_of, (message, *forwarded_in(message)))))


def _in_own_thread(source: SessionSource, chat: Channel, me: Me, message: str) -> SessionSource:
    """
    Move the source to the thread of its own. A thread created from a message has the message's id,
    so the session key is known before it exists.
    """
    if not me.threads or not chat.can_have_threads:
        return source
    return replace(source, chat_type=ChatType.THREAD, thread_id=message)


def _event_id(message: Payload, kind: MessageKind) -> str:
    """Return the dedupe id; of an edit with its time, as pins and previews repeat the update."""
    if kind is MessageKind.EDIT:
        return f"edit:{needed_id(message, 'id')}:{message['edited_timestamp']}"
    return f"message:{needed_id(message, 'id')}"


def _is_bot(message: Payload) -> bool:
    author = object_in(message, "author")
    return is_set(author, "bot") or message.get("webhook_id") is not None


def _author_name(message: Payload) -> str | None:
    return text_in(object_in(message, "member"), "nick") or _name(object_in(message, "author"))


def _name(user: Payload) -> str | None:
    return text_in(user, "global_name") or text_in(user, "username")


def _is_mentioned(message: Payload, me: Me) -> bool:
    """Check for a mention by name or role in the text; replies and @everyone do not count."""
    content = text_in(message, "content") or ""
    # Discord lists the mentioned users; on servers that do not, only the text counts.
    is_listed = isinstance(message.get("mentions"), list)
    called = (id_in(user, "id") for user in objects_in(message, "mentions"))
    is_mentioned = not is_listed or me.id in called
    roles = me.roles.intersection(ids_in(message, "mention_roles"))
    by_name = is_mentioned and any(call in content for call in (f"<@{me.id}>", f"<@!{me.id}>"))
    return by_name or any(f"<@&{role}>" in content for role in roles)


def _without_mention(words: str, me: Me) -> str:
    """Remove the bot's mention from the beginning, unless nothing else is left."""
    calls = "|".join(
        map(
            re.escape,
            (f"<@{me.id}>", f"<@!{me.id}>", *(f"<@&{role}>" for role in sorted(me.roles))),
        )
    )
    return re.sub(rf"^\s*(?:{calls})[\s,:]*", "", words) or words


def _command(text: str, me: Me) -> str | None:
    """Return a typed command the bot knows (`/new title` or `!new title`) in the slash form."""
    typed = _TYPED.match(text)
    if typed is None or typed[1].lower() not in me.commands:
        return None
    return f"/{typed[1].lower()}{text[typed.end() :]}"


def _reply_to(message: Payload, me: Me, names: Names) -> ReplyTo | None:
    """Return the message that is replied to, which may be deleted. A forward is not a reply."""
    reference = object_in(message, "message_reference")
    is_forward = number_in(reference, "type") == _FORWARD
    if number_in(message, "type") != _REPLY or not reference or is_forward:
        return None

    answered = object_in(message, "referenced_message")
    id_ = id_in(answered, "id")
    if id_ is None:
        return ReplyTo(message_id=id_in(reference, "message_id") or "")

    return ReplyTo(
        message_id=id_,
        text=readable(_words(answered), names, bot=me.id, bot_name=me.name),
        to_bot=id_in(object_in(answered, "author"), "id") == me.id,
    )


def _deleted(gone: Payload, chat: Channel, me: Me, now: datetime) -> InboundMessage:
    """Convert a deletion; Discord does not name the author."""
    id_ = needed_id(gone, "id")
    return InboundMessage(
        id=id_,
        event_ids=(f"delete:{id_}",),
        source=_source(chat, me, None, None),
        sent_at=now,
        kind=MessageKind.DELETE,
    )


def _interacted(
    interaction: Payload, chat: Channel, me: Me, now: datetime
) -> InboundMessage | None:
    """
    Convert a slash command or a press. A press has the id of the message with the button, which the
    answer replies to.
    """
    data = object_in(interaction, "data")
    member = object_in(interaction, "member")
    user = object_in(member, "user") or object_in(interaction, "user")
    if not user:
        return None

    kind = number_in(interaction, "type")
    if kind == _COMMAND and data.get("type", _CHAT_INPUT) == _CHAT_INPUT:
        id_ = needed_id(interaction, "id")
        text = " ".join((f"/{_needed_text(data, 'name')}", *_options(data)))
        means = MessageKind.COMMAND
    elif kind == _PRESS and data.get("component_type", _BUTTON) == _BUTTON:
        id_ = needed_id(object_in(interaction, "message"), "id")
        text = _needed_text(data, "custom_id")
        means = MessageKind.BUTTON
    else:
        return None

    return InboundMessage(
        id=id_,
        event_ids=(f"interaction:{needed_id(interaction, 'id')}",),
        source=_source(chat, me, needed_id(user, "id"), text_in(member, "nick") or _name(user)),
        sent_at=now,
        text=text,
        kind=means,
        addressed_to_bot=True,
        from_bot=is_set(user, "bot"),
    )


def _needed_text(value: Payload, name: str) -> str:
    text = text_in(value, name)
    if text is None:
        raise ValueError(f"an interaction has no {name}")
    return text


def _options(data: Payload) -> Iterator[str]:
    """Yield the options in order; subcommands as words."""
    for option in objects_in(data, "options"):
        if number_in(option, "type") in _SUBCOMMANDS:
            yield text_in(option, "name") or ""
            yield from _options(option)
        elif isinstance(value := option.get("value"), str | int | float):
            yield str(value)


def _source(chat: Channel, me: Me, who: str | None, name: str | None) -> SessionSource:
    """Build the source. A thread belongs to its parent channel, and its name is the topic."""
    there = SessionSource(
        platform=PLATFORM, account=me.account, chat_id=chat.channel, user_id=who, user_name=name
    )
    if chat.is_dm:
        return there

    there = replace(there, scope=chat.guild, chat_type=ChatType.GROUP)
    if not chat.is_thread:
        return replace(there, chat_name=_titled(chat.guild_name, chat.name), chat_topic=chat.topic)

    return replace(
        there,
        chat_type=ChatType.THREAD,
        chat_id=chat.parent,
        thread_id=chat.channel,
        chat_name=_titled(chat.guild_name, chat.parent_name),
        chat_topic=chat.name,
    )


def _titled(guild: str | None, channel: str | None) -> str | None:
    """Join the names: `Friends #general`."""
    return " ".join(filter(None, (guild, channel and f"#{channel}"))) or None
