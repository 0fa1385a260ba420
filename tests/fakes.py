"""
What stands behind our own ports in tests: a clock that moves when told to, an agent with a script,
an adapter that remembers; and short ways to make values.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from turngate.gateway.domain.agent_events import AgentEvent, Turn
from turngate.gateway.domain.ids import SessionId, TurnId
from turngate.gateway.domain.messages import (
    Attachment,
    ChatType,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import Limits, Receive
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)
from turngate.gateway.turns.quarantine import Quarantine

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)

Step = AgentEvent | BaseException | asyncio.Event | float
Piece = bytes | BaseException | asyncio.Event
Answering = Callable[[Turn], AsyncIterator[AgentEvent]]


class FrozenClock:
    """Stands still until it is moved."""

    def __init__(self, start: datetime = NOON) -> None:
        self.time = start
        self._elapsed = 0.0

    def now(self) -> datetime:
        """Where the hands were put."""
        return self.time

    def monotonic(self) -> float:
        """What has passed, by `advance` alone."""
        return self._elapsed

    def advance(self, **amount: float) -> None:
        """Let time pass."""
        self.jump(**amount)
        self._elapsed += max(timedelta(**amount).total_seconds(), 0.0)

    def jump(self, **amount: float) -> None:
        """Move the hands, backwards too, while no time passes."""
        self.time += timedelta(**amount)


class WrongClock:
    """Wrong by so much, and always was."""

    def __init__(self, **ahead: float) -> None:
        self._ahead = timedelta(**ahead)

    def now(self) -> datetime:
        """What it shows."""
        return datetime.now(UTC) + self._ahead

    def monotonic(self) -> float:
        """What nobody can set wrong."""
        return time.monotonic()


async def add_entries(store: Store, session: SessionId, entries: Sequence[Entry]) -> None:
    """Add entries outside a turn, as a notice does."""
    await store.tell(session, entries=entries, parts=())


def dm(user: str = "42", *, platform: str = "telegram") -> SessionSource:
    """A direct message from one person."""
    return SessionSource(
        platform=platform,
        chat_type=ChatType.DM,
        chat_id=user,
        user_id=user,
        user_name=f"Ann {user}",
    )


def message(
    text: str = "hello",
    *,
    id: str = "1",  # noqa: A002
    source: SessionSource | None = None,  # noqa: A002, RUF100
) -> InboundMessage:
    """A plain message with the two names a platform may repeat it under."""
    source = source or dm()
    return InboundMessage(
        id=id,
        event_ids=(f"update:{source.chat_id}:{id}", f"message:{source.chat_id}:{id}"),
        source=source,
        text=text,
        sent_at=NOON,
    )


def said(role: Role, text: str, *, origin: Origin = Origin.CHAT, at: datetime = NOON) -> Entry:
    """One entry of plain text."""
    return Entry(role=role, content=(Text(text),), at=at, origin=origin)


def user(text: str) -> Entry:
    """A person's words."""
    return said(Role.USER, text)


def assistant(text: str) -> Entry:
    """The agent's words."""
    return said(Role.ASSISTANT, text)


class ScriptedAgent:
    """Says what its script says: events, exceptions to raise, and things to wait for."""

    def __init__(self, *script: Step, answer: Answering | None = None) -> None:
        self._script = script
        self._answer = answer
        self.turns: list[Turn] = []
        self.closed = 0

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """One turn of the script, or what `answer` makes of the turn."""
        self.turns.append(turn)
        try:
            async for event in self._answer(turn) if self._answer else _play(self._script):
                yield event
        finally:
            self.closed += 1


async def _play(script: Sequence[Step]) -> AsyncGenerator[AgentEvent]:
    for step in script:
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, asyncio.Event):
            await step.wait()
        elif isinstance(step, float):
            await asyncio.sleep(step)
        else:
            yield step


class RecordingAdapter:
    """Takes what it is given, unless the next of its outcomes is an error to raise."""

    def __init__(self, *outcomes: BaseException | None, platform: str = "web") -> None:
        self.platform = platform
        self.limits = Limits(largest_part=4000, measure=len, edit_every=timedelta(seconds=1))
        self.outcomes = list(outcomes)
        self.tried: list[Part] = []
        self.sent: list[Part] = []
        self.arrived = asyncio.Condition()

    async def run(self, receive: Receive) -> None:
        """Nobody writes."""

    async def send(self, part: Part) -> Sent:
        """By the next outcome."""
        self.tried.append(part)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if outcome is not None:
            raise outcome
        self.sent.append(part)
        async with self.arrived:
            self.arrived.notify_all()
        return Sent(message_id=f"p{part.id}", at=NOON)

    @property
    def texts(self) -> list[str]:
        """What arrived, in order."""
        return [part.text for part in self.sent]

    async def until_sent(self, count: int) -> None:
        """Wait for that many parts to arrive."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.sent) >= count)


class FileAdapter(RecordingAdapter):
    """
    Takes files and gives them: `held` by their ref, as bytes, as an error to raise, or as both in a
    list of pieces.

    What was sent is kept with the bytes that could be read at that moment.
    """

    def __init__(
        self, *outcomes: BaseException | None, **held: bytes | BaseException | list[Piece]
    ) -> None:
        super().__init__(*outcomes)
        self.held = held
        self.fetched: list[str] = []
        self.files: list[tuple[str | None, bytes]] = []

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Piece by piece."""
        ref = attachment.ref or ""
        self.fetched.append(ref)
        held = self.held[ref]
        for piece in held if isinstance(held, list) else [held]:
            if isinstance(piece, BaseException):
                raise piece
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                yield piece

    async def send_file(self, part: Part) -> Sent:
        """By the next outcome."""
        assert part.file is not None
        self.files.append((part.file.name, Path(part.file.path).read_bytes()))
        return await self.send(part)


def no_quarantine(tasks: asyncio.TaskGroup) -> Quarantine:
    """For lanes after a clean start."""

    async def end_alone(turn: TurnId) -> None:
        raise AssertionError(f"turn {turn} is no suspect")

    return Quarantine(end_alone, tasks)
