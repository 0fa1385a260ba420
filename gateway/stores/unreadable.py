"""
Messages that cannot be stored as they are: events that no adapter could convert, and messages with
a value of the wrong type.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.messages import InboundMessage, MessageKind, SessionSource
from turngate.gateway.domain.serialization import from_dict, to_dict
from turngate.gateway.domain.store_values import LONGEST_RAW

NOT_READ = "inbound message {} could not be read, so it cannot be answered as it is"


def make_sure_it_can_be_read(message: InboundMessage) -> None:
    """Raise MalformedRecord for a message that could be written but not read again."""
    try:
        from_dict(InboundMessage, json.loads(json.dumps(to_dict(message))))
    # An object that is no text or number has no dict form, and fails in its own way.
    except (TypeError, ValueError, AttributeError, RecursionError) as exc:
        raise MalformedRecord(f"the message cannot be stored: {exc}") from exc


def with_raw_only(message: InboundMessage) -> InboundMessage:
    """Return an unreadable event as it is stored: without text, its raw form cut to the limit."""
    raw = (message.raw or "").encode("utf-8", "replace")[:LONGEST_RAW]
    return replace(
        message,
        kind=MessageKind.UNREADABLE,
        raw=raw.decode("utf-8", "ignore"),
        text="",
        attachments=(),
        reply_to=None,
    )


def as_unreadable(message: InboundMessage, now: datetime) -> InboundMessage:
    """Return a message with a value of the wrong type as an event that could not be converted."""
    source = message.source
    sent_at: object = message.sent_at
    raw: object = message.raw
    # Ids are text by now, whatever they were. Names and the rest may be the wrong value.
    kept = SessionSource(
        platform=source.platform,
        account=source.account,
        chat_type=source.chat_type,
        chat_id=source.chat_id,
        user_id=source.user_id,
        thread_id=source.thread_id,
        user_id_alt=source.user_id_alt,
        chat_id_alt=source.chat_id_alt,
        scope=source.scope,
    )
    return InboundMessage(
        id=str(message.id),
        event_ids=tuple(map(str, message.event_ids)),
        source=kept,
        sent_at=sent_at if isinstance(sent_at, datetime) else now,
        kind=MessageKind.UNREADABLE,
        raw=raw if isinstance(raw, str) else repr(message),
    )


def refusable(message: InboundMessage, now: datetime) -> InboundMessage:
    """Return a message as it is recorded when it is refused: without words, and readable."""
    wordless = message.wordless
    try:
        make_sure_it_can_be_read(wordless)
    except MalformedRecord:
        return as_unreadable(wordless, now).wordless
    return wordless
