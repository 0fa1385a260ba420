"""
Retries of an agent, and its fallbacks.

A retry is possible only before the first output: afterwards the user would see parts of two
different answers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from turngate.gateway.agents.breaker import Breaker
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Turn,
    Usage,
    Waiting,
)
from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import (
    AgentBusy,
    AgentError,
    AgentRefused,
    AgentUnavailable,
    PromptTooLong,
    RequestRefused,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.ports.agent import (
    Agent,
    TakesSessionEnd,
    TakesSteering,
)
from turngate.gateway.observability.logs import Action
from turngate.gateway.rules.model_window import ModelWindow, cut_to, halved, size_of

_BACKOFF = Backoff(first=0.5, longest=30.0, jitter=0.5)
# Limits of servers are per minute or per ten seconds; without a Retry-After nobody says which.
_BUSY_BACKOFF = Backoff(first=3.0, longest=30.0, jitter=0.5)
_WORTH_TELLING = 2.0


class Tell(Protocol):
    """Called when an agent could not answer. `again`: the same agent is retried."""

    def __call__(self, name: str, error: AgentError, *, again: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """
    One agent of the chain, with its own system prompt and number of attempts.

    `first_token` limits the wait for its first event, `patience` the pauses that it asks for
    itself, both in seconds. What is learned about an agent is shared by all chains it is in:
    `window` is what its model can take at once, `breaker` whether it is worth asking.
    """

    name: str
    agent: Agent
    attempts: int = 1
    system: str = ""
    first_token: float | None = None
    patience: float = 60.0
    window: ModelWindow = field(default_factory=ModelWindow)
    breaker: Breaker = field(default_factory=Breaker)


class TooSlow(AgentUnavailable):
    """It has not begun to answer in time. Another attempt would take as long again."""


class NotAsked(AgentUnavailable):
    """The breaker kept the turn from asking."""


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
        if isinstance(first, TakesSessionEnd):
            self.session_end = first.session_end

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Yield the answer of the first agent that gives any output."""
        failure: AgentError | None = None
        is_told = False

        for link in self._links:
            pauses = _Pauses(link)
            pause: float | None = 0.0
            while pause is not None:
                heard = False
                try:
                    async with aclosing(self._ask(link, turn)) as events:
                        async for event in events:
                            # Usage is no output: it is charged, and a retry is still possible.
                            heard = heard or not isinstance(event, Usage)
                            yield event
                except (AgentUnavailable, AgentRefused) as exc:
                    failed = exc
                else:
                    return

                pause = None if heard else pauses.next(failed)
                self._tell(link.name, failed, again=pause is not None)
                if heard:
                    # AgentRefused stays one: its message is for the operator, not for users.
                    raise (
                        failed if isinstance(failed, AgentRefused) else AgentError(str(failed))
                    ) from failed

                # A fallback that cannot be reached must not hide that the message is refused.
                failure = failure if isinstance(failure, RequestRefused) else failed
                if pause is not None and pause >= _WORTH_TELLING and not is_told:
                    is_told = True
                    yield Waiting(pause)
                if pause is not None:
                    await asyncio.sleep(pause)

            _note_failure(link, failed)

        raise failure or AgentError("there is no agent to ask")

    async def _ask(self, link: Link, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Ask one agent, with less of the history each time its context window is full."""
        if (seconds := link.breaker.seconds_left()) > 0:
            raise NotAsked(
                "it has not answered several times in a row, and is asked again in "
                f"{math.ceil(seconds)} seconds"
            )

        # A system prompt may name people and numbers, like any other text.
        turn = replace(turn, system=turn.redact(link.system))
        turn = cut_to(turn, link.window.most)
        while True:
            try:
                async with aclosing(self._run(link, turn)) as events:
                    async for event in events:
                        yield event
            except PromptTooLong:
                link.window.refused(turn)
                if not turn.history:
                    raise
                _log_full_window(link, turn)
                turn = halved(turn)
            else:
                link.window.fitted(turn)
                return

    async def _run(self, link: Link, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self._at_work[turn.id], self._asked_last[turn.id] = link.agent, link.name
        try:
            async with aclosing(link.agent.run(turn)) as events:
                first = await _first_of(events, link.first_token)
                link.breaker.succeeded()
                if first is not None:
                    yield first
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
        return isinstance(agent, TakesSteering) and await agent.steer(turn, text)


class _Pauses:
    """The pauses between the attempts of one agent in one turn."""

    def __init__(self, link: Link) -> None:
        self._attempts = link.attempts
        self._attempt = 0
        self._patience = link.patience

    def next(self, failure: AgentError) -> float | None:
        """Return how long to wait before the next attempt; None: do not retry this agent."""
        self._attempt += 1
        if self._attempt >= self._attempts or isinstance(failure, TooSlow | NotAsked):
            return None
        if not isinstance(failure, AgentUnavailable):
            return None

        asked_for = failure.retry_after
        if asked_for is None:
            backoff = _BUSY_BACKOFF if isinstance(failure, AgentBusy) else _BACKOFF
            return backoff.pause(self._attempt)

        # A longer pause is not waited for: the next agent is tried instead.
        if asked_for > self._patience:
            return None
        self._patience -= asked_for
        return asked_for


async def _first_of(
    events: AsyncGenerator[AgentEvent], first_token: float | None
) -> AgentEvent | None:
    """Return the first event; None if there is none. Raises TooSlow if it takes too long."""
    try:
        async with asyncio.timeout(first_token) as limit:
            return await anext(events, None)
    except TimeoutError as exc:
        if not limit.expired():
            raise
        raise TooSlow(
            f"it has not begun to answer within {first_token:g} seconds (first_token)"
        ) from exc


def _note_failure(link: Link, failure: AgentError) -> None:
    """Tell the breaker: a server that refuses or has too much to do is there all the same."""
    if isinstance(failure, NotAsked):
        return

    if isinstance(failure, AgentUnavailable) and not isinstance(failure, AgentBusy):
        link.breaker.failed()
    else:
        link.breaker.succeeded()


def _log_full_window(link: Link, turn: Turn) -> None:
    # Users are not told: they can do nothing about it, and their message is answered.
    structlog.get_logger().info(
        "a context window was full, so less of the history is shown",
        action=Action.AGENT,
        agent=link.name,
        outcome=f"{size_of(turn)} tokens",
    )
