"""What is kept of a session: entries and the blocks they consist of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from turngate.gateway.domain.ids import EntryId


class Role(StrEnum):
    """The role of an entry."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Origin(StrEnum):
    """How an entry came into the transcript."""

    CHAT = "chat"
    # Written by the gateway or for it: users can read it, agents are never shown it.
    COMMAND = "command"
    DELIVERY = "delivery"
    SUMMARY = "summary"


class MediaType(StrEnum):
    """The kind of a block that is not text."""

    IMAGE = "image"
    AUDIO = "audio"
    DOCUMENT = "document"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Text:
    """Text: a block of a message, and an event of an agent."""

    type: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """A block that is not text. The bytes stay in a file."""

    type: MediaType
    path: str | None = None
    mime: str | None = None
    name: str | None = None


Block = Text | Media


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """A model's reasoning; some models need it back, signed, with the call it led to."""

    type: ClassVar[str] = "reasoning"
    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of the assistant; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One row of a transcript. The store assigns `seq` (order) and `id` (stable); until then they are
    empty.

    `sets_aside` are earlier entries that agents are no longer shown, because the agent refused
    them. `sender_name` is kept where several people may write. What is `forwarded` was written by
    somebody else than the sender.
    """

    role: Role
    content: tuple[Block, ...]
    at: datetime
    origin: Origin = Origin.CHAT
    seq: int = 0
    id: EntryId = EntryId("")
    sender: str | None = None
    message_id: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: Reasoning | None = None
    tokens: int | None = None
    latency_ms: int | None = None
    sets_aside: tuple[EntryId, ...] = ()
    sender_name: str | None = None
    forwarded: bool = False

    @property
    def text(self) -> str:
        """The text blocks together."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))
