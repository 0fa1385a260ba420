"""What is done for a turn while it runs: its files are kept, its questions put, its messages to others sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.adapter import Clock
from turngate.gateway.domain.ports.store import Begun, Store
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.waiting_store import until_stored
from turngate.gateway.turns.agent_input import AgentInput
from turngate.gateway.turns.agent_run import AgentRun, Ending, Hands
from turngate.gateway.turns.batch import ActiveBatch
from turngate.gateway.turns.cross_chat import Elsewhere
from turngate.gateway.turns.questions import Questions
from turngate.gateway.turns.steering import Steering


@dataclass(slots=True)
class ServicesForTurn:
    """Lends a hand to every turn."""

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    questions: Questions
    fitting: Splitter
    pairing: Pairing
    elsewhere: Elsewhere = field(init=False)

    def __post_init__(self) -> None:
        self.elsewhere = Elsewhere(
            policy=self.policy,
            store=self.store,
            observer=self.observer,
            clock=self.clock,
            delivery=self.fitting.delivery,
            fitting=self.fitting,
            approved=lambda: self.pairing.approved,
        )

    async def see_through(
        self, conversation: AgentRun, briefing: AgentInput, begun: Begun, running: ActiveBatch
    ) -> Ending:
        """Run a turn to its end, on behalf of whoever wrote its last message."""
        employed, message = self.policy.agent_of(begun.opened.session), running.batch[-1].message
        running.stoppable(conversation.stop)
        steering = Steering(
            turn=begun.turn,
            agent=employed.agent,
            conversation=conversation,
            redact=briefing.redact,
            store=self.store,
            observer=self.observer,
        )
        running.steerable(steering.take)
        hands = self._hands(employed, begun, message, running)
        ending = await conversation.run(briefing.turn, self.policy.patience_with(employed), hands)
        running.steerable(None)
        self.questions.close(begun.turn)
        if ending is Ending.STOPPED:
            conversation.failure = running.ended_for
        return ending

    def _hands(
        self, employed: ConfiguredAgent, begun: Begun, message: InboundMessage, running: ActiveBatch
    ) -> Hands:
        async def mark() -> None:
            """That it must not run again; on disk it may be from the start."""
            running.runs_once = True
            if begun.repeatable:
                await until_stored(partial(self.store.record_tool, begun.turn), self.observer)

        return Hands(
            first_tool=mark,
            keep_file=self.fitting.files.keeper(begun.opened.session.id),
            send_elsewhere=partial(self.elsewhere.send, message),
            put_question=self.questions.asker(employed.agent, begun, message, running),
            acts=not employed.repeatable,
        )
