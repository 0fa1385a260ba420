"""
One turn at a time per conversation, many conversations at once.

A place in the lane is taken before the first `await`, so turns follow the order of arrival whatever the store does
meanwhile. A lane exists while somebody is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from turngate.gateway.domain.messages import InboundMessage, InboxId, SessionKey
from turngate.gateway.turns.batch import ActiveBatch, Stored
from turngate.gateway.turns.slots import Slot, Slots

_MOST_PAUSES = 10
"""A stream of messages that never pauses for long enough is answered after so many pauses."""


class WhenBusy(StrEnum):
    """What becomes of a message that arrives while a turn of its conversation runs."""

    COLLECT = "collect"
    FOLLOW_UP = "follow_up"
    INTERRUPT = "interrupt"
    STEER = "steer"


class Place(Protocol):
    """Where a message waits while it is being stored. Then it is taken, or left: a duplicate, or not stored."""

    def take(self, stored: Stored) -> None:
        """The message is on disk; its turn may come."""

    def leave(self) -> None:
        """There is nothing to do."""


class _LaneTicket:
    def __init__(self, lane: _Lane, held: Place | None = None) -> None:
        self._lane = lane
        self.held = held
        self.stored: Stored | None = None

    def take(self, stored: Stored) -> None:
        if self._lane.is_full and not (stored.alone or stored.recovered):
            self.leave()
            self._lane.send_away(stored)
            return
        self.stored = stored
        self._lane.ring()
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
        return self in self._lane.places

    def leave(self) -> None:
        self._lane.places.remove(self)
        self._lane.ring()
        if self.held is not None:
            self.held.leave()


@dataclass(slots=True, eq=False)
class _Lane:
    key: SessionKey
    interrupts: bool = False
    room: int | None = None
    refuse: Callable[[Stored], None] | None = None
    steer: Callable[[ActiveBatch, _LaneTicket], None] | None = None
    places: list[_LaneTicket] = field(default_factory=list)
    _bell: asyncio.Future[None] | None = None
    running: ActiveBatch | None = None
    overflows: bool = False

    @property
    def is_full(self) -> bool:
        """Whether as many wait as may."""
        return (
            self.room is not None
            and sum(place.stored is not None for place in self.places) >= self.room
        )

    def ring(self) -> None:
        """Something has changed in it."""
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def change(self) -> None:
        """Wait for that. Only whoever serves the lane does, and mostly nobody: an event would take much more room."""
        self._bell = asyncio.get_running_loop().create_future()
        await self._bell

    def send_away(self, stored: Stored) -> None:
        """Stored, and one too many. The first since there was room is told."""
        if self.refuse is not None:
            self.refuse(replace(stored, is_surplus=True, is_first_surplus=not self.overflows))
        self.overflows = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRules:
    """How turns are taken."""

    when_busy: WhenBusy = WhenBusy.COLLECT
    debounce: timedelta = timedelta(milliseconds=600)
    concurrent: int = 64
    waiting_per_session: int = 50


Work = Callable[[SessionKey, ActiveBatch], Coroutine[None, None, None]]


class Lanes:
    """Every lane that somebody is in. `work` does one batch, and must not raise."""

    def __init__(self, rules: LaneRules, work: Work, tasks: asyncio.TaskGroup) -> None:
        self._rules = rules
        self._work = work
        self._tasks = tasks
        self._slots = Slots(rules.concurrent)
        self._lanes: dict[SessionKey, _Lane] = {}
        self._beside: dict[SessionKey, _Lane] = {}
        self._closing = asyncio.Event()

    def join(self, key: SessionKey) -> Place:
        """Take a place. Never waits, so that nobody who comes later can be earlier."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(
                key,
                interrupts=self._rules.when_busy is WhenBusy.INTERRUPT,
                room=self._rules.waiting_per_session,
                refuse=lambda stored: self.beside(key).take(stored),
                steer=self._offer if self._rules.when_busy is WhenBusy.STEER else None,
            )
            self._tasks.create_task(self._serve(lane), name="lane")
        place = _LaneTicket(lane)
        lane.places.append(place)
        lane.ring()
        return place

    def when_quiet(self, key: SessionKey) -> Place:
        """For what must have the lane to itself: in it, if nobody is at work there; else beside it, to be refused."""
        lane = self._lanes.get(key)
        is_quiet = lane is None or (
            not lane.places and lane.running is not None and lane.running.is_answered
        )
        return self.join(key) if is_quiet else self.beside(key)

    def beside(self, key: SessionKey, *, holding: bool = False) -> Place:
        """
        For what waits for no turn: it starts as soon as it is stored and what came before it here is done.

        With `holding`, no turn begins meanwhile for whoever comes later.
        """
        held = self.join(key) if holding else None
        lane = self._beside.get(key)
        if lane is None:
            lane = self._beside[key] = _Lane(key)
            self._tasks.create_task(self._serve_beside(lane), name="beside")
        place = _LaneTicket(lane, held)
        lane.places.append(place)
        lane.ring()
        return place

    def is_busy(self, key: SessionKey) -> bool:
        """Whether a turn runs there or a message waits for one."""
        return key in self._lanes

    def is_taken(self, key: SessionKey) -> bool:
        """Whether anybody is there at all: in the lane, or beside it. May be asked from any thread."""
        return key in self._lanes or key in self._beside

    def waiting(self, key: SessionKey) -> list[InboundMessage]:
        """What is stored there and waits for its turn, in order."""
        lane = self._lanes.get(key)
        return [place.stored.message for place in lane.places if place.stored] if lane else []

    def let_go(self, key: SessionKey, inbox: InboxId) -> bool:
        """Take a message that waits for its turn out of the lane. False if it does not."""
        lane = self._lanes.get(key)
        place = (
            next((each for each in lane.places if each.stored and each.stored.id == inbox), None)
            if lane
            else None
        )
        if place is not None:
            place.leave()
        return place is not None

    def amend(self, key: SessionKey, edit: InboundMessage) -> InboxId | None:
        """Let a message that waits there say what its sender has made of it. None if there is no such message."""
        lane = self._lanes.get(key)
        for place in lane.places if lane else ():
            if place.stored is not None and place.stored.is_changed_by(edit):
                message = replace(place.stored.message, text=edit.text)
                place.stored = replace(place.stored, message=message)
                return place.stored.id
        return None

    def depth(self) -> tuple[int, int]:
        """How many lanes run a turn, and how many messages wait."""
        lanes = self._lanes.values()
        return sum(lane.running is not None for lane in lanes), sum(
            len(lane.places) for lane in lanes
        )

    async def stop(self, key: SessionKey) -> bool:
        """Stop the turn that runs there or is next, and wait until what it said is kept. False if there is none."""
        lane = self._lanes.get(key)
        running = None if lane is None else lane.running or self._begin_stopped(lane)
        if running is None:
            return False
        running.stop()
        await running.until_over()
        return True

    def change(self, rules: LaneRules) -> None:
        """Other rules from now on. A conversation in which something goes on keeps the old ones until it is quiet."""
        self._rules = rules
        self._slots.resize(rules.concurrent)

    async def until_over(self) -> None:
        """Return when what runs now has ended."""
        for lane in [*self._lanes.values(), *self._beside.values()]:
            if lane.running is not None:
                await lane.running.until_over()

    async def close(self) -> None:
        """Begin nothing more, and return when what runs has ended. What waits is in the inbox for the next start."""
        self._closing.set()
        await self.until_over()

    async def end_what_runs_once(self, why: str) -> None:
        """Stop the turns that nobody may run again, and wait until what they said is kept and sent."""
        running = [lane.running for lane in self._lanes.values() if lane.running is not None]
        once = [each for each in running if each.runs_once and not each.is_answered]
        for each in once:
            each.end(why)
        for each in once:
            await each.until_over()

    def unanswered(self) -> list[tuple[SessionKey, InboundMessage]]:
        """The turns that run and have no answer on disk yet, each with the last message it is to answer."""
        running = [
            (lane.key, lane.running) for lane in self._lanes.values() if lane.running is not None
        ]
        return [(key, each.batch[-1].message) for key, each in running if not each.is_answered]

    def _begin_stopped(self, lane: _Lane) -> ActiveBatch | None:
        """What waits for a pause or for room need not: it is over before it begins."""
        first = lane.places[0].stored if lane.places else None
        if first is None or first.alone or self._closing.is_set():
            return None
        lane.running = ActiveBatch(self._take_out(lane, gathers=True))
        lane.ring()
        self._tasks.create_task(self._work_on(lane, lane.running), name="stopped")
        return lane.running

    async def _serve(self, lane: _Lane) -> None:
        while (lane.places or lane.running is not None) and not self._closing.is_set():
            if lane.running is not None:
                await lane.running.until_over()  # it was stopped before it began
                continue
            first = lane.places[0]
            comes_just_now = first.stored is None
            if not await self._is_stored(lane, first):
                continue
            if comes_just_now:
                await self._settle(lane)
            async with Slot(self._slots) as slot:
                if self._closing.is_set():
                    break
                if first not in lane.places:
                    continue
                gathers = comes_just_now or self._rules.when_busy is not WhenBusy.FOLLOW_UP
                lane.running = ActiveBatch(self._take_out(lane, gathers=gathers), slot=slot)
                await self._work_on(lane, lane.running)
        del self._lanes[lane.key]

    def _offer(self, running: ActiveBatch, place: _LaneTicket) -> None:
        self._tasks.create_task(self._steer(running, place), name="steer")

    async def _steer(self, running: ActiveBatch, place: _LaneTicket) -> None:
        """What the turn does not take waits for the next one, which may have begun by the time it says so."""
        if place.stored is not None and await running.takes(place.stored) and place.is_waiting:
            place.leave()

    async def _serve_beside(self, lane: _Lane) -> None:
        while lane.places:
            first = lane.places[0]
            if await self._is_stored(lane, first):
                lane.running = ActiveBatch(
                    self._take_out_beside(lane),
                    beside=True,
                    let_go=first.held.leave if first.held else None,
                )
                await self._work_on(lane, lane.running)
        del self._beside[lane.key]

    async def _work_on(self, lane: _Lane, running: ActiveBatch) -> None:
        try:
            await self._work(lane.key, running)
        finally:
            lane.running = None
            running.finish()

    async def _is_stored(self, lane: _Lane, first: _LaneTicket) -> bool:
        """Wait until the first of the lane is on disk; False if it has left."""
        while first.stored is None:
            await lane.change()
            if not lane.places or lane.places[0] is not first:
                return False
        return True

    async def _settle(self, lane: _Lane) -> None:
        """Wait until nobody has said anything for a moment. People write in bursts, and platforms cut long pastes."""
        pause, now = self._rules.debounce.total_seconds(), asyncio.get_running_loop().time
        patience = now() + _MOST_PAUSES * pause
        while (
            pause > 0
            and lane.running is None
            and not any(each.stored and each.stored.alone for each in lane.places)
        ):
            count = len(lane.places)
            try:
                async with asyncio.timeout_at(min(now() + pause, patience)):
                    while len(lane.places) == count:
                        await lane.change()
            except TimeoutError:
                return

    def _take_out(self, lane: _Lane, *, gathers: bool) -> list[Stored]:
        """The first, and from there on as many as are stored and may be answered together with it."""
        batch: list[Stored] = []
        while lane.places and lane.places[0].stored is not None:
            stored = lane.places[0].stored
            together = gathers or stored.turn is not None  # rows of one turn are never torn apart
            if batch and not (together and batch[0].goes_with(stored)):
                break
            batch.append(stored)
            lane.places.pop(0)
            lane.overflows = False
        return batch

    def _take_out_beside(self, lane: _Lane) -> list[Stored]:
        """
        A command comes alone. Of what is too many comes all there is: refused one by one, a chat that never stops
        would keep the disk busy with refusals, and all others waiting for it.
        """
        batch: list[Stored] = []
        for place in lane.places:
            if place.stored is None or (
                batch and not (batch[0].is_surplus and place.stored.is_surplus)
            ):
                break
            batch.append(place.stored)
        del lane.places[: len(batch)]
        return batch
