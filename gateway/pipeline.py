"""
THE LIFE OF A MESSAGE, top to bottom.

admit - key - accept - lane - open - history - prompt - agent - record - deliver. When `receive` returns, the message is
on disk. What the agent said becomes transcript, tokens, parts and "done" in one transaction; only then is it sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial

from turngate.gateway.commands.registry import Call, Retry
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import Refused, StoreError
from turngate.gateway.domain.messages import LARGEST_NUMBER, InboundMessage, InboxState, SessionKey
from turngate.gateway.domain.ports.adapter import Clock
from turngate.gateway.domain.ports.store import Accepted, Begun, InboxItem, Outcome, Store
from turngate.gateway.inbound.admission import Admission
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.delivery import Delivery
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules import outcomes as replies
from turngate.gateway.rules.authorization import ACTED
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.waiting_store import pause_after
from turngate.gateway.turns import batch as batches
from turngate.gateway.turns.agent_input import brief, heard
from turngate.gateway.turns.agent_run import AgentRun
from turngate.gateway.turns.attachments import Attachments, not_fetched
from turngate.gateway.turns.lanes import LaneRules, Lanes, Place
from turngate.gateway.turns.questions import Heard, Questions
from turngate.gateway.turns.recorder import Desk
from turngate.gateway.turns.services import ServicesForTurn


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """Takes messages in, and sees each of them through."""

    policy: Policy
    lane_rules: LaneRules
    store: Store
    delivery: Delivery
    attachments: Attachments
    fitting: Splitter
    observer: Observer
    clock: Clock
    tasks: asyncio.TaskGroup
    lanes: Lanes = field(init=False)
    desk: Desk = field(init=False)
    door: Admission = field(init=False)
    questions: Questions = field(init=False)
    errands: ServicesForTurn = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = Lanes(self.lane_rules, self._handle, self.tasks)
        house = self.policy, self.store, self.observer, self.clock
        self.door = Admission(*house, self.delivery.take_up)
        self.desk = Desk(
            *house, self.lanes, self.door.pairing, self.fitting, self.delivery.take_up, self.tasks
        )
        self.questions = Questions(*house, self.fitting, self.tasks, self.take_up)
        self.errands = ServicesForTurn(*house, self.questions, self.fitting, self.door.pairing)

    async def receive(self, message: InboundMessage) -> None:
        """Called by adapters. Returning means stored; raises Refused for what is never taken, StoreError for a no."""
        refusal, key = self.door.judge(message), self.policy.key_of(message.source)
        if refusal is not None:
            return await self.door.turn_away(message, refusal)
        if message.kind not in ACTED:
            return await self.desk.note(key, message)
        crashpoint("received")
        heard = self.questions.hear(message, key)
        # The place is taken before the first await: nobody who comes later gets in front while this is being stored.
        # Whoever sent it may go away meanwhile; what is on disk by then is seen through all the same.
        accept = partial(self.store.accept, heard.message, key, choosing=heard.choosing)
        place, storing = (
            self.desk.place(key, heard.call),
            asyncio.ensure_future(self.door.admit(message, key, accept)),
        )
        storing.add_done_callback(lambda _: self._stored(storing, place, heard))
        await asyncio.shield(storing)
        return crashpoint("accepted")

    def _stored(self, storing: asyncio.Future[Accepted | None], place: Place, heard: Heard) -> None:
        accepted = (
            None if storing.cancelled() or storing.exception() is not None else storing.result()
        )
        self.observer.stored(heard.message.source, accepted)
        if accepted is not None and not accepted.duplicate:
            return place.take(
                batches.Stored(id=accepted.id, message=heard.message, alone=heard.call is not None)
            )
        self.questions.give_back(heard)
        return place.leave()

    async def recover(self) -> None:
        """Go on with what an earlier run of the daemon left in the inbox, in the order in which it came."""
        for item in await self.store.inbox(
            InboxState.WAITING, InboxState.RUNNING, limit=LARGEST_NUMBER
        ):
            self.take_up(item)

    def take_up(self, item: InboxItem) -> None:
        """Go on with one of them."""
        call = self.questions.call_in(item.message) if item.turn is None else None
        self.desk.place(item.key, call).take(
            batches.Stored.recovered_from(item, alone=call is not None)
        )

    async def _handle(self, key: SessionKey, running: batches.ActiveBatch) -> None:
        """A batch whose turn has come. Whatever happens to it, its lane goes on."""
        message, first = running.batch[-1].message, running.batch[0]
        call = self.questions.call_in(message) if first.alone else None
        try:
            await (
                self._at_the_desk(key, running, call)
                if call or first.is_surplus
                else self._turn(running)
            )
        except Refused as exc:
            self.observer.dropped(
                exc
            )  # its session was deleted meanwhile, or an earlier run had settled it
        except StoreError as exc:
            self.observer.store_failed(
                exc
            )  # damage: what only takes room or time is waited for where it is written
        except Exception as exc:  # noqa: BLE001 - the lane boundary: one message's bug is no other message's
            self.observer.bug(exc)
        self.delivery.settled(message.source, running.ids)

    async def _at_the_desk(
        self, key: SessionKey, running: batches.ActiveBatch, call: Call | None
    ) -> None:
        answer = await (
            self.desk.command(key, running, call) if call else self.desk.refuse(running)
        )
        if isinstance(answer, Retry):
            return await self._turn(running, answer)
        running.answered()
        return await self.delivery.deliver(answer)

    async def _turn(self, running: batches.ActiveBatch, again: Retry | None = None) -> None:
        messages = await self.attachments.gather(running)
        await pause_after(running.batch[0].attempts)
        start, begun = self.clock.monotonic(), await self.desk.begin(running, messages, again)
        crashpoint("reset" if begun.opened.notice and begun.opened.is_new else "turn-started")
        try:
            outcome = self.questions.given_up(begun, messages[-1]) or self.desk.till.refusal(
                messages[-1]
            )
            outcome = outcome or await self._converse(begun, messages, running)
        except Exception as exc:  # noqa: BLE001 - the lane boundary: the person hears of it, the lane goes on
            self.observer.bug(exc)
            outcome = replies.in_place_of(
                begun.preview, replies.broken(messages[-1], self.clock.now())
            )
        crashpoint("turn-finishing")
        outgoing = await self.desk.finish(begun, outcome, messages[-1])
        crashpoint("turn-finished")
        self.questions.remember(*outgoing)
        running.answered()
        agent, took = (
            self.policy.agent_of(begun.opened.session).name,
            self.clock.monotonic() - start,
        )
        self.observer.turn_ended(begun, outcome, agent, took)
        await self.delivery.deliver(outgoing)

    async def _converse(
        self, begun: Begun, messages: list[InboundMessage], running: batches.ActiveBatch
    ) -> Outcome:
        employed, files = self.policy.agent_of(begun.opened.session), self.attachments.files
        message = (messages := heard(begun.said, messages, files))[-1]
        briefing = brief(
            self.policy, employed, begun, messages, files, self.door.overheard.take(message)
        )
        preview = self.delivery.preview(
            message.source, begun.turn, running.ids, shown_in=begun.preview
        )
        conversation = AgentRun(
            employed.agent, briefing.restore, preview.show, self.clock, self.observer
        )
        ending = await self.errands.see_through(conversation, briefing, begun, running)
        words = replies.words_before(self.policy, begun.opened.session) + not_fetched(
            begun.said, running
        )
        outcome = replies.outcome(conversation, ending, message, words, self.clock.now())
        outcome = self.desk.wrap_up(outcome, employed, briefing, message)
        return await self.fitting.fit(
            replies.in_place_of(await preview.close(), outcome), begun.opened.session.id
        )
