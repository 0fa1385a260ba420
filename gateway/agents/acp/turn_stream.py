"""
One turn with an agent that runs: what it says comes in here, and what people answer goes back to
it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from acp.schema import (
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
)

from turngate.gateway.agents.acp.questions import (
    cancelled,
    labels,
    selected,
    unanswered,
)
from turngate.gateway.agents.acp.updates import Heard, Reading
from turngate.gateway.domain.agent_events import Ask
from turngate.gateway.domain.errors import AgentError

MOST_WAITING = 1000
"""Events that nobody has taken yet. Past it the agent's program is not listened to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question that somebody is thinking about."""

    at: float
    answer: asyncio.Future[str | None]


class TurnStream:
    """
    A turn that runs. `room` is set while more may be said. `cost` is what the session had cost
    before.

    `was_unanswered`: nobody answered a question of it, which may be why it ends.
    """

    def __init__(self, *, cost: float = 0.0, timeout: timedelta | None = None) -> None:
        self._reading = Reading(cost)
        self._events: asyncio.Queue[Heard | None] = asyncio.Queue()
        self._asked: dict[str, _Asked] = {}
        self._numbers = count(1)
        self._deadline = (
            None if timeout is None else asyncio.get_running_loop().time() + timeout.total_seconds()
        )
        self._is_over = False
        self.room = asyncio.Event()
        self.room.set()

        self.has_spoken = self.was_unanswered = False

    @property
    def reading(self) -> Reading:
        """What was made of its updates."""
        return self._reading

    def hear(self, notification: SessionNotification) -> None:
        """An update, as it comes. After the end of the turn nobody listens."""
        for event in self._reading.events(notification):
            self._put(event)

    async def permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        """Ask a person, and wait for the answer. The time that takes is not the agent's."""
        options = labels(request.options)
        if self._is_over or not options:
            return cancelled()

        id_ = str(next(self._numbers))
        asked = self._asked[id_] = _Asked(
            at=asyncio.get_running_loop().time(), answer=asyncio.Future()
        )
        self._put(
            Ask(id=id_, text=self._reading.question(request.tool_call), options=tuple(options))
        )
        chosen = await asked.answer

        return self._outcome(request, options.get(chosen or ""))

    def answer(self, ask: str, option: str | None) -> None:
        """What a person chose; None if nobody did."""
        asked = self._asked.pop(ask, None)
        if asked is None:
            return
        if self._deadline is not None:
            self._deadline += asyncio.get_running_loop().time() - asked.at
        asked.answer.set_result(option)

    async def next(self) -> Heard | None:
        """
        What it says next; None when the turn is over. Raises AgentError if that takes too long.
        """
        try:
            async with asyncio.timeout_at(None if self._asked else self._deadline):
                event = await self._events.get()
        except TimeoutError as exc:
            raise AgentError("it took longer than a turn may take") from exc

        if self._events.qsize() < MOST_WAITING:
            self.room.set()

        self.has_spoken = self.has_spoken or event is not None

        return event

    def over(self, prompting: asyncio.Future[PromptResponse]) -> None:
        """The agent has answered the prompt: whatever it said before that has come in."""
        self._events.put_nowait(None)

    def leave(self) -> None:
        """Nobody listens any more, and nobody will answer."""
        self._is_over = True
        self.room.set()
        for ask in tuple(self._asked):
            self.answer(ask, None)

    def _outcome(
        self, request: RequestPermissionRequest, chosen: str | None
    ) -> RequestPermissionResponse:
        if self._is_over:
            return cancelled()
        if chosen is not None:
            return selected(chosen)
        self.was_unanswered = True
        return unanswered(request.options)

    def _put(self, event: Heard) -> None:
        if self._is_over:
            return
        self._events.put_nowait(event)
        if self._events.qsize() >= MOST_WAITING:
            self.room.clear()
