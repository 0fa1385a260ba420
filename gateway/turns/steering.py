"""
What is said to an agent while it works.

Nobody can see whether an agent that was told more has listened. One that says nothing after it has not answered it, so
until the agent goes on, the message keeps its place in the lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import InboundMessage, TurnId
from turngate.gateway.domain.ports.adapter import Agent, TakesWords, can
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules import outcomes as replies
from turngate.gateway.stores.waiting_store import until_stored
from turngate.gateway.turns.agent_run import AgentRun
from turngate.gateway.turns.batch import Stored


@dataclass(slots=True, kw_only=True)
class Steering:
    """Of one turn, as long as it runs."""

    turn: TurnId
    agent: Agent
    conversation: AgentRun
    redact: Callable[[str], str]
    store: Store
    observer: Observer
    _saying: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(self, stored: Stored) -> bool:
        """
        Say one thing more to the agent, after what was said before. False if it has a turn of its own to wait for.

        The agent hears it before it is on disk that it did: after a crash between the two it is answered by itself.
        """
        async with self._saying:
            is_heard = await self._say(stored.message)
        return is_heard and await self.conversation.goes_on() and await self._joins(stored)

    async def _say(self, message: InboundMessage) -> bool:
        """Files are for the next turn: this one has begun without them."""
        if not can(self.agent, TakesWords) or message.attachments:
            return False
        try:
            return await self.agent.steer(self.turn, self.redact(message.text))
        except Exception as exc:  # noqa: BLE001 - an agent's bug: the message is answered by a turn of its own
            self.observer.bug(exc)
            return False

    async def _joins(self, stored: Stored) -> bool:
        try:
            joining = partial(self.store.join, self.turn, stored.id, replies.asked(stored.message))
            await until_stored(joining, self.observer)
        except Refused:  # the turn was over by then
            return False
        return True
