"""
An agent that is asked again while it has said nothing, and those that stand in for it.

Another try is free as long as nobody has heard a word of the first. After that there is none: half
of one answer and half of another would be neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Turn,
    Usage,
)
from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.ports.agent import (
    Agent,
    HearsOfEndings,
    TakesWords,
)

_BACKOFF = Backoff(first=0.5, longest=30.0, jitter=0.5)


class Tell(Protocol):
    """
    Who is told that an agent of that name could not answer, why, and whether it is asked again.
    """

    def __call__(self, name: str, error: AgentError, *, again: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One agent, with the prompt that is its own, and how often it is asked."""

    name: str
    agent: Agent
    attempts: int = 1
    system: str = ""


class FallbackAgent:
    """Asks each in turn until one answers."""

    def __init__(self, links: Sequence[Link], tell: Tell) -> None:
        self._links = tuple(links)
        self._tell = tell
        self._at_work: dict[TurnId, Agent] = {}
        self._asked_last: dict[TurnId, str] = {}
        # The session is the first one's. Those who only stand in for it need not know what they
        # were never asked.
        first: object = self._links[0].agent if self._links else None
        if isinstance(first, HearsOfEndings):
            self.session_end = first.session_end

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """As the port has it: the first that answers at all gives the answer."""
        failure: AgentError | None = None
        for link in self._links:
            for attempt in range(1, link.attempts + 1):
                heard = False
                try:
                    async with aclosing(self._ask(link, turn)) as events:
                        async for event in events:
                            heard = heard or not isinstance(event, Usage)
                            yield event
                except (AgentUnavailable, AgentRefused) as exc:
                    failure = exc
                else:
                    return
                pause = None if heard or attempt == link.attempts else _pause(failure, attempt)
                self._tell(link.name, failure, again=pause is not None)
                if heard:
                    raise (
                        failure if isinstance(failure, AgentRefused) else AgentError(str(failure))
                    ) from failure
                if pause is None:
                    break
                await asyncio.sleep(pause)

        raise failure or AgentError("there is no agent to ask")

    async def _ask(self, link: Link, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self._at_work[turn.id], self._asked_last[turn.id] = link.agent, link.name
        try:
            async with aclosing(link.agent.run(replace(turn, system=link.system))) as events:
                async for event in events:
                    yield event
        finally:
            self._at_work.pop(turn.id, None)

    def answered_by(self, turn: TurnId) -> str | None:
        """As the port has it."""
        return self._asked_last.pop(turn, None)

    def at_work(self, turn: TurnId) -> Agent | None:
        """As the port has it."""
        return self._at_work.get(turn)

    async def steer(self, turn: TurnId, text: str) -> bool:
        """As the port has it, if the one at work listens."""
        agent: object = self._at_work.get(turn)
        return isinstance(agent, TakesWords) and await agent.steer(turn, text)


def _pause(failure: AgentError | None, attempt: int) -> float | None:
    """
    Before the next try: as long as it asks for, else growing, with jitter. None: there is no point
    in one.
    """
    if not isinstance(failure, AgentUnavailable):
        return None
    if failure.retry_after is not None:
        return failure.retry_after if failure.retry_after <= _BACKOFF.longest else None
    return _BACKOFF.pause(attempt)
