"""The agent port: what an agent must be able to do, and the capabilities it may have."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, runtime_checkable

from turngate.gateway.domain.agent_events import AgentEvent, Turn
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.session import SessionEnded


class Agent(Protocol):
    """Anything that answers a turn."""

    def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """
        Answer one turn. Closing the generator cancels it: the agent must stop and leave nothing
        behind.

        Raises AgentError with a reason that users may read; AgentUnavailable or AgentRefused if a
        retry or another agent may succeed.
        """


@runtime_checkable
class TakesAnswers(Protocol):
    """
    An agent that waits for the answers to its questions. For others an answer is the next message.
    """

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        """
        Pass the chosen option to a running turn, in the agent's own words; None: no answer in time.
        """


@runtime_checkable
class LetsOthersAnswer(Protocol):
    """An agent with fallbacks. Whether it waits for answers depends on the one that runs."""

    def at_work(self, turn: TurnId) -> Agent | None:
        """Return the agent that runs a turn now; None if there is none."""


@runtime_checkable
class TakesSteering(Protocol):
    """An agent that can be steered. For others, a message during a turn waits for the next one."""

    async def steer(self, turn: TurnId, text: str) -> bool:
        """
        Pass more text to a running turn. False if it is too late: then it is a message of its own.
        """


@runtime_checkable
class TellsWhoAnswered(Protocol):
    """An agent whose fallbacks may answer in its place."""

    def answered_by(self, turn: TurnId) -> str | None:
        """Return the name of the agent that was asked last in a finished turn; once per turn."""


@runtime_checkable
class TakesSessionEnd(Protocol):
    """An agent that is notified when a session ends."""

    async def session_end(self, ending: SessionEnded) -> None:
        """
        Called once the session has ended, outside all turns, for a minute at most; perhaps again
        after a crash.

        Whatever it raises counts as a failure. After three failures it is not called again.
        """


@runtime_checkable
class Examines(Protocol):
    """An agent that can tell what would keep it from answering."""

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        """
        Check the agent without a turn. Without `online`, ask nothing beyond this machine's files.
        """


@runtime_checkable
class Closes(Protocol):
    """An agent that keeps something open between turns: a connection, a process."""

    async def close(self) -> None:
        """Called once, after its last turn. Nothing may be left behind."""
