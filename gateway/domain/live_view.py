"""
Events for screens that follow a session live: the web chat and the terminal.

All of it is a preview. The transcript is the truth, and a screen reads it from there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from turngate.gateway.domain.agent_events import AgentEvent, Tool
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import Part


@dataclass(slots=True, kw_only=True)
class Live:
    """A running turn: the text so far, and its tools in order of appearance."""

    turn: TurnId
    messages: tuple[str, ...]
    pieces: list[str] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """
        The text in one piece; joined only on demand, or a long answer would be copied at every
        word.
        """
        return "".join(self.pieces)

    def at_this_moment(self) -> Live:
        """Return a copy that no longer changes."""
        # The turn goes on: a shared list would show its later text twice, here and as events.
        return replace(self, pieces=[self.text], tools=dict(self.tools))


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The messages with these ids are being answered."""

    turn: TurnId
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """The agent reported an event."""

    turn: TurnId
    event: AgentEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A message that is in the transcript too. It replaces the preview of its turn."""

    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Nothing more comes for these messages."""

    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FellBehind:
    """This screen was too slow and has missed events: read the transcript, then watch again."""


Shown = Began | Happened | Arrived | Settled | FellBehind


class Watch(Protocol):
    """One open screen."""

    @property
    def live(self) -> Live | None:
        """
        The turn that was running when the screen was opened. Later events come through `next`.
        """

    async def next(self) -> Shown:
        """Return the next event; safe to cancel. After FellBehind, open a new watch."""


class Screens(Protocol):
    """All screens of one of our own platforms."""

    def source(self, conversation: str) -> SessionSource:
        """Return the source of a conversation."""

    async def say(self, conversation: str, message_id: str, text: str) -> None:
        """
        Send what a user typed. When it returns, the message is stored; the same id again is
        deduplicated.

        Raises Refused with the reason, StoreError if it could not be stored, Unreachable while the
        gateway is not receiving.
        """

    async def press(self, conversation: str, message_id: str, nonce: str) -> None:
        """Press the button with this nonce. Same errors as `say`."""

    def watch(self, conversation: str) -> AbstractContextManager[Watch]:
        """Open a watch; leaving the block closes it."""
