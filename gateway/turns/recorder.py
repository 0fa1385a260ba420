"""The desk: what is answered without a turn (commands, messages that are too many), and where turns begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from turngate.gateway.commands import COMMANDS
from turngate.gateway.commands.registry import Call, Request, Retry
from turngate.gateway.domain.messages import InboundMessage, InboxId, MessageKind, Part, SessionKey
from turngate.gateway.domain.ports.adapter import Clock
from turngate.gateway.domain.ports.store import Begun, Outcome, Store
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.observability.logs import Action
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules import outcomes as replies
from turngate.gateway.rules.authorization import authorize
from turngate.gateway.rules.history_window import estimate_tokens
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.waiting_store import until_stored
from turngate.gateway.turns.agent_input import AgentInput, claimed
from turngate.gateway.turns.batch import ActiveBatch
from turngate.gateway.turns.billing import Billing
from turngate.gateway.turns.compaction import Compaction
from turngate.gateway.turns.lanes import Lanes, Place

_BEGIN_AT_ONCE = 64


@dataclass(slots=True)
class Desk:
    """
    Answers at once, and hands over what is to be sent.

    The till, where turns are paid for, stands on it; and what has grown too long is summarised behind it.
    """

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    lanes: Lanes
    pairing: Pairing
    fitting: Splitter
    send_on: Callable[[Part], None]
    tasks: asyncio.TaskGroup
    till: Billing = field(init=False)
    compaction: Compaction = field(init=False)
    _doorway: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_BEGIN_AT_ONCE))

    def __post_init__(self) -> None:
        house = self.policy, self.store, self.observer, self.clock
        self.till = Billing(*house)
        self.compaction = Compaction(*house, self.till, self.tasks)

    def place(self, key: SessionKey, call: Call | None) -> Place:
        """Commands wait for no turn. What comes after one that stops a turn waits for it: it may change the session."""
        if call is None:
            return self.lanes.join(key)
        if call.command.needs_quiet:
            return self.lanes.when_quiet(key)
        return self.lanes.beside(key, holding=call.command.stops_turn)

    async def note(self, key: SessionKey, message: InboundMessage) -> None:
        """
        What is done to a message or a chat that is there already. None of it begins a turn.

        A chat that moved takes its sessions along. An edit changes a message that still waits for its turn; what is
        being answered or was answered stays as it was asked. An edit makes no command of a message, nor another of one.
        """
        if message.kind is MessageKind.MOVED:
            await self._move(message)
        inbox = self._waiting(key, message) if message.kind is MessageKind.EDIT else None
        amended = inbox is not None and await self.store.amend(inbox, message.text)
        self.observer.received(message.source, Action.AMENDED if amended else Action.NOTED)

    async def _move(self, message: InboundMessage) -> None:
        """Who may talk there is for the operator to say again; he reads it where it concerns him."""
        await self.store.move_chat(message.source, message.text, self.policy.key_of)
        here = replace(message.source.nameless, chat_id=message.text)
        if authorize(replace(message, source=here), self.policy.access).refusal is not None:
            entry = f"{here.platform}:chat:{here.chat_id}"
            words = f'This chat has a new id. To go on here, put "{entry}" into access.allow and restart me.'
            for part in await self.store.say(Part(target=here, text=words)):
                self.send_on(part)

    def _waiting(self, key: SessionKey, edit: InboundMessage) -> InboxId | None:
        if COMMANDS.find(edit.text) is not None:
            return None
        return self.lanes.amend(key, edit)

    async def command(
        self, key: SessionKey, running: ActiveBatch, call: Call
    ) -> Retry | tuple[Part, ...]:
        """Do what a command says: its answer for the outbox, or the question that is to be asked again."""
        stored, stopped = running.batch[0], call.command.stops_turn and await self.lanes.stop(key)
        opening = self.policy.opening(stored.message.source)
        busy = running.beside and (call.command.needs_quiet or self.lanes.is_busy(key))
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session
        is_admin = authorize(stored.message, self.policy.access).is_admin
        request = Request(
            argument=call.argument,
            session=session,
            agent=self.policy.agent_of(session).name,
            store=self.store,
            row=stored.id,
            message=stored.message,
            pairing=self.pairing,
            standing=self.till.standing(stored.message.source),
            compact=partial(
                self.compaction.on_request, session, stored.message.source, running.stoppable
            ),
            is_admin=is_admin,
            offered=self.policy.offered(stored.message.source, to_admin=is_admin),
            stopped=stopped,
            busy=busy,
            waiting=len(self.lanes.waiting(key)),
            recovered=stored.recovered,
        )
        answer = await until_stored(lambda: call.command.run(request), self.observer)
        if isinstance(answer, Retry):
            return answer
        message = (
            stored.message if answer.said is None else replace(stored.message, text=answer.said)
        )
        entries, parts = replies.commanded(
            message, answer.text, self.clock.now(), edits=answer.edits
        )
        fitted = await self.fitting.parts(parts, answer.session)
        answering = partial(
            self.store.answer, stored.id, answer.session, entries=entries, parts=fitted
        )
        outgoing = await until_stored(answering, self.observer)
        self.observer.commanded(call.command.name, answer.session)
        return outgoing

    async def begin(
        self, running: ActiveBatch, messages: list[InboundMessage], again: Retry | None
    ) -> Begun:
        """
        Begin a turn, a few at a time: whoever has come to an end need not wait for the disk behind all who have come.

        Else ten thousand who write at once would all be at work before the first of them is answered.
        """
        async with self._doorway:
            claim = claimed(self.policy, running, messages, again)
            return await until_stored(lambda: self.store.begin(claim), self.observer)

    def wrap_up(
        self,
        outcome: Outcome,
        employed: ConfiguredAgent,
        briefing: AgentInput,
        message: InboundMessage,
    ) -> Outcome:
        """The outcome of a turn with its bill, and with what the conversation weighs now."""
        weight = briefing.weight + sum(map(estimate_tokens, outcome.entries))
        return replace(
            self.till.billed(outcome, employed, briefing.turn, message.source), weight=weight
        )

    async def finish(
        self, begun: Begun, outcome: Outcome, message: InboundMessage
    ) -> tuple[Part, ...]:
        """End a turn. A conversation that has grown too long is summarised afterwards, and nobody waits for that."""
        parts = await self.till.finish(begun, outcome)
        if outcome.failure is None and self.policy.history.is_long(outcome.weight):
            self.compaction.begin(begun.opened.session, message.source)
        return parts

    async def refuse(self, running: ActiveBatch) -> tuple[Part, ...]:
        """Messages that are too many: they keep their words, end with a reason, and the first of them says so."""
        opening, rows = (
            self.policy.opening(running.batch[0].message.source),
            [stored.id for stored in running.batch],
        )
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session
        first = [stored.message for stored in running.batch if stored.is_first_surplus]
        parts = [part for message in first for part in replies.parts(message, replies.TOO_MANY)]
        refusing = partial(
            self.store.refuse, rows, "too many messages wait", session=session.id, parts=parts
        )
        return await until_stored(refusing, self.observer)
