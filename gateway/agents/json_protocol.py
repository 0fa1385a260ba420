"""
The events protocol as JSON: a turn as one document, each event as another.

Documents written here contain only what an agent needs; ids in them are already pseudonyms. Events
come from programs and services of others, so every field is checked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator

import structlog

from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Done,
    File,
    Send,
    Tool,
    ToolStatus,
    Turn,
    Usage,
)
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.serialization import Json, to_dict
from turngate.gateway.domain.session import Session, SessionEnded
from turngate.gateway.domain.text import cut, folded
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Reasoning,
    Role,
    Text,
)
from turngate.gateway.observability.logs import Action

_MOST_MONEY = 1e12
_LONGEST_WORDS = 300


def turn_document(turn: Turn) -> dict[str, Json]:
    """Return the turn as docs/agents.md describes it."""
    return {
        "turn": turn.id,
        "session": _session(turn),
        "source": _source(turn.source),
        "system": turn.system,
        "context": turn.context,
        "history": [_entry(entry) for entry in _without_orphans(turn.history)],
        "messages": [_message(message) for message in turn.messages],
        "workdir": turn.workdir,
    }


def ending_document(ending: SessionEnded) -> dict[str, Json]:
    """Return the notification that a session has ended."""
    return {
        # A turn has no type, so an agent can tell the two apart.
        "type": "session_end",
        "session": {
            "id": ending.id,
            "title": ending.title,
            "goal": ending.goal,
            "reason": ending.reason.value,
            "started_at": ending.started_at.isoformat(),
            "ended_at": ending.ended_at.isoformat(),
            "shared": ending.shared,
        },
        "source": _source(ending.source),
        "history": [_entry(entry) for entry in _without_orphans(ending.history)],
        "workdir": ending.workdir,
    }


def written(document: Json) -> bytes:
    """Return a document as one line of UTF-8, without the line break."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def answer_document(ask: str, option: str | None) -> dict[str, Json]:
    """Return the answer to a question; `option` is None if there was no answer in time."""
    return {"type": "answer", "id": ask, "option": option}


def steer_document(text: str) -> dict[str, Json]:
    """Return a message for a turn that runs."""
    return {"type": "steer", "text": text}


STOP: dict[str, Json] = {"type": "stop"}


def read_event(line: str | bytes) -> AgentEvent | None:
    """
    Parse one line; None if it is empty or its type is unknown to this version. Raises AgentError.
    """
    if not line.strip():
        return None

    try:
        document = json.loads(line)
    # Deeply nested JSON exceeds Python's recursion limit.
    except (ValueError, RecursionError) as exc:
        raise AgentError(
            "the agent said something that is not JSON, where each line is one event"
        ) from exc

    return event_of(document)


def event_of(document: object) -> AgentEvent | None:
    """Convert a decoded document, as `read_event` does. Raises AgentError."""
    if not isinstance(document, dict):
        raise AgentError(
            f"the agent said something that is not an event: a {type(document).__name__}"
        )

    fields = _Fields(document)
    read = _READERS.get(fields.text("type"))
    if read is None:
        structlog.get_logger().debug("an unknown event was left out", action=Action.AGENT)
        return None

    return read(fields)


class _Fields:
    """The fields of one event, checked as they are read. An error names the event and the field."""

    def __init__(self, document: dict[str, object]) -> None:
        self._document = document

    def text(self, name: str) -> str:
        value = self._document.get(name)
        if not isinstance(value, str):
            raise self._mistake(name, "must be a text")
        return _clean(value)

    def text_or_none(self, name: str) -> str | None:
        return None if self._document.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """Return a count: 0 if it is missing, fractions cut off."""
        value = self._document.get(name)
        if value is None:
            return 0
        # In Python `true` is an int, and its JSON parser accepts NaN and Infinity.
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not -math.inf < value < math.inf
        ):
            raise self._mistake(name, "must be a number")

        return int(value)

    def money(self, name: str) -> float | None:
        value = self._document.get(name)
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value < _MOST_MONEY
        ):
            raise self._mistake(name, "must be a sum of money")
        return float(value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._document.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._mistake(name, "must be a list of texts")
        return tuple(map(_clean, value))

    def written(self, name: str) -> str | None:
        """Return a string unchanged, anything else as JSON."""
        value = self._document.get(name)
        if value is None:
            return None
        return _clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    def json(self, name: str) -> str | None:
        """Return the arguments of a tool call as JSON text, the form in which models write them."""
        value = self._document.get(name)
        return None if value is None else _clean(json.dumps(value, ensure_ascii=False))

    def status(self, name: str) -> ToolStatus:
        try:
            return ToolStatus(self.text(name))
        except ValueError as exc:
            raise self._mistake(name, f"must be one of {', '.join(ToolStatus)}") from exc

    def _mistake(self, name: str, what: str) -> AgentError:
        kind = self._document.get("type")
        # Only a known type is quoted: the message is shown to users and logged.
        of = f" {kind}" if isinstance(kind, str) and kind in _READERS else ""
        return AgentError(f"the agent's event{of} is wrong: {name} {what}")


def _tool(fields: _Fields) -> Tool:
    return Tool(
        id=fields.text("id"),
        name=fields.text("name"),
        status=fields.status("status"),
        title=fields.text_or_none("title"),
        input=fields.json("input"),
        output=fields.written("output"),
    )


def _usage(fields: _Fields) -> Usage:
    return Usage(
        input=fields.number("input"),
        output=fields.number("output"),
        cache_read=fields.number("cache_read"),
        cache_write=fields.number("cache_write"),
        cost_usd=fields.money("cost_usd"),
    )


def _error(fields: _Fields) -> AgentEvent:
    """Raise AgentError. Services have no exit status to report a failure with."""
    words = fields.text_or_none("text") or fields.text_or_none("message") or "it did not say why"
    raise AgentError(cut(folded(words), _LONGEST_WORDS))


_READERS: dict[str, Callable[[_Fields], AgentEvent]] = {
    "text": lambda fields: Text(fields.text("text")),
    "reasoning": lambda fields: Reasoning(
        text=fields.text("text"), signature=fields.text_or_none("signature")
    ),
    "tool": _tool,
    "file": lambda fields: File(path=fields.text("path"), name=fields.text_or_none("name")),
    "ask": lambda fields: Ask(
        id=fields.text("id"), text=fields.text("text"), options=fields.texts("options")
    ),
    "send": lambda fields: Send(target=fields.text("target"), text=fields.text("text")),
    "usage": _usage,
    "done": lambda _: Done(),
    "error": _error,
}


def _session(turn: Turn) -> Json:
    session: Session = turn.session
    notice = session.notice

    return {
        "id": session.id,
        "title": session.title,
        "is_new": not any(entry.origin is not Origin.COMMAND for entry in turn.history),
        "reset": None
        if notice is None
        else {"reason": notice.reason.value, "had_activity": notice.had_activity},
        "goal": session.goal,
        "shared": turn.shared,
    }


def _source(source: SessionSource) -> Json:
    """Return the source with one id per user, also where the platform has two."""
    return {
        "platform": source.platform,
        "account": source.account,
        "chat_type": source.chat_type.value,
        "chat_id": source.chat_id,
        "thread_id": source.thread_id,
        "user_id": source.participant_id,
        "chat_name": source.chat_name,
        "chat_topic": source.chat_topic,
        "user_name": source.user_name,
    }


def _without_orphans(history: Iterable[Entry]) -> Iterator[Entry]:
    """Leave out tool results whose call is not in the history: some models refuse the request."""
    called: set[str] = set()
    for entry in history:
        called.update(call.id for call in entry.tool_calls)
        if entry.role is not Role.TOOL or entry.tool_call_id in called:
            yield entry


def _entry(entry: Entry) -> Json:
    document: dict[str, Json] = {
        "role": entry.role.value,
        "content": [to_dict(block) for block in entry.content],
        "tool_calls": [
            {"id": each.id, "name": each.name, "arguments": each.arguments}
            for each in entry.tool_calls
        ],
    }
    if entry.tool_call_id is not None:
        document["tool_call_id"] = entry.tool_call_id
    if entry.sender is not None:
        document["sender"] = entry.sender
    if entry.sender_name is not None:
        document["sender_name"] = entry.sender_name
    if entry.forwarded:
        document["forwarded"] = True

    return document


def _message(message: InboundMessage) -> Json:
    quoted = message.reply_to
    document: dict[str, Json] = {
        "id": message.id,
        "text": message.text,
        "sender": message.source.participant_id,
        "sender_name": message.source.user_name,
        "reply_to": None if quoted is None else {"text": quoted.text, "to_bot": quoted.to_bot},
        "attachments": [
            {"path": each.path, "mime": each.mime, "name": each.name}
            for each in message.attachments
        ],
    }
    if message.forwarded:
        document["forwarded"] = True
    return document


def _clean(text: str) -> str:
    # JSON escapes can encode half of a surrogate pair, which cannot be stored as UTF-8.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
