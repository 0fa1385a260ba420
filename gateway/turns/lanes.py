"""
One turn at a time per session, many sessions at once.

A ticket in the lane is taken before the first `await`, so turns follow the order of arrival,
whatever the store does in between. A lane exists only while a message is in it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from turngate.gateway.commands import COMMANDS
from turngate.gateway.domain.ids import InboxId, SessionKey
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.turns.batch import ActiveBatch, QueuedMessage
from turngate.gateway.turns.quarantine import Quarantine
from turngate.gateway.turns.slots import Holder, Slot, Slots

_MOST_PAUSES = 10
"""A stream of messages that never pauses for long enough is answered after so many pauses."""
_REMEMBERED = 10_000


class WhenBusy(StrEnum):
    """What happens to a message that arrives while a turn of its session runs."""

    COLLECT = "collect"
    FOLLOW_UP = "follow_up"
    INTERRUPT = "interrupt"
    STEER = "steer"


class Ticket(Protocol):
    """A ticket in a lane while a message is stored; left if that fails or it is a duplicate."""

    def take(self, stored: QueuedMessage) -> None:
        """Fill the place with the stored message, which runs when it is first in the lane."""

    def leave(self) -> None:
        """Give the place up."""


class _LaneTicket:
    def __init__(self, lane: _Lane, held: Ticket | None = None) -> None:
        self._lane = lane
        self.held = held
        self.stored: QueuedMessage | None = None

    def take(self, stored: QueuedMessage) -> None:
        # Commands and messages of an earlier run are never refused: commands can free the lane, and
        # the others were accepted before.
        if self._lane.is_full and not (stored.alone or stored.recovered):
            self.leave()
            self._lane.refuse_surplus(stored)
            return

        self.stored = stored
        self._lane.notify()
        # Only now: a message that could not be stored must not end a turn.
        if self._lane.interrupts and self._lane.running is not None:
            self._lane.running.stop()

        if (
            self._lane.steer is not None
            and self._lane.running is not None
            and not (stored.alone or stored.recovered)
        ):
            self._lane.steer(self._lane.running, self)

    @property
    def is_waiting(self) -> bool:
        return self in self._lane.tickets

    def leave(self) -> None:
        self._lane.tickets.remove(self)
        if self.stored is not None and self._lane.on_removed is not None:
            self._lane.on_removed(self.stored)
        # The lane may be waiting for this very place to be stored.
        self._lane.notify()
        if self.held is not None:
            self.held.leave()


@dataclass(slots=True, eq=False)
class _Lane:
    key: SessionKey
    interrupts: bool = False
    room: int | None = None
    refuse: Callable[[QueuedMessage], None] | None = None
    steer: Callable[[ActiveBatch, _LaneTicket], None] | None = None
    on_removed: Callable[[QueuedMessage], None] | None = None
    tickets: list[_LaneTicket] = field(default_factory=list)
    _wakeup: asyncio.Future[None] | None = None
    running: ActiveBatch | None = None
    overflows: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the queue limit is reached."""
        return (
            self.room is not None
            and sum(ticket.stored is not None for ticket in self.tickets) >= self.room
        )

    def notify(self) -> None:
        """Wake the task that serves the lane: something has changed."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def change(self) -> None:
        """Wait for a change."""
        # A future per wait instead of an Event: there are many lanes, and each has one waiter.
        self._wakeup = asyncio.get_running_loop().create_future()
        await self._wakeup

    def refuse_surplus(self, stored: QueuedMessage) -> None:
        """Refuse a surplus message. The first one since there was room gets a notice."""
        if self.refuse is not None:
            self.refuse(replace(stored, is_surplus=True, is_first_surplus=not self.overflows))
        self.overflows = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRules:
    """Limits and timing of turns. `agents` is how many there are, who share the slots."""

    when_busy: WhenBusy = WhenBusy.COLLECT
    debounce: timedelta = timedelta(milliseconds=600)
    concurrent: int = 64
    waiting_per_session: int = 50
    agents: int = 1


AgentOf = Callable[[SessionSource], str]
Work = Callable[[SessionKey, ActiveBatch], Coroutine[None, None, None]]


class Lanes:
    """
    All lanes with messages in them. `work` runs one batch and must not raise. `agent_of` tells
    whose slots a message takes, unless its session has had another agent before.
    """

    def __init__(
        self,
        rules: LaneRules,
        work: Work,
        quarantine: Quarantine,
        tasks: asyncio.TaskGroup,
        agent_of: AgentOf = lambda source: "",
    ) -> None:
        self._rules = rules
        self._work = work
        self.quarantine = quarantine
        self._tasks = tasks
        self._slots = Slots(rules.concurrent, agents=rules.agents)
        self._agent_of = agent_of
        self._chosen: OrderedDict[SessionKey, str] = OrderedDict()
        self._lanes: dict[SessionKey, _Lane] = {}
        self._command_lanes: dict[SessionKey, _Lane] = {}
        self._closing = asyncio.Event()

    def join(self, key: SessionKey) -> Ticket:
        """Take a ticket in a lane. Never waits, so a later message cannot get an earlier place."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(
                key,
                interrupts=self._rules.when_busy is WhenBusy.INTERRUPT,
                room=self._rules.waiting_per_session,
                # Beside the lane, so that a refusal does not wait for the turns it was refused for.
                refuse=lambda stored: self.command_queue(key).take(stored),
                steer=self._offer if self._rules.when_busy is WhenBusy.STEER else None,
                # A suspect that is dropped must not hold everything else back.
                on_removed=lambda stored: self.quarantine.clear(stored.turn),
            )
            self._tasks.create_task(self._serve(lane), name="lane")

        ticket = _LaneTicket(lane)
        lane.tickets.append(ticket)
        lane.notify()
        return ticket

    def exclusive(self, key: SessionKey) -> Ticket:
        """Take a place for a command that must run alone. Beside a busy lane it is refused."""
        lane = self._lanes.get(key)
        # A lane whose turn has its answer stored counts as idle: only the delivery is left.
        is_quiet = lane is None or (
            not lane.tickets and lane.running is not None and lane.running.is_answered
        )
        return self.join(key) if is_quiet else self.command_queue(key)

    def command_queue(self, key: SessionKey, *, holding: bool = False) -> Ticket:
        """
        Queue work that does not wait for the running turn (a command).

        It waits for earlier commands of the session only. `holding` also keeps new turns from
        starting until it is done.
        """
        # The second place keeps later messages from starting a turn before the command is done.
        held = self.join(key) if holding else None
        lane = self._command_lanes.get(key)
        if lane is None:
            lane = self._command_lanes[key] = _Lane(key)
            self._tasks.create_task(self._serve_commands(lane), name="beside")

        ticket = _LaneTicket(lane, held)
        lane.tickets.append(ticket)
        lane.notify()
        return ticket

    @property
    def queues_messages(self) -> bool:
        """Return whether a message waits for the running turn, instead of changing or ending it."""
        return self._rules.when_busy in (WhenBusy.COLLECT, WhenBusy.FOLLOW_UP)

    def is_busy(self, key: SessionKey) -> bool:
        """Return whether a turn runs there or a message waits for one."""
        return key in self._lanes

    def is_taken(self, key: SessionKey) -> bool:
        """Return whether anything is queued there, commands included. Safe from any thread."""
        # The sweep asks on the store's thread: two lookups are safe there, an iteration is not.
        return key in self._lanes or key in self._command_lanes

    def waiting(self, key: SessionKey) -> list[InboundMessage]:
        """Return the stored messages that wait for their turn, in order."""
        lane = self._lanes.get(key)
        return [ticket.stored.message for ticket in lane.tickets if ticket.stored] if lane else []

    def remove(self, key: SessionKey, inbox: InboxId) -> bool:
        """Remove a waiting message from its lane. False if it does not wait there."""
        lane = self._lanes.get(key)
        ticket = (
            next((each for each in lane.tickets if each.stored and each.stored.id == inbox), None)
            if lane
            else None
        )
        if ticket is not None:
            ticket.leave()
        return ticket is not None

    def amend(self, key: SessionKey, edit: InboundMessage) -> InboxId | None:
        """Replace the text of a waiting message by an edit. None if no such message waits."""
        lane = self._lanes.get(key)
        for ticket in lane.tickets if lane else ():
            if ticket.stored is not None and ticket.stored.is_changed_by(edit):
                message = replace(ticket.stored.message, text=edit.text)
                ticket.stored = replace(ticket.stored, message=message)
                return ticket.stored.id
        return None

    def depth(self) -> tuple[int, int]:
        """Return how many lanes run a turn, and how many messages wait."""
        lanes = self._lanes.values()
        return sum(lane.running is not None for lane in lanes), sum(
            len(lane.tickets) for lane in lanes
        )

    async def stop(self, key: SessionKey) -> bool:
        """Stop the turn that runs or is next and wait for its end. False if there is none."""
        lane = self._lanes.get(key)
        # A batch that still waits for its debounce or a slot is started only to be stopped, so that
        # its messages are settled.
        running = None if lane is None else lane.running or self._begin_stopped(lane)
        if running is None:
            return False

        running.stop()
        await running.until_over()
        return True

    def change(self, rules: LaneRules) -> None:
        """Replace the rules. A lane that is in use keeps the old ones until it is empty."""
        self._rules = rules
        self._slots.resize(rules.concurrent, agents=rules.agents)

    async def until_over(self) -> None:
        """Wait until everything that runs now has ended."""
        for lane in [*self._lanes.values(), *self._command_lanes.values()]:
            if lane.running is not None:
                await lane.running.until_over()

    async def close(self) -> None:
        """Start nothing more and wait for what runs. Waiting messages stay in the inbox."""
        self._closing.set()
        await self.until_over()

    async def end_what_runs_once(self, why: str) -> None:
        """Stop the turns that must not run again, and wait until their answers are sent."""
        running = [lane.running for lane in self._lanes.values() if lane.running is not None]
        once = [each for each in running if each.runs_once and not each.is_answered]
        # All are stopped first, so that they end at the same time.
        for each in once:
            each.end(why)
        for each in once:
            await each.until_over()

    def unanswered(self) -> list[tuple[SessionKey, InboundMessage]]:
        """Return the running turns without a stored answer, each with its last message."""
        running = [
            (lane.key, lane.running) for lane in self._lanes.values() if lane.running is not None
        ]
        return [(key, each.queued[-1].message) for key, each in running if not each.is_answered]

    def _begin_stopped(self, lane: _Lane) -> ActiveBatch | None:
        """Run a waiting batch at once, without debounce and slot, for `stop` to end it."""
        first = lane.tickets[0].stored if lane.tickets else None
        # A command that is next is not a turn, so it is not stopped.
        if first is None or first.alone or self._closing.is_set():
            return None

        lane.running = ActiveBatch(self._take_out(lane, gathers=True))
        lane.notify()
        self._tasks.create_task(self._work_on(lane, lane.running), name="stopped")
        return lane.running

    async def _serve(self, lane: _Lane) -> None:
        while (lane.tickets or lane.running is not None) and not self._closing.is_set():
            if lane.running is not None:
                await lane.running.until_over()  # it was stopped before it began
                continue

            first = lane.tickets[0]
            # Only a message that is being stored now is debounced. One that waited behind a turn
            # has waited long enough.
            comes_just_now = first.stored is None
            if not await self._is_stored(lane, first):
                continue
            if comes_just_now:
                await self._settle(lane)

            turn = first.stored.turn if first.stored else None
            attempts = first.stored.attempts if first.stored else 0
            holder = self._holder(lane.key, first.stored)
            async with (
                self.quarantine.enter(turn, attempts) as probation,
                Slot(self._slots, holder) as slot,
            ):
                if self._closing.is_set():
                    break
                # It may have been stopped, dropped or joined to another turn while this waited for
                # a slot.
                if first not in lane.tickets:
                    continue
                # In `follow_up` mode messages that waited are answered one by one.
                gathers = comes_just_now or self._rules.when_busy is not WhenBusy.FOLLOW_UP
                batch = self._take_out(lane, gathers=gathers)
                lane.running = ActiveBatch(batch, slot=slot, probation=probation)
                await self._work_on(lane, lane.running)

        # No await since `tickets` was found empty: a ticket taken in between would never be served.
        del self._lanes[lane.key]

    def _holder(self, key: SessionKey, stored: QueuedMessage | None) -> Holder:
        """Return for whom a message takes a slot."""
        if stored is None:
            return Holder()
        source = stored.message.source
        person = source.participant_id and f"{source.platform}:{source.participant_id}"
        return Holder(agent=self._chosen.get(key) or self._agent_of(source), person=person)

    async def count_for(self, key: SessionKey, batch: ActiveBatch, agent: str) -> None:
        """
        Count a running batch toward the agent of its session, which may not be the routed one.

        Waits if that agent has its share of the slots already. Remembered for the next batch.
        """
        self._chosen[key] = agent
        self._chosen.move_to_end(key)
        if len(self._chosen) > _REMEMBERED:
            self._chosen.popitem(last=False)
        await batch.count_slot_for(agent)

    def _offer(self, running: ActiveBatch, ticket: _LaneTicket) -> None:
        self._tasks.create_task(self._steer(running, ticket), name="steer")

    async def _steer(self, running: ActiveBatch, ticket: _LaneTicket) -> None:
        """Offer a message to the running turn. If it is not taken, it waits for the next one."""
        # The place is kept until the turn has taken the message. By then the message may have left
        # it with the next turn.
        if ticket.stored is not None and await running.takes(ticket.stored) and ticket.is_waiting:
            ticket.leave()

    async def _serve_commands(self, lane: _Lane) -> None:
        while lane.tickets:
            first = lane.tickets[0]
            if await self._is_stored(lane, first):
                lane.running = ActiveBatch(
                    self._take_out_beside(lane),
                    beside=True,
                    release_hold=first.held.leave if first.held else None,
                )
                await self._work_on(lane, lane.running)
        del self._command_lanes[lane.key]

    async def _work_on(self, lane: _Lane, running: ActiveBatch) -> None:
        try:
            await self._work(lane.key, running)
        # Whatever happened, the lane must not look busy afterwards.
        finally:
            lane.running = None
            running.finish()
            self.quarantine.clear(running.queued[0].turn)

    async def _is_stored(self, lane: _Lane, first: _LaneTicket) -> bool:
        """Wait until the first message of the lane is stored; False if it has left."""
        while first.stored is None:
            await lane.change()
            if not lane.tickets or lane.tickets[0] is not first:
                return False
        return True

    async def _settle(self, lane: _Lane) -> None:
        """Debounce: users write in bursts, and platforms split long pastes."""
        pause = self._rules.debounce.total_seconds()
        now = asyncio.get_running_loop().time
        # A user who never pauses is answered after a bounded time.
        deadline = now() + _MOST_PAUSES * pause

        # A command among the messages ends the pause, and so does a batch that `stop` took out.
        while (
            pause > 0
            and lane.running is None
            and not any(each.stored and each.stored.alone for each in lane.tickets)
        ):
            count = len(lane.tickets)
            try:
                async with asyncio.timeout_at(min(now() + pause, deadline)):
                    while len(lane.tickets) == count:
                        await lane.change()
            except TimeoutError:
                return

    def _take_out(self, lane: _Lane, *, gathers: bool) -> list[QueuedMessage]:
        """Remove the first message and those after it that may be answered with it."""
        batch: list[QueuedMessage] = []
        while lane.tickets and lane.tickets[0].stored is not None:
            stored = lane.tickets[0].stored
            together = gathers or stored.turn is not None  # rows of one turn are never torn apart
            if batch and not (together and batch[0].goes_with(stored)):
                break
            batch.append(stored)
            lane.tickets.pop(0)
            # There is room again, so the next surplus message gets a notice.
            lane.overflows = False

        return batch

    def _take_out_beside(self, lane: _Lane) -> list[QueuedMessage]:
        """Remove one command, or all surplus messages at once."""
        batch: list[QueuedMessage] = []
        # Refused one by one, a chat that never stops would keep the disk busy with refusals.
        for ticket in lane.tickets:
            if ticket.stored is None or (
                batch and not (batch[0].is_surplus and ticket.stored.is_surplus)
            ):
                break
            batch.append(ticket.stored)

        del lane.tickets[: len(batch)]
        return batch


def amend_queued(lanes: Lanes, key: SessionKey, edit: InboundMessage) -> InboxId | None:
    """Amend a waiting message. An edit never turns a message into a command."""
    if COMMANDS.find(edit.text) is not None:
        return None
    return lanes.amend(key, edit)
