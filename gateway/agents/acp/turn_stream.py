"""
One running turn: the queue of the agent's updates, and the answers to its permission requests.
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
    """An open question; `at` is the loop time when it was asked."""

    at: float
    answer: asyncio.Future[str | None]


class TurnStream:
    """
    A running turn. `room` is set while the queue is not full. `cost` is the session's total before.

    `was_unanswered`: a question got no answer in time, which may be why the turn ends.
    """

    def __init__(self, *, cost: float = 0.0, timeout: timedelta | None = None) -> None:
        self._reading = Reading(cost)
        # Unbounded, because `add` cannot wait: `room` pauses the reading of the pipe instead.
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
        return self._reading

    def add(self, notification: SessionNotification) -> None:
        """Queue the events of one update. After the end of the turn they are dropped."""
        for event in self._reading.events(notification):
            self._put(event)

    async def permission(self, request: RequestPermissionRequest) -> RequestPermissionResponse:
        """Ask the user and wait for the answer. That time does not count towards the timeout."""
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
        """Pass on the chosen option; None: no answer in time. Late answers are ignored."""
        asked = self._asked.pop(ask, None)
        if asked is None:
            return
        if self._deadline is not None:
            self._deadline += asyncio.get_running_loop().time() - asked.at
        asked.answer.set_result(option)

    async def next(self) -> Heard | None:
        """Wait for the next event; None at the end. Raises AgentError after the turn's timeout."""
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
        """Mark the end of the queue: the agent has answered the prompt."""
        # Earlier updates are queued by now: their tasks were scheduled before this callback.
        self._events.put_nowait(None)

    def leave(self) -> None:
        """Drop further events, and cancel the open questions. May be called again."""
        self._is_over = True
        # This queue is not emptied any more, and must not block the turns on the same connection.
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
