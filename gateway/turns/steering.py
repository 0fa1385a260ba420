"""
Pass messages to the agent while its turn runs.

Nothing shows whether an agent has taken note of a message. If it stays silent afterwards, the
message was not answered; so until the agent continues, the message keeps its place in the lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.agent import Agent, TakesSteering
from turngate.gateway.domain.ports.capability import can
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules import outcomes
from turngate.gateway.turns.agent_run import AgentRun
from turngate.gateway.turns.batch import QueuedMessage


@dataclass(slots=True, kw_only=True)
class Steering:
    """Steering of one running turn."""

    turn: TurnId
    agent: Agent
    agent_run: AgentRun
    redact: Callable[[str], str]
    store: Store
    observer: Observer
    _saying: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(self, stored: QueuedMessage) -> bool:
        """
        Pass one message to the agent. False if it needs a turn of its own.

        After a crash before the store records that the agent has it, it gets a turn of its own.
        """
        # Keeps the order. Not held during the wait for the agent's next event.
        async with self._saying:
            is_heard = await self._say(stored.message)
        return is_heard and await self.agent_run.goes_on() and await self._joins(stored)

    async def _say(self, message: InboundMessage) -> bool:
        """Pass the text on, if the agent can take it."""
        # Files are fetched before a turn begins, so a message with files waits for the next one.
        if not can(self.agent, TakesSteering) or message.attachments:
            return False

        try:
            return await self.agent.steer(self.turn, self.redact(message.text))
        # An agent's bug: the message is answered by a turn of its own.
        except Exception as exc:  # noqa: BLE001
            self.observer.bug(exc)
            return False

    async def _joins(self, stored: QueuedMessage) -> bool:
        try:
            await self.store.join(self.turn, stored.id, outcomes.asked(stored.message))
        except Refused:  # the turn was over by then
            return False
        return True
