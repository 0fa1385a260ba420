"""What has to be looked up before an event is normalised. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.adapters.slack.identity import Kind
from turngate.adapters.slack.json_fields import (
    Json,
    dict_in,
    text_in,
)
from turngate.adapters.slack.sources import Author, MessageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupKeys:
    """
    Chat, thread and user of an event. `thread` is set for replies only, never to the message's own
    ts; `thread_by` is the user who began it, if the event says so.
    """

    chat: str
    thread: str | None = None
    thread_by: str | None = None
    user: str | None = None
    kind: Kind | None = None


def keys_of(body: Json) -> LookupKeys | None:
    """
    Return the keys of any event body; None if it concerns no chat.

    Raises ValueError for a message, a command or a press that names no chat, and for what is no
    event.
    """
    if "command" in body:
        return _named(
            _keys(MessageRef.of({}, text_in(body, "channel_id")), text_in(body, "user_id"))
        )
    if body.get("type") == "block_actions":
        container = dict_in(body, "container")
        message = dict_in(body, "message")
        chat = text_in(container, "channel_id") or text_in(dict_in(body, "channel"), "id")
        ref = MessageRef.of({**message, **_thread_of(container)}, chat)
        keys = _keys(ref, text_in(dict_in(body, "user"), "id"))
        return keys if "view" in body else _named(keys)

    keys = _keys_of_event(dict_in(body, "event"))
    return _named(keys) if _is_speech(body) else keys


def keys_of_message(message: Json, channel: str) -> LookupKeys | None:
    """Return the keys of a message from a history."""
    return _keys(MessageRef.of(message, channel), Author.of(message).user)


def assistant_thread_in(body: Json) -> LookupKeys | None:
    """Return the assistant thread that a user opened or moved, if the event says so."""
    event = dict_in(body, "event")
    thread = dict_in(event, "assistant_thread")

    if (
        event.get("type") not in ("assistant_thread_started", "assistant_thread_context_changed")
        or not thread
    ):
        return None

    return LookupKeys(
        chat=text_in(thread, "channel_id"),
        thread=text_in(thread, "thread_ts"),
        user=text_in(thread, "user_id"),
        kind=Kind.IM,
    )


def _is_speech(body: Json) -> bool:
    """Whether words of a person may be in the event, as far as can be told."""
    if body.get("type", "event_callback") != "event_callback" or "event" not in body:
        return False  # a shortcut or a view, which the manifest does not ask for
    kind = text_in(dict_in(body, "event"), "type")
    return kind in ("", "message", "app_mention")


def _named(keys: LookupKeys | None) -> LookupKeys:
    if keys is None:
        raise ValueError("an event that names no chat")
    return keys


def _keys_of_event(event: Json) -> LookupKeys | None:
    chat = text_in(event, "channel") or text_in(dict_in(event, "item"), "channel")
    inner = dict_in(event, "message") or dict_in(event, "previous_message") or event
    return _keys(
        MessageRef.of(inner, chat, kind=text_in(event, "channel_type")), Author.of(inner).user
    )


def _keys(ref: MessageRef, user: str | None) -> LookupKeys | None:
    return (
        LookupKeys(
            chat=ref.chat,
            thread=ref.thread,
            thread_by=ref.thread_by,
            user=user or None,
            kind=ref.kind,
        )
        if ref.chat
        else None
    )


def _thread_of(container: Json) -> Json:
    names = {"thread_ts": "thread_ts", "ts": "message_ts"}
    return {name: container[key] for name, key in names.items() if key in container}
