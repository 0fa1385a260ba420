"""
The events of a terminal conversation on the control socket, each an object with its name as only
key.
"""

from __future__ import annotations

from dataclasses import dataclass

from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Settled,
)
from turngate.gateway.domain.serialization import (
    Json,
    from_dict,
    to_dict,
)

LARGEST_MESSAGE = 1024 * 1024
"""In bytes of UTF-8. More than this is a file, not a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCommand:
    """A command that works in chat, without its slash, and what it does."""

    name: str
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first event: the commands that the daemon understands."""

    commands: tuple[ChatCommand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A message from the terminal. The same id again is the same message."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStored:
    """The message is stored and will be answered."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStored:
    """The message was refused or could not be stored, and is not answered."""

    id: str
    reason: str


ChatEvent = Hello | MessageStored | NotStored | Began | Happened | Arrived | Settled | FellBehind

_NAMES: dict[type, str] = {
    Hello: "hello",
    MessageStored: "stored",
    NotStored: "refused",
    Began: "began",
    Happened: "happened",
    Arrived: "arrived",
    Settled: "settled",
    FellBehind: "fell_behind",
}
_CLASSES = {name: cls for cls, name in _NAMES.items()}


def event_json(event: ChatEvent) -> Json:
    """Return an event as JSON for the socket."""
    return {_NAMES[type(event)]: to_dict(event)}


def event_of(line: Json) -> ChatEvent | None:
    """
    Return the event in a line. None for an event of a newer daemon, which is not shown. Raises
    MalformedRecord.
    """
    if not isinstance(line, dict) or len(line) != 1:
        raise MalformedRecord("an event is an object with one key")
    [(name, fields)] = line.items()
    cls = _CLASSES.get(name)
    return None if cls is None else from_dict(cls, fields)
