"""What an agent is given (a turn) and what it reports while it answers (events)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import ClassVar

from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import (
    Entry,
    Reasoning,
    Text,
)


class ToolStatus(StrEnum):
    """The progress of a tool."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """
    Everything the agent may know. `shared`: several users may write, so each must be named.

    `redact` is the last step for every text that is made of a turn, over its final form: ids and
    numbers that a file holds, or that come together when texts are cleaned and joined, are replaced
    there. `mark_key` makes marks around other people's words that they cannot guess.
    """

    id: TurnId
    session: Session
    source: SessionSource
    messages: tuple[InboundMessage, ...]
    history: tuple[Entry, ...] = ()
    system: str = ""
    context: str = ""
    workdir: str | None = None
    shared: bool = False
    redact: Callable[[str], str] = field(default=str, repr=False, compare=False)
    mark_key: bytes = field(
        default_factory=partial(secrets.token_bytes, 16), repr=False, compare=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool at work."""

    type: ClassVar[str] = "tool"
    id: str
    name: str
    status: ToolStatus
    title: str | None = None
    input: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file for the user."""

    type: ClassVar[str] = "file"
    path: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question with options."""

    type: ClassVar[str] = "ask"
    id: str
    text: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A message to another chat."""

    type: ClassVar[str] = "send"
    target: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and cost, as the agent reports them."""

    type: ClassVar[str] = "usage"
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The agent has finished."""

    type: ClassVar[str] = "done"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The agent has too much to do and is asked again after so many seconds. Not an output."""

    type: ClassVar[str] = "waiting"
    seconds: float


AgentEvent = Text | Reasoning | Tool | File | Ask | Send | Usage | Waiting | Done


WAITING = "waiting"
"""The name under which screens show a pause among the tools."""


class RunEnd(StrEnum):
    """How an agent's run ended."""

    DONE = "done"
    STOPPED = "stopped"
    SILENT = "silent"
    FAILED = "failed"


LONGEST_ANSWER = 2_000_000
"""
In characters, tools and thoughts included: an agent that never stops talking must not fill memory
and disk.
"""
