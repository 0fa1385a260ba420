"""
What somebody with a screen open on a conversation is shown, event by event; the web chat and the terminal speak it.

All of it is a preview or a hint. What is true stands in the transcript, and a screen reads it from there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from turngate.gateway.domain.messages import AgentEvent, Part, SessionSource, Tool, TurnId


@dataclass(slots=True, kw_only=True)
class Live:
    """A turn as it stands: the text so far, and the tools in the order in which they were first seen."""

    turn: TurnId
    messages: tuple[str, ...]
    pieces: list[str] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The pieces as one; kept apart until somebody asks, or a long answer would be copied at every word."""
        return "".join(self.pieces)

    def at_this_moment(self) -> Live:
        """A copy that stands still."""
        return replace(self, pieces=[self.text], tools=dict(self.tools))


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The messages with these ids are being answered."""

    turn: TurnId
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """The agent said or did something."""

    turn: TurnId
    event: AgentEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Something to read, which is in the transcript too. It takes the place of the preview of its turn."""

    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Nothing more comes for these messages."""

    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FellBehind:
    """This screen was too slow and has missed something: read the transcript, then watch again."""


Shown = Began | Happened | Arrived | Settled | FellBehind


class Watch(Protocol):
    """One screen."""

    @property
    def live(self) -> Live | None:
        """The turn that was running when the screen was opened. Everything since then comes through `next`."""

    async def next(self) -> Shown:
        """What is to be shown next; safe to cancel. After FellBehind this screen is worth nothing: open another."""


class Screens(Protocol):
    """All screens of one of our own platforms."""

    def source(self, conversation: str) -> SessionSource:
        """Where a conversation takes place."""

    async def say(self, conversation: str, message_id: str, text: str) -> None:
        """
        What somebody typed. Returning means stored; the same id again is the same message, and is not said twice.

        Raises Refused with the reason, StoreError if it could not be stored, Unreachable while nobody listens.
        """

    def watch(self, conversation: str) -> AbstractContextManager[Watch]:
        """Open a screen; leaving the block closes it."""
