"""Run a chat command: collect what it may know, run it, and store its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from turngate.gateway.commands.registry import Call, CommandAnswer, Request, Retry
from turngate.gateway.domain.ids import InboxId, SessionKey
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules import outcomes
from turngate.gateway.rules.authorization import authorize
from turngate.gateway.rules.budgets import Standing
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.waiting_store import until_stored

_BUSY = "A turn is running or waiting here. /stop it first, or wait for its answer."

SetStop = Callable[[Callable[[], None]], None]
Compact = Callable[[Session, SessionSource, SetStop], Awaitable[str]]


class Lanes(Protocol):
    """What a command may ask of the lanes."""

    async def stop(self, key: SessionKey) -> bool:
        """Stop the turn that runs or is next. False if there is none."""

    def is_busy(self, key: SessionKey) -> bool:
        """Return whether a turn runs there or a message waits for one."""

    def waiting(self, key: SessionKey) -> Sequence[InboundMessage]:
        """Return the messages that wait for their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommand:
    """
    A command in the inbox.

    `recovered`: an earlier run of the daemon may have done it already. `is_beside`: it runs while a
    turn of its session may run. `set_stop` is given how to stop what the command does.
    """

    row: InboxId
    message: InboundMessage
    recovered: bool
    is_beside: bool
    set_stop: SetStop


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDispatch:
    """Runs commands and stores their answers."""

    policy: Policy
    store: Store
    observer: Observer
    clock: Clock
    lanes: Lanes
    pairing: Pairing
    splitter: Splitter
    standing: Callable[[SessionSource], Standing]
    compact: Compact

    async def run(
        self, key: SessionKey, call: Call, stored: StoredCommand
    ) -> Retry | tuple[Part, ...]:
        """Run a command. Returns the parts to send, or the question that is to be asked again."""
        request = await self._request(key, call, stored)
        if call.command.needs_exclusive and request.busy:
            return await self._store_answer(stored, call, request, _BUSY)

        # A command may use any verb, also those that fail at once, so all of it is retried.
        answer = await until_stored(self.observer, call.command.run, request)
        if isinstance(answer, Retry):
            return answer

        return await self._store_answer(stored, call, request, answer)

    async def _request(self, key: SessionKey, call: Call, stored: StoredCommand) -> Request:
        source = stored.message.source
        # Before the session is opened: the stopped turn stores its partial answer in it.
        stopped = call.command.stops_turn and await self.lanes.stop(key)
        # Asked before the session is opened: opening waits for the disk, and turns may end by then.
        busy = stored.is_beside and (call.command.needs_exclusive or self.lanes.is_busy(key))

        opening = self.policy.opening(source)
        session = (await self.store.open(opening)).session
        is_admin = authorize(stored.message, self.policy.access).is_admin

        return Request(
            argument=call.argument,
            session=session,
            agent=self.policy.agent_of(session).name,
            store=self.store,
            row=stored.row,
            message=stored.message,
            pairing=self.pairing,
            standing=self.standing(source),
            compact=partial(self.compact, session, source, stored.set_stop),
            is_admin=is_admin,
            offered=self.policy.offered(source, to_admin=is_admin),
            stopped=stopped,
            busy=busy,
            waiting=len(self.lanes.waiting(key)),
            recovered=stored.recovered,
        )

    async def _store_answer(
        self, stored: StoredCommand, call: Call, request: Request, answer: str | CommandAnswer
    ) -> tuple[Part, ...]:
        if isinstance(answer, str):
            answer = CommandAnswer(text=answer)
        session = answer.session or request.session.id
        message = stored.message
        # The press of a button is kept as the label that was chosen, not as a nonce.
        if answer.kept_as is not None:
            message = replace(message, text=answer.kept_as)

        entries, parts = outcomes.commanded(
            message, answer.text, self.clock.now(), edits=answer.edits
        )
        fitted = await self.splitter.parts(parts, session)
        kept = await self.store.answer(stored.row, session, entries=entries, parts=fitted)
        self.observer.commanded(call.command.name, session)

        return kept
