"""
From what Slack sends to what a person did. Pure: `tests/golden/slack` has something of every kind.

It arrives as a body: an event (`event_callback`), a slash command or a press of a button (`block_actions`), the same by
Socket Mode and by HTTP; or, when catching up, as a message of a history.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from turngate.adapters.slack.app.slash import command_behind
from turngate.adapters.slack.contents import (
    attachments_of,
    is_forward,
    own_words_of,
    passed_on_in,
    things_in,
)
from turngate.adapters.slack.identity import EventContext, Me
from turngate.adapters.slack.json_fields import Json, dict_in, dicts_in, text_in
from turngate.adapters.slack.mrkdwn import readable
from turngate.adapters.slack.rich_text import mentioned_in
from turngate.adapters.slack.sources import Author, MessageRef, source_of
from turngate.gateway.domain.messages import ChatType, InboundMessage, MessageKind, ReplyTo

Names = tuple[str, ...]
"""Under which one and the same event may come again."""

_SPEECH = frozenset({"", "file_share", "thread_broadcast", "bot_message", "me_message"})
"""The subtypes of messages in which somebody says something. All others tell what happened to a chat."""

_CALLED = re.compile(r"!(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?=\s|$)")
_BEFORE_1970 = datetime.fromtimestamp(0, UTC)


def normalise(body: Json, me: Me, known: EventContext, now: datetime) -> InboundMessage | None:
    """What was done, or None if it concerns no bot: somebody joined, the bot spoke, another workspace is meant."""
    if not me.is_meant_by(body):
        return None
    if "command" in body:
        return _commanded(body, me, known, now)
    if body.get("type") == "block_actions":
        return _pressed(body, me, known, now)
    number = text_in(body, "event_id")
    return _happened(dict_in(body, "event"), (f"event:{number}",) if number else (), me, known)


def from_history(message: Json, channel: str, me: Me, known: EventContext) -> InboundMessage | None:
    """A message of conversations.history or .replies, with the name under which it may arrive as an event, too."""
    if message.get("type", "message") != "message":
        return None
    return _said(message, MessageRef.of(message, channel), (), me, known)


def _happened(event: Json, numbers: Names, me: Me, known: EventContext) -> InboundMessage | None:
    match event.get("type"), event.get("subtype"):
        case "message", "message_changed":
            return _changed(event, numbers, me, known)
        case "message", "message_deleted":
            return _deleted(event, dict_in(event, "previous_message"), numbers, me, known)
        case "message" | "app_mention", _:
            return _said(event, MessageRef.of(event, text_in(event, "channel")), numbers, me, known)
        case "reaction_added", _:
            return _reacted(event, numbers, me, known)
    return None


def _said(
    message: Json, spot: MessageRef, numbers: Names, me: Me, known: EventContext
) -> InboundMessage | None:
    author = Author.of(message)
    if text_in(message, "subtype") not in _SPEECH or author.is_(me) or not spot.ts:
        return None
    own, passed_on, attachments = (
        own_words_of(message),
        passed_on_in(message),
        attachments_of(message),
    )
    own = "\n".join(filter(None, (own, things_in(message))))
    if not (own or passed_on or attachments):
        return None
    words = _without_call(own, me)
    command = _command(words, me)
    source = source_of(spot, author, me, known)
    return InboundMessage(
        id=spot.ts,
        event_ids=(*numbers, f"message:{spot.chat}:{spot.ts}"),
        source=source,
        sent_at=moment(spot.ts),
        text=command or "\n\n".join(filter(None, (words, passed_on))),
        kind=MessageKind.NEW if command is None else MessageKind.COMMAND,
        attachments=attachments,
        reply_to=_reply_to(message, spot, source.thread_id, me),
        addressed_to_bot=source.chat_type is ChatType.DM
        or command is not None
        or message.get("type") == "app_mention"
        or mentions(message, me)
        or _is_in_our_thread(message, spot, me, known),
        from_bot=author.is_bot,
        forwarded=is_forward(message),
    )


def _changed(event: Json, numbers: Names, me: Me, known: EventContext) -> InboundMessage | None:
    """An edit of the words. Slack tells in the same way that a link got its picture, and what becomes a tombstone."""
    message, before = dict_in(event, "message"), dict_in(event, "previous_message")
    if message.get("subtype") == "tombstone":
        return _deleted(event, before or message, numbers, me, known)
    if not _words_differ(message, before):
        return None
    spot = MessageRef.of(message, text_in(event, "channel"), kind=text_in(event, "channel_type"))
    said = _said(message, spot, numbers, me, known)
    if said is None:
        return None
    version = text_in(dict_in(message, "edited"), "ts") or text_in(event, "event_ts", "ts")
    names = (*numbers, f"edit:{spot.chat}:{spot.ts}:{version}")
    return replace(said, kind=MessageKind.EDIT, event_ids=names)


def _words_differ(message: Json, before: Json) -> bool:
    if not before:
        return "edited" in message
    return own_words_of(message) != own_words_of(before)


def _deleted(
    event: Json, before: Json, numbers: Names, me: Me, known: EventContext
) -> InboundMessage | None:
    """Whoever took it away is not told; it was said by whoever wrote it."""
    author = Author.of(before)
    chat = text_in(event, "channel")
    spot = MessageRef.of(
        before, chat, kind=text_in(event, "channel_type"), ts=text_in(event, "deleted_ts")
    )
    if author.is_(me) or not spot.ts:
        return None
    return InboundMessage(
        id=spot.ts,
        event_ids=(*numbers, f"delete:{chat}:{spot.ts}"),
        source=source_of(spot, author, me, known),
        sent_at=moment(text_in(event, "event_ts", "ts")),
        kind=MessageKind.DELETE,
        from_bot=bool(before) and author.is_bot,
    )


def _reacted(event: Json, numbers: Names, me: Me, known: EventContext) -> InboundMessage | None:
    """Where the message stands in a thread Slack does not say."""
    item, author = dict_in(event, "item"), Author.of(event)
    if item.get("type") != "message" or author.is_(me):
        return None
    spot = MessageRef.of({}, text_in(item, "channel"), ts=text_in(item, "ts"))
    return InboundMessage(
        id=spot.ts,
        event_ids=numbers
        or (f"reaction:{spot.chat}:{spot.ts}:{author.id}:{text_in(event, 'event_ts')}",),
        source=replace(source_of(spot, author, me, known), thread_id=None),
        sent_at=moment(text_in(event, "event_ts")),
        text=f":{text_in(event, 'reaction')}:",
        kind=MessageKind.REACTION,
    )


def _commanded(body: Json, me: Me, known: EventContext, now: datetime) -> InboundMessage:
    """A slash command has no ts, and is never given in a thread."""
    trigger, name = (
        text_in(body, "trigger_id") or now.isoformat(),
        command_behind(text_in(body, "command")),
    )
    kind = "im" if body.get("channel_name") == "directmessage" else ""
    spot = MessageRef.of({}, text_in(body, "channel_id"), kind=kind)
    author = Author(user=text_in(body, "user_id"), name=text_in(body, "user_name") or None)
    return InboundMessage(
        id=f"command-{trigger}",
        event_ids=(f"command:{trigger}",),
        source=source_of(spot, author, me, known),
        sent_at=now,
        text=f"/{name} {readable(text_in(body, 'text'))}".strip(),
        kind=MessageKind.COMMAND,
        addressed_to_bot=True,
    )


def _pressed(body: Json, me: Me, known: EventContext, now: datetime) -> InboundMessage | None:
    """Its id is that of the message with the button: that is what an answer is an answer to."""
    container, message = dict_in(body, "container"), dict_in(body, "message")
    action = next((each for each in dicts_in(body, "actions") if text_in(each, "value")), None)
    chat = text_in(container, "channel_id") or text_in(dict_in(body, "channel"), "id")
    ts = text_in(container, "message_ts") or text_in(message, "ts")
    if action is None or not chat or not ts:
        return None
    who = dict_in(body, "user")
    thread = text_in(container, "thread_ts") or text_in(message, "thread_ts")
    author = Author(
        user=text_in(who, "id"),
        name=text_in(who, "name", "username"),
        team=text_in(who, "team_id") or None,
    )
    press = f"press:{chat}:{ts}:{author.id}:{text_in(action, 'action_ts') or text_in(body, 'trigger_id')}"
    return InboundMessage(
        id=ts,
        event_ids=(press,),
        source=source_of(MessageRef.of({"thread_ts": thread}, chat, ts=ts), author, me, known),
        sent_at=now,
        text=text_in(action, "value"),
        kind=MessageKind.BUTTON,
        addressed_to_bot=True,
    )


def _without_call(words: str, me: Me) -> str:
    """A name at the beginning calls, and says nothing; alone it says that somebody calls."""
    called = re.match(rf"\s*<@{re.escape(me.user)}>[\s,:]*", words)
    return words[called.end() :] or words if called else words


def _command(words: str, me: Me) -> str | None:
    """`/new` cannot be written in a thread of Slack, so `!new` means it; so does `/new` behind the bot's name."""
    called = _CALLED.match(words)
    if called is not None and called["name"].lower() in me.commands:
        return f"/{words[1:]}"
    name = words[1:].split(maxsplit=1)[:1] if words.startswith("/") else []
    return words if name and name[0].lower() in me.commands else None


def mentions(message: Json, me: Me) -> bool:
    """Whether it calls the bot, in the words of whoever wrote it. In what he passes on, others are called by others."""
    called = re.search(rf"<@{re.escape(me.user)}[|>]", text_in(message, "text"))
    return called is not None or me.user in mentioned_in(dicts_in(message, "blocks"))


def _is_in_our_thread(message: Json, spot: MessageRef, me: Me, known: EventContext) -> bool:
    """The bot has said something there or was called, or it has begun it."""
    if spot.thread is None or not me.follow_threads:
        return False
    return known.takes_part or message.get("parent_user_id") == me.user


def _reply_to(message: Json, spot: MessageRef, thread: str | None, me: Me) -> ReplyTo | None:
    """Where threads make no conversations, an answer in one is an answer to its beginning."""
    if spot.thread is None or thread is not None:
        return None
    words = own_words_of(dict_in(message, "root"))
    return ReplyTo(
        message_id=spot.thread, text=words, to_bot=message.get("parent_user_id") == me.user
    )


def moment(ts: str) -> datetime:
    """The time that a message has for a name, to the microsecond."""
    seconds, _, fraction = ts.partition(".")
    if not seconds.isdecimal() or not (fraction or "0").isdecimal():
        return _BEFORE_1970
    return datetime.fromtimestamp(int(seconds), UTC) + timedelta(
        microseconds=int(f"{fraction:0<6}"[:6])
    )
