"""
THE LIFE OF A MESSAGE, top to bottom.

admit - key - accept - lane - open - history - prompt - agent - record - deliver. Whoever sends a message hears that we
have it when `receive` returns: then it is on disk. What the agent said becomes transcript, tokens, outgoing parts and
"done" in one transaction, and only then is it sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

from gateway import replies
from gateway.admission import LONGEST_TEXT, authorize
from gateway.briefing import brief, heard
from gateway.commands import COMMANDS
from gateway.commands.registry import Again, Call, Request
from gateway.delivery import Delivery
from gateway.errors import Refused, StoreError
from gateway.lanes import LaneRules, Lanes, Place, Running, Stored
from gateway.model import InboundMessage, InboxState, SessionKey
from gateway.observe import Action, Observer
from gateway.patience import until_stored
from gateway.policy import Policy
from gateway.ports import Accepted, Begun, Claim, Clock, Outcome, Store
from gateway.turns import Conversation

_MOST_AT_START = 100_000


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """Takes messages in, and sees each of them through."""

    policy: Policy
    lane_rules: LaneRules
    store: Store
    delivery: Delivery
    observer: Observer
    clock: Clock
    tasks: asyncio.TaskGroup
    lanes: Lanes = field(init=False)

    def __post_init__(self) -> None:
        self.lanes = Lanes(self.lane_rules, self._handle, self.tasks)

    async def receive(self, message: InboundMessage) -> None:
        """
        Called by adapters. Returning means stored: only now may the platform be told.

        Raises Refused for what can never be taken, StoreError if it could not be stored.
        """
        if not authorize(message.source):
            return self.observer.received(message.source, Action.REFUSED)
        if len(message.text) > LONGEST_TEXT:
            raise Refused(f"a message of {len(message.text):,} characters is too long; {LONGEST_TEXT:,} is the most")
        key, call = self.policy.key_of(message.source), COMMANDS.find(message.text)
        # The place is taken before the first await: nobody who comes later gets in front while this is being stored.
        # Whoever sent it may go away meanwhile; what is on disk by then is seen through all the same.
        place, storing = self._place(key, call), asyncio.ensure_future(self.store.accept(message, key))
        storing.add_done_callback(lambda _: self._stored(storing, place, message, alone=call is not None))
        await asyncio.shield(storing)
        return None

    def _stored(self, storing: asyncio.Future[Accepted], place: Place, message: InboundMessage, *, alone: bool) -> None:
        if storing.cancelled() or storing.exception() is not None:
            return place.leave()
        accepted = storing.result()
        self.observer.received(message.source, Action.DUPLICATE if accepted.duplicate else Action.ACCEPTED)
        return place.leave() if accepted.duplicate else place.take(Stored(id=accepted.id, message=message, alone=alone))

    async def recover(self) -> None:
        """Go on with what an earlier run of the daemon left in the inbox, in the order in which it came."""
        for item in await self.store.inbox(InboxState.WAITING, InboxState.RUNNING, limit=_MOST_AT_START):
            call = COMMANDS.find(item.message.text) if item.turn is None else None
            place = self._place(item.key, call)
            place.take(Stored(id=item.id, message=item.message, turn=item.turn, alone=bool(call)))

    def _place(self, key: SessionKey, call: Call | None) -> Place:
        """Commands wait for no turn. What comes after one that stops a turn waits for it: it may change the session."""
        if call is None:
            return self.lanes.join(key)
        if call.command.needs_quiet:
            return self.lanes.when_quiet(key)
        return self.lanes.beside(key, holding=call.command.stops_turn)

    async def _handle(self, key: SessionKey, running: Running) -> None:
        """A batch whose turn has come. Whatever happens to it, its lane goes on."""
        message = running.batch[-1].message
        call = COMMANDS.find(message.text) if running.batch[0].alone else None
        try:
            await (self._command(key, running, call) if call else self._turn(running))
        except Refused as exc:
            self.observer.dropped(exc)  # its session was deleted meanwhile, or an earlier run had settled it
        except StoreError as exc:
            self.observer.store_failed(exc)  # the inbox still has it: the next start goes on with it
        except Exception as exc:  # noqa: BLE001 - the lane boundary: one message's bug is no other message's
            self.observer.bug(exc)
        self.delivery.settled(message.source, [stored.message.id for stored in running.batch])

    async def _command(self, key: SessionKey, running: Running, call: Call) -> None:
        stored, stopped = running.batch[0], call.command.stops_turn and await self.lanes.stop(key)
        opening, busy = self.policy.opening(stored.message.source), call.command.needs_quiet or self.lanes.is_busy(key)
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session
        agent, waiting = self.policy.agent_of(session).name, len(self.lanes.waiting(key))
        here = Request(argument=call.argument, session=session, agent=agent, store=self.store, stopped=stopped)
        request = replace(here, busy=busy and running.beside, waiting=waiting)
        answer = await until_stored(lambda: call.command.run(request), self.observer)
        if isinstance(answer, Again):
            return await self._turn(running, answer)
        entries, parts = replies.commanded(stored.message, answer.text, self.clock.now())
        answering = partial(self.store.answer, stored.id, answer.session, entries=entries, parts=parts)
        outgoing = await until_stored(answering, self.observer)
        running.answered()
        self.observer.commanded(call.command.name, answer.session)
        return await self.delivery.deliver(outgoing)

    async def _turn(self, running: Running, again: Again | None = None) -> None:
        messages = [stored.message for stored in running.batch]
        claim = Claim(
            inbox=tuple(stored.id for stored in running.batch),
            opening=self.policy.opening(messages[-1].source),
            entries=again.said if again else tuple(map(replies.asked, messages)),
            history=self.policy.history_to_read,
            replacing=again.replacing if again else None,
        )
        started, begun = self.clock.now(), await until_stored(lambda: self.store.begin(claim), self.observer)
        try:
            outcome = await self._converse(begun, heard(begun.said, messages), running)
        except Exception as exc:  # noqa: BLE001 - the lane boundary: the person hears of it, the lane goes on
            self.observer.bug(exc)
            outcome = replies.broken(messages[-1], self.clock.now())
        outgoing = await until_stored(lambda: self.store.finish(begun.turn, outcome), self.observer)
        running.answered()
        agent = self.policy.agent_of(begun.opened.session).name
        self.observer.turn_ended(begun, outcome, agent=agent, took=self.clock.now() - started)
        await self.delivery.deliver(outgoing)

    async def _converse(self, begun: Begun, messages: list[InboundMessage], running: Running) -> Outcome:
        session, message = begun.opened.session, messages[-1]
        employed, missing = self.policy.agent_of(session), self.policy.missing_agent(session)
        briefing = brief(self.policy, employed, begun, messages)
        preview = self.delivery.preview(message.source, begun.turn, [stored.message.id for stored in running.batch])
        conversation = Conversation(employed.agent, briefing.restore, preview.show, self.clock, self.observer)
        running.stoppable(conversation.stop)
        ending = await conversation.run(briefing.turn, self.policy.idle_timeout)
        words = replies.reset_words(session.notice) + replies.missing_agent_words(missing, employed.name)
        return replies.outcome(conversation, ending, message, words, self.clock.now())
