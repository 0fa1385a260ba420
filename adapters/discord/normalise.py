"""
From what Discord tells to what a person did. Pure: `tests/golden/discord` has an event of every kind.

Messages come through the gateway and out of a channel's history, as the same JSON, so that both are read here. Whether
the bot is meant Discord itself says (`mentions`), but a reply calls whom it answers without his name in the text: that
is a reply, and no mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from turngate.adapters.discord.channels import Names, Payload, Place
from turngate.adapters.discord.contents import attachments_of, forwarded_in, words_of
from turngate.adapters.discord.ids import time_of
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
    "MESSAGE_REACTION_ADD",
    "INTERACTION_CREATE",
)
"""The events that mean something here."""

# What people write, replies, and what other bots answer to commands. The rest tells that somebody joined, pinned,
# boosted; a thread's first message (21) points at the message in the parent that was there before.
_SPOKEN = (0, 19, 20, 23)
_FORWARD = 1
_LOADING = 1 << 7
_COMMAND, _PRESS = 2, 3
_CHAT_INPUT, _BUTTON = 1, 2
_SUBCOMMANDS = (1, 2)
_TYPED = re.compile(r"[/!]([a-z][\w-]*)(?=\s|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """
    The bot itself: what Discord calls it, what the config calls it, and the commands that it knows.

    `roles` are those that Discord made for it, one in each server: whoever calls such a role means the bot. `threads`:
    what it is asked in a channel it answers in a thread of its own.
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
    place: Place,
    me: Me,
    now: datetime,
    names: Names = Names(),  # noqa: B008 - frozen
) -> InboundMessage | None:
    """
    What was done, or None if it concerns no bot: somebody joined, a link got its picture, the bot itself wrote.

    A message out of a channel's history is a MESSAGE_CREATE. `place` is the channel that the payload names, `now` the
    time of events to which Discord gives none.
    """
    match event:
        case "MESSAGE_CREATE":
            return _said(payload, place, me, names, MessageKind.NEW)
        case "MESSAGE_UPDATE" if _is_edit(payload):
            return _said(payload, place, me, names, MessageKind.EDIT)
        case "MESSAGE_DELETE":
            return _deleted(payload, place, me, now)
        case "MESSAGE_REACTION_ADD":
            return _reacted(payload, place, me, now)
        case "INTERACTION_CREATE":
            return _interacted(payload, place, me, now)
    return None


def lacks_content(message: Payload) -> bool:
    """
    Whether a person wrote something that was kept from us: Discord takes no empty messages, and so makes none.

    The sign of a bot without the message content intent. Direct messages and mentions are never kept from it.
    """
    is_empty = not (_words(message) or attachments_of(message))
    is_person = not _is_bot(message) and not int(message.get("flags") or 0) & _LOADING
    return is_empty and is_person and message.get("type", 0) in _SPOKEN


def _is_edit(message: Payload) -> bool:
    """Discord also tells of pins, threads and the pictures of links, which change no word; some of it has no author."""
    return bool(message.get("edited_timestamp")) and "author" in message


def _said(
    message: Payload, place: Place, me: Me, names: Names, kind: MessageKind
) -> InboundMessage | None:
    attachments, words, is_forward = (
        attachments_of(message),
        _words(message),
        bool(forwarded_in(message)),
    )
    is_own = str(message["author"]["id"]) == me.id
    if is_own or message.get("type", 0) not in _SPOKEN or not (words or attachments):
        return None
    text = readable(
        words if is_forward else _without_call(words, me), names, bot=me.id, bot_name=me.name
    )
    command = None if is_forward else _command(text, me)
    reply_to = _reply_to(message, me, names)
    is_addressed = place.is_dm or (not is_forward and _is_called(message, me))
    source = _source(place, me, *_author(message))
    if command is None and (is_addressed or (reply_to is not None and reply_to.to_bot)):
        source = _answered_at(source, place, me, str(message["id"]))
    return InboundMessage(
        id=str(message["id"]),
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
    """When it was said; without a word of that, by its id."""
    moment = time_of(int(message["id"]))
    with suppress(ValueError, TypeError):
        moment = datetime.fromisoformat(message.get("timestamp") or "")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _words(message: Payload) -> str:
    """Its own, and those that it forwards."""
    return "\n".join(filter(None, map(words_of, (message, *forwarded_in(message)))))


def _answered_at(source: SessionSource, place: Place, me: Me, message: str) -> SessionSource:
    """A thread that is made from a message has the id of the message, so that its key is known before it is there."""
    if not me.threads or not place.can_have_threads:
        return source
    return replace(source, chat_type=ChatType.THREAD, thread_id=message)


def _event_id(message: Payload, kind: MessageKind) -> str:
    """Of an edit with its time: what is told of it again, because of a picture or a pin, is not told twice."""
    if kind is MessageKind.EDIT:
        return f"edit:{message['id']}:{message['edited_timestamp']}"
    return f"message:{message['id']}"


def _is_bot(message: Payload) -> bool:
    return bool(message["author"].get("bot")) or message.get("webhook_id") is not None


def _author(message: Payload) -> tuple[str, str | None]:
    author, member = message["author"], message.get("member") or {}
    return str(author["id"]), member.get("nick") or _name(author)


def _name(user: Payload) -> str | None:
    return user.get("global_name") or user.get("username")


def _is_called(message: Payload, me: Me) -> bool:
    """By name or by its role, in the text: neither by a reply nor together with everybody."""
    content = message.get("content") or ""
    called = message.get("mentions")
    # Discord says whom it has called; a server that does not leaves it to the text.
    is_told = called is None or any(str(user["id"]) == me.id for user in called)
    roles = {str(role) for role in message.get("mention_roles") or ()} & me.roles
    by_name = is_told and any(call in content for call in (f"<@{me.id}>", f"<@!{me.id}>"))
    return by_name or any(f"<@&{role}>" in content for role in roles)


def _without_call(words: str, me: Me) -> str:
    """Whoever calls the bot does it at the beginning, and says then what it is about. A call alone stays."""
    calls = "|".join(
        map(
            re.escape,
            (f"<@{me.id}>", f"<@!{me.id}>", *(f"<@&{role}>" for role in sorted(me.roles))),
        )
    )
    return re.sub(rf"^\s*(?:{calls})[\s,:]*", "", words) or words


def _command(text: str, me: Me) -> str | None:
    """Typed instead of chosen, `/new title` or `!new title`: one that we know, as it is understood everywhere."""
    typed = _TYPED.match(text)
    if typed is None or typed[1].lower() not in me.commands:
        return None
    return f"/{typed[1].lower()}{text[typed.end() :]}"


def _reply_to(message: Payload, me: Me, names: Names) -> ReplyTo | None:
    """What is answered, which may be gone. A forward refers to something too, and answers nobody."""
    reference = message.get("message_reference")
    if message.get("type", 0) != 19 or not reference or reference.get("type", 0) == _FORWARD:
        return None
    answered = message.get("referenced_message")
    if not answered:
        return ReplyTo(message_id=str(reference.get("message_id") or ""))
    return ReplyTo(
        message_id=str(answered["id"]),
        text=readable(_words(answered), names, bot=me.id, bot_name=me.name),
        to_bot=str(answered["author"]["id"]) == me.id,
    )


def _deleted(gone: Payload, place: Place, me: Me, now: datetime) -> InboundMessage:
    """Discord does not say whose message it was."""
    return InboundMessage(
        id=str(gone["id"]),
        event_ids=(f"delete:{gone['id']}",),
        source=_source(place, me, None, None),
        sent_at=now,
        kind=MessageKind.DELETE,
    )


def _reacted(reaction: Payload, place: Place, me: Me, now: datetime) -> InboundMessage | None:
    who, emoji, member = str(reaction["user_id"]), reaction["emoji"], reaction.get("member") or {}
    if who == me.id:
        return None
    user = member.get("user") or {}
    sign = f":{emoji['name']}:" if emoji.get("id") else emoji["name"]
    return InboundMessage(
        id=str(reaction["message_id"]),
        event_ids=(f"reaction:{reaction['message_id']}:{who}:{emoji.get('id') or emoji['name']}",),
        source=_source(place, me, who, member.get("nick") or _name(user)),
        sent_at=now,
        text=sign,
        kind=MessageKind.REACTION,
        from_bot=bool(user.get("bot")),
    )


def _interacted(interaction: Payload, place: Place, me: Me, now: datetime) -> InboundMessage | None:
    """A slash command or a press, whose id is that of the message with the button: an answer answers that."""
    data, member = interaction.get("data") or {}, interaction.get("member") or {}
    user = member.get("user") or interaction.get("user")
    if user is None:
        return None
    if interaction["type"] == _COMMAND and data.get("type", _CHAT_INPUT) == _CHAT_INPUT:
        id_, text, kind = (
            interaction["id"],
            " ".join((f"/{data['name']}", *_options(data))),
            MessageKind.COMMAND,
        )
    elif interaction["type"] == _PRESS and data.get("component_type", _BUTTON) == _BUTTON:
        id_, text, kind = interaction["message"]["id"], data["custom_id"], MessageKind.BUTTON
    else:
        return None
    return InboundMessage(
        id=str(id_),
        event_ids=(f"interaction:{interaction['id']}",),
        source=_source(place, me, str(user["id"]), member.get("nick") or _name(user)),
        sent_at=now,
        text=text,
        kind=kind,
        addressed_to_bot=True,
        from_bot=bool(user.get("bot")),
    )


def _options(data: Payload) -> Iterator[str]:
    """What was filled in, in order; a command inside a command is a word of it."""
    for option in data.get("options") or ():
        if option.get("type") in _SUBCOMMANDS:
            yield option["name"]
            yield from _options(option)
        else:
            yield str(option["value"])


def _source(place: Place, me: Me, who: str | None, name: str | None) -> SessionSource:
    """A thread belongs to its parent, and what it is about is its name."""
    there = SessionSource(
        platform=PLATFORM, account=me.account, chat_id=place.channel, user_id=who, user_name=name
    )
    if place.is_dm:
        return there
    there = replace(there, scope=place.guild, chat_type=ChatType.GROUP)
    if not place.is_thread:
        return replace(
            there, chat_name=_titled(place.guild_name, place.name), chat_topic=place.topic
        )
    return replace(
        there,
        chat_type=ChatType.THREAD,
        chat_id=place.parent,
        thread_id=place.channel,
        chat_name=_titled(place.guild_name, place.parent_name),
        chat_topic=place.name,
    )


def _titled(guild: str | None, channel: str | None) -> str | None:
    """`Friends #general`."""
    return " ".join(filter(None, (guild, channel and f"#{channel}"))) or None
