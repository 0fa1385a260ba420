"""
Retries of an agent, and its fallbacks.

A retry is possible only before the first output: afterwards the user would see parts of two
different answers.
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
    """Called when an agent could not answer. `again`: the same agent is retried."""

    def __call__(self, name: str, error: AgentError, *, again: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One agent of the chain, with its own system prompt and number of attempts."""

    name: str
    agent: Agent
    attempts: int = 1
    system: str = ""


class FallbackAgent:
    """A chain of agents: each is tried, with retries, until one answers."""

    def __init__(self, links: Sequence[Link], tell: Tell) -> None:
        self._links = tuple(links)
        self._tell = tell
        self._at_work: dict[TurnId, Agent] = {}
        self._asked_last: dict[TurnId, str] = {}
        # Only the first agent is notified: a session belongs to it, and fallbacks may never have
        # seen it.
        first: object = self._links[0].agent if self._links else None
        if isinstance(first, HearsOfEndings):
            self.session_end = first.session_end

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Yield the answer of the first agent that gives any output."""
        failure: AgentError | None = None
        for link in self._links:
            for attempt in range(1, link.attempts + 1):
                heard = False
                try:
                    async with aclosing(self._ask(link, turn)) as events:
                        async for event in events:
                            # Usage is no output: it is charged, and a retry is still possible.
                            heard = heard or not isinstance(event, Usage)
                            yield event
                except (AgentUnavailable, AgentRefused) as exc:
                    failure = exc
                else:
                    return
                pause = None if heard or attempt == link.attempts else _pause(failure, attempt)
                self._tell(link.name, failure, again=pause is not None)
                if heard:
                    # AgentRefused stays one: its message is for the operator, not for users.
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
            async with aclosing(link.agent.run(_for(link, turn))) as events:
                async for event in events:
                    yield event
        finally:
            self._at_work.pop(turn.id, None)

    def answered_by(self, turn: TurnId) -> str | None:
        return self._asked_last.pop(turn, None)

    def at_work(self, turn: TurnId) -> Agent | None:
        return self._at_work.get(turn)

    async def steer(self, turn: TurnId, text: str) -> bool:
        agent: object = self._at_work.get(turn)
        return isinstance(agent, TakesWords) and await agent.steer(turn, text)


def _for(link: Link, turn: Turn) -> Turn:
    """Return the turn with the system prompt of an agent, which may name people and numbers."""
    return replace(turn, system=turn.redact(link.system))


def _pause(failure: AgentError | None, attempt: int) -> float | None:
    """Return the pause before a retry in seconds; None: do not retry this agent."""
    if not isinstance(failure, AgentUnavailable):
        return None
    # A longer pause than our own longest is not waited for: the next agent is tried instead.
    if failure.retry_after is not None:
        return failure.retry_after if failure.retry_after <= _BACKOFF.longest else None
    return _BACKOFF.pause(attempt)
