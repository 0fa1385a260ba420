"""
Conversion of Slack events to inbound messages. Pure: `tests/golden/slack` has an example of every
kind.

Input is the body of an event (`event_callback`), a slash command or a button press
(`block_actions`), the same by Socket Mode and by HTTP; or, during catch-up, a message of a history.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from turngate.adapters.slack.app.slash import command_of
from turngate.adapters.slack.contents import (
    attachments_of,
    forwarded_text_in,
    is_forward,
    own_text_of,
    unavailable_files_in,
)
from turngate.adapters.slack.identity import BotIdentity, EventContext
from turngate.adapters.slack.json_fields import (
    Json,
    dict_in,
    dicts_in,
    text_in,
)
from turngate.adapters.slack.mrkdwn import to_markdown
from turngate.adapters.slack.rich_text import mentioned_in
from turngate.adapters.slack.sources import (
    Author,
    MessageRef,
    source_of,
)
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    ReplyTo,
)

EventIds = tuple[str, ...]
"""Dedupe ids under which the same event may arrive again."""

_WITHOUT_SPEECH = frozenset(
    [
        "assistant_app_thread",
        "bot_add",
        "bot_disable",
        "bot_enable",
        "bot_remove",
        "channel_archive",
        "channel_canvas_updated",
        "channel_convert_to_private",
        "channel_convert_to_public",
        "channel_join",
        "channel_leave",
        "channel_name",
        "channel_posting_permissions",
        "channel_purpose",
        "channel_topic",
        "channel_unarchive",
        "document_mention",
        "ekm_access_denied",
        "file_mention",
        "group_archive",
        "group_join",
        "group_leave",
        "group_name",
        "group_posting_permissions",
        "group_purpose",
        "group_topic",
        "group_unarchive",
        "huddle_thread",
        "joiner_notification",
        "joiner_notification_for_inviter",
        "message_replied",
        "pinned_item",
        "reminder_add",
        "reminder_delete",
        "sh_room_created",
        "sh_room_shared",
        "slackbot_response",
        "tabbed_canvas_updated",
        "tombstone",
        "unpinned_item",
    ]
)
"""
Message subtypes that report a change of the chat, with words of Slack:
https://docs.slack.dev/reference/events/message. Any other may have words of a person.
"""

SLASH_COMMAND = "command-"
"""Begins the id of a slash command, which is no message."""

_BANG_COMMAND = re.compile(r"!(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?=\s|$)")
_EPOCH = datetime.fromtimestamp(0, UTC)


def normalise(
    body: Json, me: BotIdentity, known: EventContext, now: datetime
) -> InboundMessage | None:
    """
    Return the inbound message, or None if the event is not for the gateway (a user joined, the bot
    wrote it, another workspace).

    Raises ValueError for what is no event of Slack.
    """
    if not me.is_addressed_by(body):
        return None
    if "command" in body:
        return _from_command(body, me, known, now)
    if body.get("type") == "block_actions":
        return _from_button(body, me, known, now)

    if not text_in(dict_in(body, "event"), "type"):
        raise ValueError("an event without a type")
    number = text_in(body, "event_id")
    return _from_event(dict_in(body, "event"), (f"event:{number}",) if number else (), me, known)


def from_history(
    message: Json, channel: str, me: BotIdentity, known: EventContext
) -> InboundMessage | None:
    """
    Convert a message of conversations.history or .replies. Its event id equals that of the live
    event.
    """
    if message.get("type", "message") != "message":
        return None
    return _from_message(message, MessageRef.of(message, channel), (), me, known)


def _from_event(
    event: Json, event_ids: EventIds, me: BotIdentity, known: EventContext
) -> InboundMessage | None:
    match event.get("type"), event.get("subtype"):
        case "message", "message_changed":
            return _from_edit(event, event_ids, me, known)
        case "message", "message_deleted":
            return _from_delete(event, dict_in(event, "previous_message"), event_ids, me, known)
        case "message" | "app_mention", _:
            return _from_message(
                event, MessageRef.of(event, text_in(event, "channel")), event_ids, me, known
            )
        case "reaction_added", _:
            return _from_reaction(event, event_ids, me, known)

    return None


def _from_message(
    message: Json, ref: MessageRef, event_ids: EventIds, me: BotIdentity, known: EventContext
) -> InboundMessage | None:
    author = Author.of(message)
    if text_in(message, "subtype") in _WITHOUT_SPEECH or author.is_self(me):
        return None
    if not ref.ts:
        raise ValueError("a message without a timestamp")

    own = own_text_of(message)
    forwarded = forwarded_text_in(message)
    attachments = attachments_of(message)
    own = "\n".join(filter(None, (own, unavailable_files_in(message))))
    # Nothing to answer, for example a message with an unknown kind of attachment.
    if not (own or forwarded or attachments):
        return None

    words = _without_leading_mention(own, me)
    command = _command(words, me)
    source = source_of(ref, author, me, known)

    return InboundMessage(
        id=ref.ts,
        event_ids=(*event_ids, f"message:{ref.chat}:{ref.ts}"),
        source=source,
        sent_at=moment(ref.ts),
        text=command or "\n\n".join(filter(None, (words, forwarded))),
        kind=MessageKind.NEW if command is None else MessageKind.COMMAND,
        attachments=attachments,
        reply_to=_reply_to(message, ref, source.thread_id, me),
        addressed_to_bot=source.chat_type is ChatType.DM
        or command is not None
        or message.get("type") == "app_mention"
        or mentions(message, me)
        or _is_in_our_thread(message, ref, me, known),
        from_bot=author.is_bot,
        forwarded=is_forward(message),
    )


def _from_edit(
    event: Json, event_ids: EventIds, me: BotIdentity, known: EventContext
) -> InboundMessage | None:
    """
    Convert an edit of the text. Slack sends the same event for link previews and for tombstones.
    """
    message = dict_in(event, "message")
    before = dict_in(event, "previous_message")
    if message.get("subtype") == "tombstone":
        return _from_delete(event, before or message, event_ids, me, known)
    # Link previews arrive as edits without a change of the text.
    if not _words_differ(message, before):
        return None

    ref = MessageRef.of(message, text_in(event, "channel"), kind=text_in(event, "channel_type"))
    normalised = _from_message(message, ref, event_ids, me, known)
    if normalised is None:
        return None

    version = text_in(dict_in(message, "edited"), "ts") or text_in(event, "event_ts", "ts")
    names = (*event_ids, f"edit:{ref.chat}:{ref.ts}:{version}")

    return replace(normalised, kind=MessageKind.EDIT, event_ids=names)


def _words_differ(message: Json, before: Json) -> bool:
    if not before:
        return "edited" in message
    return own_text_of(message) != own_text_of(before)


def _from_delete(
    event: Json, before: Json, event_ids: EventIds, me: BotIdentity, known: EventContext
) -> InboundMessage | None:
    """
    Convert a deletion. Slack does not report who deleted it, so the author counts as the user.
    """
    author = Author.of(before)
    chat = text_in(event, "channel")
    ref = MessageRef.of(
        before, chat, kind=text_in(event, "channel_type"), ts=text_in(event, "deleted_ts")
    )
    if author.is_self(me) or not ref.ts:
        return None

    return InboundMessage(
        id=ref.ts,
        event_ids=(*event_ids, f"delete:{chat}:{ref.ts}"),
        source=source_of(ref, author, me, known),
        sent_at=moment(text_in(event, "event_ts", "ts")),
        kind=MessageKind.DELETE,
        from_bot=bool(before) and author.is_bot,
    )


def _from_reaction(
    event: Json, event_ids: EventIds, me: BotIdentity, known: EventContext
) -> InboundMessage | None:
    """Convert a reaction. Slack does not report the thread of the message."""
    item = dict_in(event, "item")
    author = Author.of(event)
    if item.get("type") != "message" or author.is_self(me):
        return None

    ref = MessageRef.of({}, text_in(item, "channel"), ts=text_in(item, "ts"))
    return InboundMessage(
        id=ref.ts,
        event_ids=event_ids
        or (f"reaction:{ref.chat}:{ref.ts}:{author.id}:{text_in(event, 'event_ts')}",),
        source=replace(source_of(ref, author, me, known), thread_id=None),
        sent_at=moment(text_in(event, "event_ts")),
        text=f":{text_in(event, 'reaction')}:",
        kind=MessageKind.REACTION,
    )


def _from_command(
    body: Json, me: BotIdentity, known: EventContext, now: datetime
) -> InboundMessage:
    """Convert a slash command. It has no ts and is never given in a thread."""
    trigger = text_in(body, "trigger_id") or now.isoformat()
    name = command_of(text_in(body, "command"))
    kind = "im" if body.get("channel_name") == "directmessage" else ""
    ref = MessageRef.of({}, text_in(body, "channel_id"), kind=kind)
    author = Author(user=text_in(body, "user_id"), name=text_in(body, "user_name") or None)

    return InboundMessage(
        id=f"{SLASH_COMMAND}{trigger}",
        event_ids=(f"command:{trigger}",),
        source=source_of(ref, author, me, known),
        sent_at=now,
        text=f"/{name} {to_markdown(text_in(body, 'text'))}".strip(),
        kind=MessageKind.COMMAND,
        addressed_to_bot=True,
    )


def _from_button(
    body: Json, me: BotIdentity, known: EventContext, now: datetime
) -> InboundMessage | None:
    """
    Convert a button press. Its id is that of the message with the button, so that the answer can be
    matched.
    """
    container = dict_in(body, "container")
    message = dict_in(body, "message")
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
    pressed_at = text_in(action, "action_ts") or text_in(body, "trigger_id")
    press = f"press:{chat}:{ts}:{author.id}:{pressed_at}"

    return InboundMessage(
        id=ts,
        event_ids=(press,),
        source=source_of(MessageRef.of({"thread_ts": thread}, chat, ts=ts), author, me, known),
        sent_at=now,
        text=text_in(action, "value"),
        kind=MessageKind.BUTTON,
        addressed_to_bot=True,
    )


def _without_leading_mention(words: str, me: BotIdentity) -> str:
    """Remove a mention of the bot at the beginning, unless nothing else would be left."""
    called = re.match(rf"\s*<@{re.escape(me.user)}>[\s,:]*", words)
    return words[called.end() :] or words if called else words


def _command(words: str, me: BotIdentity) -> str | None:
    """
    Return the command as `/name`.

    Slack does not allow `/new` in threads, so `!new` is accepted; so is `/new` after a mention of
    the bot.
    """
    called = _BANG_COMMAND.match(words)
    if called is not None and called["name"].lower() in me.commands:
        return f"/{words[1:]}"

    name = words[1:].split(maxsplit=1)[:1] if words.startswith("/") else []
    return words if name and name[0].lower() in me.commands else None


def mentions(message: Json, me: BotIdentity) -> bool:
    """Whether the author's own text mentions the bot. Mentions in shared messages do not count."""
    called = re.search(rf"<@{re.escape(me.user)}[|>]", text_in(message, "text"))
    return called is not None or me.user in mentioned_in(dicts_in(message, "blocks"))


def _is_in_our_thread(message: Json, ref: MessageRef, me: BotIdentity, known: EventContext) -> bool:
    """Whether the bot started the thread, wrote in it or was mentioned there."""
    if ref.thread is None or not me.follow_threads:
        return False
    return known.takes_part or message.get("parent_user_id") == me.user


def _reply_to(
    message: Json, ref: MessageRef, thread: str | None, me: BotIdentity
) -> ReplyTo | None:
    """
    Return the thread's parent as the replied-to message, where threads are not conversations of
    their own.
    """
    if ref.thread is None or thread is not None:
        return None

    words = own_text_of(dict_in(message, "root"))
    return ReplyTo(
        message_id=ref.thread, text=words, to_bot=message.get("parent_user_id") == me.user
    )


def moment(ts: str) -> datetime:
    """Parse a timestamp (which is also a message id), to the microsecond."""
    seconds, _, fraction = ts.partition(".")
    if not seconds.isdecimal() or not (fraction or "0").isdecimal():
        return _EPOCH
    return datetime.fromtimestamp(int(seconds), UTC) + timedelta(
        microseconds=int(f"{fraction:0<6}"[:6])
    )
