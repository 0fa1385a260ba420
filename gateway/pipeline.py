"""
THE LIFE OF A MESSAGE, top to bottom.

admit - key - lane - accept - open - prompt - history - agent - record - deliver: ten stages, each a
function of that name. When `receive` returns, the message is on disk. The answer becomes
transcript, usage, parts and the state "done" in one transaction; only then is it sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from turngate.gateway.commands.dispatch import CommandDispatch, StoredCommand
from turngate.gateway.commands.registry import Call, Retry
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import MalformedRecord, Refused, StoreError, TurngateError
from turngate.gateway.domain.ids import LARGEST_NUMBER, InboxId, SessionKey
from turngate.gateway.domain.messages import InboundMessage, InboxState, MessageKind
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import Accepted, InboxItem, Outcome
from turngate.gateway.inbound.admission import NOT_CONVERTED, WRONG_TYPE, Admission
from turngate.gateway.inbound.edits import Edits
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules import outcomes
from turngate.gateway.rules.authorization import ANSWERED_KINDS, Refusal
from turngate.gateway.rules.history_window import Window
from turngate.gateway.rules.outcomes import AgentResult
from turngate.gateway.rules.policy import Policy
from turngate.gateway.rules.token_estimate import estimate_tokens
from turngate.gateway.stores.unreadable import as_unreadable, make_sure_it_can_be_read
from turngate.gateway.turns.agent_input import (
    AgentInput,
    Prompt,
    as_recorded,
    build_agent_input,
    build_prompt,
    select_history,
)
from turngate.gateway.turns.agent_run import AgentRun, Show
from turngate.gateway.turns.attachments import Attachments, not_fetched
from turngate.gateway.turns.batch import ActiveBatch, QueuedMessage
from turngate.gateway.turns.billing import answered_by
from turngate.gateway.turns.cross_chat import CrossChatSender
from turngate.gateway.turns.lanes import Lanes, Ticket
from turngate.gateway.turns.questions import Interpreted, Questions
from turngate.gateway.turns.recorder import TurnRecorder
from turngate.gateway.turns.running_turn import RunningTurn
from turngate.gateway.turns.services import ServicesForTurn
from turngate.gateway.turns.steering import Steering


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Receives messages, runs their turns and delivers the answers."""

    policy: Policy
    store: Store
    accounts: ConnectedAccounts
    admission: Admission
    edits: Edits
    lanes: Lanes
    questions: Questions
    commands: CommandDispatch
    attachments: Attachments
    recorder: TurnRecorder
    cross_chat: CrossChatSender
    splitter: Splitter
    delivery: Delivery
    observer: Observer
    clock: Clock

    async def receive(self, message: InboundMessage) -> None:
        """
        Take in a message; called by adapters. When it returns, the message is stored.

        Raises Refused for what is never accepted, and StoreError if it could not be stored.
        """
        reason = NOT_CONVERTED
        try:
            make_sure_it_can_be_read(message)
        except MalformedRecord:
            message = as_unreadable(message, self.clock.now())
            reason = WRONG_TYPE

        refusal = self._admit(message)
        key = self._key(message)

        if message.kind is MessageKind.UNREADABLE and self.admission.may_keep(message, refusal):
            await self.admission.set_aside(message, reason)
        elif refusal is not None:
            await self.admission.reject(message, refusal)
        elif message.kind not in ANSWERED_KINDS:
            await self.edits.apply(key, message)
        else:
            await self._take_in(key, message)

    async def read_again(self, item: InboxItem) -> None:
        """
        Take in an event that was set aside, if its adapter can convert it now.

        It is admitted like any other message. What is not for the bot is dropped.
        """
        message = await self._converted(item)
        if message is None:
            await self.store.drop(item.id, "there is nothing in it for the bot")
            return

        refusal = self._admit(message)
        key = self._key(message)
        if refusal is not None:
            await self.store.drop(item.id, refusal.value)
        elif message.kind not in ANSWERED_KINDS:
            await self.edits.apply(key, message)
            await self.store.drop(item.id, "read after all, and it needs no answer")
        else:
            await self._take_in(key, message, instead_of=item.id)

    async def _converted(self, item: InboxItem) -> InboundMessage | None:
        source = item.message.source
        reader = self.accounts.reader(source)
        if reader is None:
            raise Refused(f"the account {source.platform}/{source.account} cannot read it again")
        try:
            message = await reader.read_again(item.message.raw or "")
        except ValueError as exc:
            raise Refused(f"it still cannot be read: {exc}") from exc
        except TurngateError:
            raise
        except Exception as exc:
            self.observer.bug(exc)
            raise Refused(f"it still cannot be read ({type(exc).__name__})") from exc

        if message is not None and message.kind is MessageKind.UNREADABLE:
            raise Refused("it still cannot be read")
        return message

    async def _take_in(
        self, key: SessionKey, message: InboundMessage, *, instead_of: InboxId | None = None
    ) -> None:
        crashpoint("received")
        interpreted = self.questions.interpret(message, key)

        # Invariant I5, order: the place in the lane is taken before the first await. A message that
        # arrives while this one is being stored cannot get in front of it.
        ticket = self._lane(key, interpreted.call)

        storing = asyncio.ensure_future(self._accept(key, message, interpreted, instead_of))
        storing.add_done_callback(lambda _: self._enqueue(key, storing, ticket, interpreted))

        # The adapter may be cancelled during the write. A message that reaches the disk is answered
        # all the same.
        await asyncio.shield(storing)
        crashpoint("accepted")

    def _admit(self, message: InboundMessage) -> Refusal | None:
        """Stage 1: decide whether the sender may use the bot. Returns why not."""
        return self.admission.check(message)

    def _key(self, message: InboundMessage) -> SessionKey:
        """Stage 2: compute which session the message belongs to."""
        return self.policy.key_of(message.source)

    def _lane(self, key: SessionKey, call: Call | None) -> Ticket:
        """
        Stage 3: take a place in the lane of the session.

        Commands do not wait for the running turn. A command that stops a turn holds back what comes
        after it, because it may change the session.
        """
        if call is None:
            return self.lanes.join(key)
        if call.command.needs_exclusive:
            return self.lanes.exclusive(key)

        return self.lanes.command_queue(key, holding=call.command.stops_turn)

    async def _accept(
        self,
        key: SessionKey,
        message: InboundMessage,
        interpreted: Interpreted,
        instead_of: InboxId | None,
    ) -> Accepted | None:
        """Stage 4: store the message in the inbox, once. None if it is not for the bot."""
        accept = (
            self.store.accept
            if instead_of is None
            else partial(self.store.accept_again, instead_of)
        )
        accept_it = partial(accept, interpreted.message, key, choosing=interpreted.choosing)
        accepted = await self.admission.admit(message, key, accept_it)
        if accepted is None and instead_of is not None:
            await self.store.drop(instead_of, Refusal.UNADDRESSED.value)
        return accepted

    def _enqueue(
        self,
        key: SessionKey,
        storing: asyncio.Future[Accepted | None],
        ticket: Ticket,
        interpreted: Interpreted,
    ) -> None:
        """Called when the write is done: enqueue the message, or free its place in the lane."""
        failed = storing.cancelled() or storing.exception() is not None
        accepted = None if failed else storing.result()
        self.observer.stored(interpreted.message.source, accepted)

        if accepted is None or accepted.duplicate:
            self.questions.undo(interpreted)
            ticket.leave()
            return

        is_command = interpreted.call is not None
        ticket.take(QueuedMessage(id=accepted.id, message=interpreted.message, alone=is_command))
        if not is_command and self.lanes.queues_messages:
            self.questions.hint(interpreted.message, key)

    async def recover(self, *, crashes: int = 0) -> None:
        """
        Resume what an earlier run of the daemon left in the inbox, in the order of arrival.

        After a crash the turns that were running run again one at a time. `crashes`: how many in a
        row.
        """
        items = await self.store.inbox(InboxState.WAITING, InboxState.RUNNING, limit=LARGEST_NUMBER)
        if crashes:
            suspects = [item.turn for item in items if item.turn is not None]
            self.lanes.quarantine.begin(suspects, crashes)
            self.observer.crashed(crashes, suspects=len(set(suspects)))

        for item in items:
            self.resume(item)

    def resume(self, item: InboxItem) -> None:
        """Enqueue a message that is in the inbox already."""
        call = self.questions.call_in(item.message) if item.turn is None else None
        queued = QueuedMessage.recovered_from(item, alone=call is not None)
        self._lane(item.key, call).take(queued)

    async def run_batch(self, key: SessionKey, batch: ActiveBatch) -> None:
        """Process the batch that is next in its lane. Errors end here, so the lane continues."""
        first = batch.queued[0]
        last = batch.queued[-1].message
        call = self.questions.call_in(last) if first.alone else None

        try:
            if call is not None:
                await self._run_command(key, batch, call)
            elif first.is_surplus:
                await self._refuse_surplus(batch)
            else:
                await self._run_turn(batch)
        except Refused as exc:
            # Its session was deleted in the meantime, or an earlier run had settled it.
            self.observer.dropped(exc)
        except StoreError as exc:
            # Damage. A full disk or a lock is waited for where it is written.
            self.observer.store_failed(exc)
        # The lane boundary: a bug in one message must not stop others.
        except Exception as exc:  # noqa: BLE001
            self.observer.bug(exc)

        self.delivery.settled(last.source, batch.ids)

    async def _run_command(self, key: SessionKey, batch: ActiveBatch, call: Call) -> None:
        queued = batch.queued[0]
        stored = StoredCommand(
            row=queued.id,
            message=queued.message,
            recovered=queued.recovered,
            is_beside=batch.beside,
            set_stop=batch.stoppable,
        )
        answer = await self.commands.run(key, call, stored)

        if isinstance(answer, Retry):
            await self._run_turn(batch, answer)
            return

        batch.mark_answered()
        await self._deliver(answer)

    async def _refuse_surplus(self, batch: ActiveBatch) -> None:
        parts = await self.recorder.refuse(batch)
        batch.mark_answered()
        await self._deliver(parts)

    async def _run_turn(self, batch: ActiveBatch, retry: Retry | None = None) -> None:
        messages = await self.attachments.fetch(batch)

        started_at = self.clock.monotonic()
        turn = await self._open(batch, messages, retry)

        try:
            outcome = await self._run_agent(turn)
            parts = await self._record(turn, outcome)
        except Refused:
            await self._resume_detached(batch)
            raise

        batch.mark_answered()
        seconds = self.clock.monotonic() - started_at
        self.observer.turn_ended(turn.begun, outcome, turn.answered_by, seconds)

        await self._deliver(parts)

    async def _resume_detached(self, batch: ActiveBatch) -> None:
        """
        Enqueue messages whose turn was taken from them while it ran: its row, or that of its
        session, was damaged on disk and is set aside.
        """
        for item in await self.store.inbox(InboxState.WAITING, limit=LARGEST_NUMBER):
            if item.turn is None and item.id in batch.rows:
                self.resume(item)

    async def _open(
        self, batch: ActiveBatch, messages: Sequence[InboundMessage], retry: Retry | None
    ) -> RunningTurn:
        """Stage 5: open the session and begin the turn. A crash from here on is an attempt."""
        begun = await self.recorder.begin(batch, messages, retry)
        was_reset = begun.opened.notice and begun.opened.is_new
        crashpoint("reset" if was_reset else "turn-started")

        session = begun.opened.session
        configured = self.policy.agent_of(session)
        await self.lanes.count_for(session.key, batch, configured.name)
        return RunningTurn(
            begun=begun,
            batch=batch,
            messages=messages,
            configured=configured,
            answered_by=configured.name,
        )

    async def _run_agent(self, turn: RunningTurn) -> Outcome:
        """Run the agent, unless the turn must not run. An error of ours becomes an outcome."""
        try:
            outcome = self._why_not_run(turn)
            if outcome is None:
                outcome = await self._ask_agent(turn)
        # The lane boundary: the user is informed, the lane continues.
        except Exception as exc:  # noqa: BLE001
            self.observer.bug(exc)
            broken = outcomes.broken(turn.last_message, self.clock.now())
            outcome = outcomes.in_place_of(turn.begun.preview, broken)
        return outcome

    def _why_not_run(self, turn: RunningTurn) -> Outcome | None:
        """Return what to say instead of running the turn; None: run it."""
        given_up = self.questions.given_up(turn.begun, turn.last_message)
        if given_up is not None:
            return given_up
        return self.recorder.billing.refusal(turn.last_message)

    async def _ask_agent(self, turn: RunningTurn) -> Outcome:
        files = self.attachments.files
        recorded = as_recorded(turn.begun.user_entries, turn.messages, files)
        message = recorded[-1]

        prompt = self._prompt(turn, recorded)
        history = self._history(turn, prompt)
        agent_input = build_agent_input(self.policy, turn, recorded, prompt, history, files)

        preview = self.delivery.preview(
            message.source, turn.id, turn.batch.ids, shown_in=turn.begun.preview
        )
        result = await self._agent(turn, agent_input, preview.show)

        outcome = self._outcome_of(turn, agent_input, result, message)
        shown_in = await preview.close()
        outcome = outcomes.in_place_of(shown_in, outcome)
        return await self.splitter.fit(outcome, turn.session.id)

    def _prompt(self, turn: RunningTurn, recorded: Sequence[InboundMessage]) -> Prompt:
        """Stage 6: write the context prompt: where the conversation takes place, and with whom."""
        background = self.admission.background.take(recorded[-1])
        return build_prompt(self.policy, turn, recorded, background, now=self.clock.now())

    def _history(self, turn: RunningTurn, prompt: Prompt) -> Window:
        """Stage 7: select the part of the transcript that fits beside the prompt."""
        return select_history(self.policy, turn, prompt)

    async def _agent(self, turn: RunningTurn, agent_input: AgentInput, show: Show) -> AgentResult:
        """Stage 8: run the agent until it is done, fails, takes too long or is stopped."""
        agent = turn.configured.agent
        run = AgentRun(
            agent,
            agent_input.restore,
            show,
            self.clock,
            self.observer,
            for_people=agent_input.for_people,
        )
        turn.batch.stoppable(run.stop)
        turn.batch.steerable(self._steering(turn, run, agent_input).take)

        services = self._services(turn)
        timeouts = self.policy.timeouts_for(turn.configured)
        end = await run.run(agent_input.turn, timeouts, services)

        turn.batch.steerable(None)
        self.questions.close(turn.id)
        turn.answered_by = answered_by(turn.configured, agent_input.turn)
        return run.result(end, stopped_because=turn.batch.ended_for)

    def _services(self, turn: RunningTurn) -> ServicesForTurn:
        return ServicesForTurn(
            turn=turn,
            store=self.store,
            files=self.attachments.files.keeper(turn.session.id),
            questions=self.questions,
            cross_chat=self.cross_chat,
        )

    def _steering(self, turn: RunningTurn, run: AgentRun, agent_input: AgentInput) -> Steering:
        return Steering(
            turn=turn.id,
            agent=turn.configured.agent,
            agent_run=run,
            redact=agent_input.redact,
            store=self.store,
            observer=self.observer,
        )

    def _outcome_of(
        self,
        turn: RunningTurn,
        agent_input: AgentInput,
        result: AgentResult,
        message: InboundMessage,
    ) -> Outcome:
        """Turn the result into entries and parts, with its usage and the size of the session."""
        notices = outcomes.words_before(self.policy, turn.session, turn.begun.history)
        notices += not_fetched(turn.begun.user_entries, turn.batch)
        outcome = outcomes.outcome(result, message, notices, self.clock.now())
        if result.is_refused:
            outcome = outcomes.without_asked(outcome, turn.begun.user_entries)

        billed = self.recorder.billing.billed(
            outcome, turn.configured, turn.answered_by, agent_input.turn, message.source
        )
        weight = agent_input.weight + sum(map(estimate_tokens, outcome.entries))
        return replace(billed, weight=weight)

    async def _record(self, turn: RunningTurn, outcome: Outcome) -> tuple[Part, ...]:
        """Stage 9: store transcript, usage, parts and "done" in one transaction."""
        crashpoint("turn-finishing")
        parts = await self.recorder.finish(turn, outcome)
        crashpoint("turn-finished")

        self.questions.remember(*parts)
        return parts

    async def _deliver(self, parts: Sequence[Part]) -> None:
        """Stage 10: send the parts in order. Returns when each was tried once, or has to wait."""
        await self.delivery.deliver(parts)
