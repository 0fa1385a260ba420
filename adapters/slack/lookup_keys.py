"""What is worth looking up before a body is normalised. Pure, like that."""

from __future__ import annotations

from dataclasses import dataclass

from turngate.adapters.slack.identity import Kind
from turngate.adapters.slack.json_fields import Json, dict_in, text_in
from turngate.adapters.slack.sources import Author, MessageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupKeys:
    """Where it happened and who did it. `thread` is that of a reply, never a message's own ts."""

    chat: str
    thread: str | None = None
    user: str | None = None
    kind: Kind | None = None


def about(body: Json) -> LookupKeys | None:
    """Of any body; None if it is about no chat."""
    if "command" in body:
        return _about(MessageRef.of({}, text_in(body, "channel_id")), text_in(body, "user_id"))
    if body.get("type") == "block_actions":
        container, message = dict_in(body, "container"), dict_in(body, "message")
        chat = text_in(container, "channel_id") or text_in(dict_in(body, "channel"), "id")
        spot = MessageRef.of({**message, **_thread_of(container)}, chat)
        return _about(spot, text_in(dict_in(body, "user"), "id"))
    return _about_event(dict_in(body, "event"))


def about_message(message: Json, channel: str) -> LookupKeys | None:
    """Of a message of a history."""
    return _about(MessageRef.of(message, channel), Author.of(message).user)


def assistants_thread(body: Json) -> LookupKeys | None:
    """The thread that somebody's assistant's pane has begun or moved to, if that is what happened."""
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


def _about_event(event: Json) -> LookupKeys | None:
    chat = text_in(event, "channel") or text_in(dict_in(event, "item"), "channel")
    said = dict_in(event, "message") or dict_in(event, "previous_message") or event
    return _about(
        MessageRef.of(said, chat, kind=text_in(event, "channel_type")), Author.of(said).user
    )


def _about(spot: MessageRef, user: str | None) -> LookupKeys | None:
    return (
        LookupKeys(chat=spot.chat, thread=spot.thread, user=user or None, kind=spot.kind)
        if spot.chat
        else None
    )


def _thread_of(container: Json) -> Json:
    names = {"thread_ts": "thread_ts", "ts": "message_ts"}
    return {name: container[key] for name, key in names.items() if key in container}
