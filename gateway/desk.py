"""The desk: whatever is answered without a turn. Commands, and messages that are one too many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from gateway import replies
from gateway.commands.registry import Again, Call, Request
from gateway.lanes import Lanes, Running
from gateway.model import Part, SessionKey
from gateway.observe import Observer
from gateway.patience import until_stored
from gateway.policy import Policy
from gateway.ports import Clock
from gateway.storing import Store


@dataclass(slots=True)
class Desk:
    """Answers at once, and hands over what is to be sent."""

    policy: Policy
    store: Store
    lanes: Lanes
    observer: Observer
    clock: Clock

    async def command(self, key: SessionKey, running: Running, call: Call) -> Again | tuple[Part, ...]:
        """Do what a command says: its answer for the outbox, or the question that is to be asked again."""
        stored, stopped = running.batch[0], call.command.stops_turn and await self.lanes.stop(key)
        opening = self.policy.opening(stored.message.source)
        busy = running.beside and (call.command.needs_quiet or self.lanes.is_busy(key))
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session
        request = Request(
            argument=call.argument,
            session=session,
            agent=self.policy.agent_of(session).name,
            store=self.store,
            row=stored.id,
            message=stored.message,
            stopped=stopped,
            busy=busy,
            waiting=len(self.lanes.waiting(key)),
            recovered=stored.recovered,
        )
        answer = await until_stored(lambda: call.command.run(request), self.observer)
        if isinstance(answer, Again):
            return answer
        message = stored.message if answer.said is None else replace(stored.message, text=answer.said)
        entries, parts = replies.commanded(message, answer.text, self.clock.now(), edits=answer.edits)
        answering = partial(self.store.answer, stored.id, answer.session, entries=entries, parts=parts)
        outgoing = await until_stored(answering, self.observer)
        self.observer.commanded(call.command.name, answer.session)
        return outgoing

    async def refuse(self, running: Running) -> tuple[Part, ...]:
        """A message that is one too many: it keeps its words, ends with a reason, and the first of them says so."""
        stored = running.batch[0]
        opening = self.policy.opening(stored.message.source)
        session = (await until_stored(lambda: self.store.open(opening), self.observer)).session
        parts = replies.parts(stored.message, replies.TOO_MANY) if stored.is_first_surplus else ()
        refusing = partial(self.store.refuse, stored.id, "too many messages wait", session=session.id, parts=parts)
        return await until_stored(refusing, self.observer)
