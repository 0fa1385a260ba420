"""
Frames of the chat's WebSocket, each a JSON object with a "type".

Frames from the browser are parsed and validated here, frames to the browser are written here: this
file is the protocol. Labels are cleaned before they are sent; text of users and agents is sent
unchanged, and the page escapes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from turngate.gateway.domain.agent_events import (
    AgentEvent,
    File,
    Tool,
)
from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.live_view import Live
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.outbox import Does, Part
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.text import clean_label
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    Reasoning,
    Text,
)

Frame = dict[str, Json]
T = TypeVar("T")

# Must match NAME in static/js/main.js.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMELESS = "New conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Follow this conversation from now on."""

    conversation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """Request the entries before the one with this sequence number."""

    conversation: str
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A message. The id dedupes it."""

    conversation: str
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """The press of a button of an open question. The id dedupes it."""

    conversation: str
    id: str
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Set the title of a conversation; an empty one removes it."""

    conversation: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Archive a conversation, or undo that."""

    conversation: str
    archived: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a conversation."""

    conversation: str


Asked = Open | Earlier | Say | Press | Rename | Archive | Delete


def parse(text: str) -> Asked:
    """Parse a frame of the browser. Raises MalformedRecord."""
    try:
        data = json.loads(text)
    # RecursionError: JSON that is nested too deeply.
    except (ValueError, RecursionError) as exc:
        raise MalformedRecord("this frame is not JSON") from exc

    if not isinstance(data, dict):
        raise MalformedRecord("a frame is a JSON object")

    conversation = _name(data, "conversation")
    match data.get("type"):
        case "open":
            return Open(conversation=conversation)
        case "earlier":
            return Earlier(conversation=conversation, before=_value(data, "before", int))
        case "say":
            return Say(
                conversation=conversation, id=_name(data, "id"), text=_value(data, "text", str)
            )
        case "press":
            return Press(
                conversation=conversation, id=_name(data, "id"), nonce=_value(data, "nonce", str)
            )
        case "rename":
            return Rename(conversation=conversation, title=_value(data, "title", str))
        case "archive":
            return Archive(conversation=conversation, archived=_value(data, "archived", bool))
        case "delete":
            return Delete(conversation=conversation)
        case _:
            raise MalformedRecord("this type of frame is unknown; reload the page")


def _value(data: Mapping[str, object], field: str, kind: type[T]) -> T:
    value = data.get(field)
    # Not isinstance: True is an int in Python.
    if type(value) is not kind:
        raise MalformedRecord(f"{field} must be of type {kind.__name__}")
    return value


def _name(data: Mapping[str, object], field: str) -> str:
    value = _value(data, field, str)
    if not _NAME.fullmatch(value):
        raise MalformedRecord(f"{field} must be 1 to 64 letters, digits, - or _")
    return value


def written(frame: Frame) -> str:
    """Serialize a frame, as ASCII: a lone surrogate cannot break it."""
    return json.dumps(frame, separators=(",", ":"))


def hello(commands: Iterable[tuple[str, str, str]], longest_message: int) -> Frame:
    """Return the first frame of a socket."""
    listed: list[Json] = [
        {"name": name, "arguments": hint, "help": line} for name, hint, line in commands
    ]
    return {"type": "hello", "commands": listed, "longest_message": longest_message}


def conversations(sessions: Sequence[Session]) -> Frame:
    """Return the list, last used first."""
    return {
        "type": "conversations",
        "conversations": [_conversation(each) for each in sessions if each.origin.chat_id],
    }


def snapshot(
    conversation: str,
    session: Session | None,
    page: tuple[Sequence[Entry], str],
    waiting: Sequence[InboundMessage],
    questions: Sequence[Part],
    live: Live | None,
) -> Frame:
    """Return the whole conversation; the page discards what it had."""
    entries, earlier = page

    return {
        "type": "snapshot",
        "conversation": conversation,
        "session": session.id if session else None,
        "name": name_of(session),
        "entries": [_entry(entry) for entry in entries],
        "earlier": earlier,
        "waiting": [_waiting(message) for message in waiting],
        "questions": [_question(part) for part in questions],
        "live": _live(live) if live else None,
    }


def entries(conversation: str, new: Sequence[Entry]) -> Frame:
    """Return entries that were added to the transcript."""
    return {
        "type": "entries",
        "conversation": conversation,
        "entries": [_entry(entry) for entry in new],
    }


def earlier(conversation: str, page: tuple[Sequence[Entry], str]) -> Frame:
    """
    Return a page of older entries; `earlier` says whether there are more: here, elsewhere, or none.
    """
    found, more = page
    return {
        "type": "earlier",
        "conversation": conversation,
        "entries": [_entry(entry) for entry in found],
        "earlier": more,
    }


def waiting(conversation: str, messages: Sequence[InboundMessage]) -> Frame:
    """Return the stored messages that are not part of a turn yet."""
    return {
        "type": "waiting",
        "conversation": conversation,
        "waiting": [_waiting(message) for message in messages],
    }


def questions(conversation: str, open_: Sequence[Part]) -> Frame:
    """Return the questions that are open now."""
    return {
        "type": "questions",
        "conversation": conversation,
        "questions": [_question(part) for part in open_],
    }


def about_turn(
    kind: str, conversation: str, turn: int | None, messages: Sequence[str] = ()
) -> Frame:
    """
    Return a frame about a turn: it `began`, its answer `arrived`, or its messages are `settled`.
    """
    return {"type": kind, "conversation": conversation, "turn": turn, "messages": list(messages)}


def happened(conversation: str, turn: int, event: AgentEvent) -> Frame | None:
    """Return an agent event of a turn, or None if there is nothing to show."""
    shown = _event(event)
    return shown and {
        "type": "happened",
        "conversation": conversation,
        "turn": turn,
        "event": shown,
    }


def answer(kind: str, **fields: Json) -> Frame:
    """Return the result of a request: `stored`, `refused`, `unstored` or `error`."""
    return {"type": kind, **fields}


def name_of(session: Session | None) -> str:
    """Return the title of a conversation, or its preview."""
    if session is None:
        return _NAMELESS
    return clean_label(session.title or "") or clean_label(session.preview) or _NAMELESS


def _conversation(session: Session) -> Json:
    return {
        "conversation": session.origin.chat_id,
        "name": name_of(session),
        "titled": bool(session.title),
        "at": session.last_interaction_at.isoformat(),
        "archived": session.archived,
    }


def _entry(entry: Entry) -> Json:
    media = [block for block in entry.content if isinstance(block, Media)]
    return {
        "seq": entry.seq,
        "id": entry.id,
        "role": entry.role.value,
        "origin": entry.origin.value,
        "text": entry.text,
        "at": entry.at.isoformat(),
        "message_id": entry.message_id,
        "tool_calls": [
            {"id": call.id, "name": clean_label(call.name), "input": call.arguments}
            for call in entry.tool_calls
        ],
        "tool_call_id": entry.tool_call_id,
        "files": [clean_label(block.name or block.type.value) for block in media],
    }


def _waiting(message: InboundMessage) -> Json:
    return {"id": message.id, "text": message.text, "at": message.sent_at.isoformat()}


def _question(part: Part) -> Json:
    is_said = part.question is not None and part.question.does is Does.RERUN
    return {
        "id": part.id,
        # The transcript has the words of a notice already.
        "text": "" if is_said else part.text,
        "options": [
            {"label": clean_label(button.label), "nonce": button.nonce} for button in part.buttons
        ],
    }


def _live(live: Live) -> Json:
    return {
        "turn": live.turn,
        "messages": list(live.messages),
        "text": live.text,
        "tools": [_event(tool) for tool in live.tools.values()],
    }


def _event(event: AgentEvent) -> Frame | None:
    match event:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Reasoning():
            # Without its text: the page only shows that the agent is thinking.
            return {"type": "reasoning"}
        case Tool():
            return {
                "type": "tool",
                "id": event.id,
                "name": clean_label(event.name),
                "title": clean_label(event.title or ""),
                "status": event.status.value,
                "input": event.input,
                "output": event.output,
            }
        case File():
            return {"type": "file", "name": clean_label(event.name or "file")}
        case _:
            # A question comes with its buttons, as a part.
            return None
