"""Record turns in the store: where they begin, how they end, and which messages are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from turngate.gateway.commands.registry import Retry
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import Begun, Outcome
from turngate.gateway.rules import outcomes
from turngate.gateway.rules.policy import Policy
from turngate.gateway.turns.agent_input import claim_for
from turngate.gateway.turns.batch import ActiveBatch
from turngate.gateway.turns.billing import Billing
from turngate.gateway.turns.compaction import Compaction
from turngate.gateway.turns.running_turn import RunningTurn

_STARTING_AT_ONCE = 64


@dataclass(slots=True, kw_only=True)
class TurnRecorder:
    """Writes the beginning and the end of each turn. Starts a compaction when a session is long."""

    policy: Policy
    store: Store
    billing: Billing
    compaction: Compaction
    _starting: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(_STARTING_AT_ONCE)
    )

    async def begin(
        self, batch: ActiveBatch, messages: Sequence[InboundMessage], retry: Retry | None
    ) -> Begun:
        """Open the session and begin a turn for the batch, in one transaction."""
        # All writes share one queue. Without a limit, after ten thousand messages at once no turn
        # could be finished before all of them had begun.
        async with self._starting:
            claim = claim_for(self.policy, batch, messages, retry)
            return await self.store.begin(claim)

    async def finish(self, turn: RunningTurn, outcome: Outcome) -> tuple[Part, ...]:
        """End a turn: transcript, usage, parts and the state "done", in one transaction."""
        parts = await self.billing.finish(turn.begun, outcome)

        if outcome.failure is None and self.policy.history.is_long(outcome.weight):
            self.compaction.begin(turn.session, turn.last_message.source)

        return parts

    async def refuse(self, batch: ActiveBatch) -> tuple[Part, ...]:
        """
        Refuse messages that exceed the queue's limit. Their text is kept with the reason.

        Only the first of them since there was room is answered with a notice.
        """
        opening = self.policy.opening(batch.queued[0].message.source)
        opened = await self.store.open(opening)

        rows = [queued.id for queued in batch.queued]
        parts = [
            part
            for queued in batch.queued
            if queued.is_first_surplus
            for part in outcomes.parts(queued.message, outcomes.TOO_MANY)
        ]
        return await self.store.refuse(
            rows, "too many messages wait", session=opened.session.id, parts=parts
        )
