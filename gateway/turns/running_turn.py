"""One turn while it runs: what it answers, what the store began for it, and which agent runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Begun
from turngate.gateway.rules.policy import ConfiguredAgent
from turngate.gateway.turns.batch import ActiveBatch


@dataclass(slots=True, kw_only=True)
class RunningTurn:
    """
    A turn that has begun in the store.

    `configured` is chosen once, when the turn begins: a reload of the config in between does not
    change it. `answered_by` is the name of the agent that answered, which differs from it when a
    fallback did.
    """

    begun: Begun
    batch: ActiveBatch
    messages: Sequence[InboundMessage]
    configured: ConfiguredAgent
    answered_by: str

    @property
    def id(self) -> TurnId:
        """The id of the turn in the store."""
        return self.begun.turn

    @property
    def session(self) -> Session:
        """The session it belongs to."""
        return self.begun.opened.session

    @property
    def last_message(self) -> InboundMessage:
        """The newest message of the batch; the answer replies to it."""
        return self.messages[-1]
