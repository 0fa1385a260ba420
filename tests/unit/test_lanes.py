"""
One turn at a time per conversation: order, what happens when busy, bursts, and who goes when there
is no room.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from tests.fakes import dm, message, no_quarantine
from tests.hurry import hurried, later
from turngate.gateway.domain.ids import (
    InboxId,
    SessionKey,
    TurnId,
)
from turngate.gateway.turns.batch import ActiveBatch, QueuedMessage
from turngate.gateway.turns.lanes import (
    LaneRules,
    Lanes,
    Ticket,
    WhenBusy,
)

KEY = SessionKey("agent:main:web:dm:desk")
OTHER = SessionKey("agent:main:web:dm:other")
AT_ONCE = timedelta(0)


@dataclass
class Work:
    """Does every batch until it is let go, and remembers what was done."""

    takes: float = 10.0
    done: list[list[str]] = field(default_factory=list)
    stopped: list[list[str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lanes: Lanes = field(init=False)

    async def __call__(self, key: SessionKey, running: ActiveBatch) -> None:
        texts = [stored.message.text for stored in running.queued]
        stop = asyncio.Event()
        running.stoppable(stop.set)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            async with asyncio.timeout(self.takes):
                await stop.wait()
            self.stopped.append(texts)
        except TimeoutError:
            self.done.append(texts)
        self.at_once -= 1


@asynccontextmanager
async def lanes(rules: LaneRules, work: Work | None = None) -> AsyncIterator[Work]:
    work = work or Work()
    async with asyncio.TaskGroup() as tasks:
        work.lanes = Lanes(rules, work, no_quarantine(tasks), tasks)
        yield work


def rules(
    when_busy: WhenBusy = WhenBusy.COLLECT, *, debounce: timedelta = AT_ONCE, concurrent: int = 64
) -> LaneRules:
    return LaneRules(when_busy=when_busy, debounce=debounce, concurrent=concurrent)


def stored(
    text: str, *, turn: int | None = None, alone: bool = False, by: str = "42"
) -> QueuedMessage:
    return QueuedMessage(
        id=InboxId(1),
        message=message(text, source=dm(by)),
        turn=None if turn is None else TurnId(turn),
        alone=alone,
    )


def put(
    work: Work,
    text: str,
    *,
    key: SessionKey = KEY,
    turn: int | None = None,
    alone: bool = False,
    by: str = "42",
) -> Ticket:
    place = work.lanes.join(key)
    place.take(stored(text, turn=turn, alone=alone, by=by))
    return place


@hurried
class TestOrder:
    async def test_places_are_served_in_the_order_in_which_they_were_taken_whenever_each_is_stored(
        self,
    ) -> None:
        async with lanes(rules(WhenBusy.FOLLOW_UP)) as work:
            places = [(work.lanes.join(KEY), f"{number}") for number in range(30)]
            for place, text in random.Random(5).sample(places, len(places)):
                place.take(stored(text))
            await later(1000)

        assert [text for batch in work.done for text in batch] == [
            f"{number}" for number in range(30)
        ]

    async def test_nobody_is_served_before_an_earlier_one_is_stored_or_has_left(self) -> None:
        async with lanes(rules()) as work:
            first, second = work.lanes.join(KEY), work.lanes.join(KEY)
            second.take(stored("second"))
            await later()
            assert work.done == []
            first.leave()
            await later()

        assert work.done == [["second"]]

    async def test_one_that_leaves_from_the_middle_holds_up_nobody(self) -> None:
        async with lanes(rules()) as work:
            put(work, "first")
            middle = work.lanes.join(KEY)
            put(work, "last")
            await later(1)
            middle.leave()
            await later()

        assert work.done == [["first"], ["last"]]

    async def test_one_conversation_has_one_turn_at_a_time(self) -> None:
        async with lanes(rules(WhenBusy.FOLLOW_UP)) as work:
            for number in range(5):
                put(work, f"{number}")
                await later(1)
            await later()

        assert work.most_at_once == 1
        assert len(work.done) == 5


@hurried
class TestWhenBusy:
    @pytest.mark.parametrize("when_busy", [WhenBusy.COLLECT, WhenBusy.STEER])
    async def test_what_arrives_during_a_turn_becomes_one_next_turn(
        self, when_busy: WhenBusy
    ) -> None:
        async with lanes(rules(when_busy)) as work:
            put(work, "first")
            await later(1)
            put(work, "second")
            put(work, "third")
            await later()

        assert work.done == [["first"], ["second", "third"]]

    async def test_follow_up_gives_each_message_a_turn_of_its_own(self) -> None:
        async with lanes(rules(WhenBusy.FOLLOW_UP)) as work:
            put(work, "first")
            await later(1)
            put(work, "second")
            put(work, "third")
            await later()

        assert work.done == [["first"], ["second"], ["third"]]

    async def test_interrupt_stops_the_turn_and_starts_the_next(self) -> None:
        async with lanes(rules(WhenBusy.INTERRUPT)) as work:
            put(work, "first")
            await later(1)
            put(work, "second")
            await later()

        assert work.stopped == [["first"]]
        assert work.done == [["second"]]

    async def test_interrupt_waits_until_the_message_is_stored(self) -> None:
        async with lanes(rules(WhenBusy.INTERRUPT)) as work:
            put(work, "first")
            await later(1)
            place = work.lanes.join(KEY)
            await later(1)
            assert work.stopped == []
            place.leave()
            await later()

        assert work.done == [["first"]]

    async def test_a_turn_that_is_stopped_before_it_said_how_is_stopped_as_soon_as_it_does(
        self,
    ) -> None:
        running, asked = ActiveBatch([stored("x")]), []
        running.stop()

        running.stoppable(lambda: asked.append("stop"))

        assert asked == ["stop"]

    @pytest.mark.parametrize("when_busy", list(WhenBusy))
    async def test_rows_of_one_turn_that_died_are_never_torn_apart_nor_mixed(
        self, when_busy: WhenBusy
    ) -> None:
        async with lanes(rules(when_busy), Work(takes=0.0)) as work:
            put(work, "a", turn=7)
            put(work, "b", turn=7)
            put(work, "c", turn=8)
            put(work, "d")
            await later()

        assert work.done == [["a", "b"], ["c"], ["d"]]

    async def test_a_command_in_the_lane_is_never_answered_together_with_others(self) -> None:
        async with lanes(rules()) as work:
            put(work, "first")
            await later(1)
            put(work, "second")
            put(work, "/undo", alone=True)
            put(work, "third")
            await later()

        assert work.done == [["first"], ["second"], ["/undo"], ["third"]]


@hurried
class TestBursts:
    async def test_a_burst_becomes_one_turn_and_nothing_in_it_is_dropped(self) -> None:
        async with lanes(rules(debounce=timedelta(seconds=1))) as work:
            for number in range(10):
                place = work.lanes.join(KEY)
                await later(0.4)
                place.take(stored(f"{number}"))
                await later(0.4)
            await later()

        assert work.done == [[f"{number}" for number in range(10)]]

    async def test_the_turn_begins_when_nobody_has_said_anything_for_the_pause(self) -> None:
        async with lanes(rules(debounce=timedelta(seconds=1))) as work:
            place = work.lanes.join(KEY)
            await later(0.1)
            place.take(stored("first"))
            await later(0.9)
            put(work, "second")
            await later(0.9)
            assert work.at_once == 0
            await later(0.2)
            assert work.at_once == 1
            await later()

        assert work.done == [["first", "second"]]

    async def test_who_comes_after_the_pause_has_the_next_turn(self) -> None:
        async with lanes(rules(debounce=timedelta(seconds=1))) as work:
            place = work.lanes.join(KEY)
            await later(0.1)
            place.take(stored("first"))
            await later(1.1)
            put(work, "second")
            await later()

        assert work.done == [["first"], ["second"]]

    async def test_a_burst_is_one_turn_even_where_each_message_has_its_own(self) -> None:
        async with lanes(rules(WhenBusy.FOLLOW_UP, debounce=timedelta(seconds=1))) as work:
            place = work.lanes.join(KEY)
            await later(0.1)
            place.take(stored("first"))
            put(work, "second")
            await later()

        assert work.done == [["first", "second"]]

    async def test_who_never_pauses_is_answered_after_ten_pauses(self) -> None:
        async with lanes(rules(debounce=timedelta(seconds=1))) as work:
            place = work.lanes.join(KEY)
            await later(0.1)
            place.take(stored("first"))
            for number in range(20):
                await later(0.7)
                put(work, f"{number}")
            await later()

        assert work.done == [["first", *map(str, range(14))], [*map(str, range(14, 20))]]

    async def test_a_command_does_not_wait_for_a_burst(self) -> None:
        async with lanes(rules(debounce=timedelta(hours=1))) as work:
            place = work.lanes.join(KEY)
            await later(0.1)
            place.take(stored("/undo", alone=True))
            await later(1)

            assert work.at_once == 1


@hurried
class TestRoom:
    async def test_no_more_turns_run_at_once_than_there_is_room_for(self) -> None:
        async with lanes(rules(concurrent=3)) as work:
            for number in range(10):
                put(work, "x", key=SessionKey(f"chat{number}"), by=f"{number}")
            await later(1)
            assert work.lanes.depth() == (3, 7)
            await later()

        assert work.most_at_once == 3
        assert len(work.done) == 10

    async def test_a_chat_with_much_to_say_does_not_keep_others_waiting(self) -> None:
        async with lanes(rules(WhenBusy.FOLLOW_UP, concurrent=1)) as work:
            for number in range(5):
                put(work, f"much {number}")
            put(work, "little", key=OTHER)
            await later(1000)

        assert work.done.index(["little"]) <= 1

    async def test_one_person_with_many_threads_does_not_go_before_everybody(self) -> None:
        """Finding R18: after 120 threads of somebody else a direct message took 32 s, not 2."""
        async with lanes(rules(concurrent=8)) as work:
            for number in range(120):
                put(work, "much", key=SessionKey(f"thread{number}"), by="eager")
            await later(1)
            assert work.lanes.depth()[0] == 2
            put(work, "little", by="calm")
            await later(1)
            assert work.lanes.depth()[0] == 3

    async def test_who_waits_for_room_is_stopped_without_waiting_for_it(self) -> None:
        async with lanes(rules(concurrent=1)) as work:
            put(work, "first")
            put(work, "second", key=OTHER)
            await later(1)

            assert await work.lanes.stop(OTHER)
            assert work.stopped == [["second"]]
            put(work, "third", key=OTHER)
            await later()

        assert work.done == [["first"], ["third"]]

    async def test_a_lane_is_freed_with_its_last_user(self) -> None:
        async with lanes(rules()) as work:
            for number in range(100):
                put(work, "x", key=SessionKey(f"chat{number}"), by=f"{number}")
            left = work.lanes.join(KEY)
            left.leave()
            await later()

            assert work.lanes.depth() == (0, 0)
            assert not work.lanes._lanes
            assert not work.lanes.is_busy(KEY)

    async def test_a_lane_can_be_taken_again_after_it_was_freed(self) -> None:
        async with lanes(rules()) as work:
            put(work, "first")
            await later()
            put(work, "second")
            await later()

        assert work.done == [["first"], ["second"]]


@hurried
class TestStopping:
    async def test_stopping_returns_when_the_turn_is_over(self) -> None:
        async with lanes(rules()) as work:
            put(work, "first")
            await later(1)

            assert await work.lanes.stop(KEY)
            assert work.stopped == [["first"]]

    async def test_there_is_nothing_to_stop_where_nobody_is(self) -> None:
        async with lanes(rules()) as work:
            assert not await work.lanes.stop(KEY)

    async def test_what_waits_for_a_pause_is_stopped_before_it_begins(self) -> None:
        async with lanes(rules(debounce=timedelta(hours=1))) as work:
            first = work.lanes.join(KEY)
            await later(1)
            first.take(stored("first"))
            put(work, "second")
            await later(1)

            assert await work.lanes.stop(KEY)
            assert work.stopped == [["first", "second"]]
            assert not await work.lanes.stop(KEY)
            await later(7200)
            assert not work.lanes.is_busy(KEY)

        assert work.done == []

    async def test_nobody_begins_while_what_never_began_is_being_stopped(self) -> None:
        async def stop_slowly(_: SessionKey, running: ActiveBatch) -> None:
            order.append(f"{running.queued[0].message.text} begins")
            await asyncio.sleep(5)
            order.append(f"{running.queued[0].message.text} ends")

        order: list[str] = []
        async with asyncio.TaskGroup() as tasks:
            quarantine = no_quarantine(tasks)
            settled = rules(debounce=timedelta(seconds=1))
            here = Lanes(settled, stop_slowly, quarantine, tasks)
            place = here.join(KEY)
            await later(0.1)
            place.take(stored("first"))
            stopping = asyncio.ensure_future(here.stop(KEY))
            await later(0.1)
            here.join(KEY).take(stored("second"))
            await stopping

        assert order == ["first begins", "first ends", "second begins", "second ends"]

    async def test_a_command_that_is_next_is_not_stopped(self) -> None:
        async with lanes(rules(concurrent=1)) as work:
            put(work, "first", key=OTHER)
            put(work, "/undo", alone=True)
            await later(1)

            assert not await work.lanes.stop(KEY)
            await later()

        assert work.done == [["first"], ["/undo"]]

    async def test_what_waits_goes_on_after_a_stop(self) -> None:
        async with lanes(rules()) as work:
            put(work, "first")
            await later(1)
            put(work, "second")
            await work.lanes.stop(KEY)
            await later()

        assert work.done == [["second"]]

    async def test_what_waits_can_be_seen_in_order(self) -> None:
        async with lanes(rules()) as work:
            put(work, "first")
            await later(1)
            put(work, "second")
            put(work, "third")
            not_stored = work.lanes.join(KEY)

            assert [each.text for each in work.lanes.waiting(KEY)] == ["second", "third"]
            assert work.lanes.waiting(OTHER) == []
            not_stored.leave()

    async def test_closing_finishes_what_runs_and_begins_nothing_more(self) -> None:
        async with lanes(rules(concurrent=2)) as work:
            put(work, "runs")
            put(work, "runs too", key=OTHER)
            await later(1)
            put(work, "waits")
            put(work, "has no room", key=SessionKey("third"))

            await work.lanes.close()
            put(work, "comes too late", key=SessionKey("fourth"))
            await later()

        assert sorted(work.done) == [["runs"], ["runs too"]]

    async def test_closing_does_not_wait_for_somebody_who_is_not_stored_yet(self) -> None:
        async with lanes(rules()) as work:
            place = work.lanes.join(KEY)
            await work.lanes.close()
            place.take(stored("late"))
            await later()

        assert work.done == []


@hurried
class TestBeside:
    async def test_what_is_beside_starts_as_soon_as_it_is_stored_while_a_turn_runs(self) -> None:
        async with lanes(rules()) as work:
            put(work, "turn")
            place = work.lanes.command_queue(KEY)
            await later(1)
            assert work.at_once == 1
            place.take(stored("/status", alone=True))
            await later(1)

            assert work.at_once == 2

    async def test_one_beside_that_leaves_has_never_been(self) -> None:
        async with lanes(rules()) as work:
            work.lanes.command_queue(KEY).leave()
            await later()

            assert work.done == []
            assert work.lanes.depth() == (0, 0)

    async def test_what_is_beside_is_done_in_order_whenever_each_is_stored(self) -> None:
        async with lanes(rules(), Work(takes=1)) as work:
            places = [(work.lanes.command_queue(KEY), f"/{number}") for number in range(10)]
            for place, text in random.Random(5).sample(places, len(places)):
                place.take(stored(text, alone=True))
            await later()

        assert work.done == [[f"/{number}"] for number in range(10)]

    async def test_who_comes_after_one_that_holds_the_lane_waits_until_it_is_answered(self) -> None:
        async with lanes(rules(), Work(takes=5)) as work:
            held = work.lanes.command_queue(KEY, holding=True)
            put(work, "later")
            await later(10)
            assert work.done == []
            held.take(stored("/new", alone=True))
            await later(6)
            assert work.done == [["/new"]]
            await later()

        assert work.done == [["/new"], ["later"]]

    async def test_one_that_leaves_holds_nobody_any_more(self) -> None:
        async with lanes(rules()) as work:
            held = work.lanes.command_queue(KEY, holding=True)
            put(work, "later")
            held.leave()
            await later()

            assert work.done == [["later"]]
            assert not work.lanes.is_busy(KEY)

    async def test_what_needs_quiet_takes_the_lane_if_nobody_is_in_it(self) -> None:
        async with lanes(rules()) as work:
            place = work.lanes.exclusive(KEY)
            put(work, "later")
            place.take(stored("/undo", alone=True))
            await later()

        assert work.done == [["/undo"], ["later"]]

    async def test_what_needs_quiet_is_beside_a_turn_that_runs(self) -> None:
        async with lanes(rules()) as work:
            put(work, "turn")
            await later(1)
            work.lanes.exclusive(KEY).take(stored("/undo", alone=True))
            await later(1)

            assert work.at_once == 2

    async def test_what_needs_quiet_waits_for_a_turn_of_which_only_the_sending_is_left(
        self,
    ) -> None:
        async def answer_at_once(_: SessionKey, running: ActiveBatch) -> None:
            running.mark_answered()
            order.append(f"{running.queued[0].message.text}, beside: {running.beside}")
            await asyncio.sleep(5)
            order.append("sent")

        order: list[str] = []
        async with asyncio.TaskGroup() as tasks:
            here = Lanes(rules(), answer_at_once, no_quarantine(tasks), tasks)
            here.join(KEY).take(stored("turn"))
            await later(1)
            here.exclusive(KEY).take(stored("/undo", alone=True))

        assert order == ["turn, beside: False", "sent", "/undo, beside: False", "sent"]

    async def test_closing_finishes_what_runs_beside(self) -> None:
        async with lanes(rules()) as work:
            work.lanes.command_queue(KEY, holding=True).take(stored("/new", alone=True))
            await later(1)
            await work.lanes.close()

            assert work.done == [["/new"]]
            assert not work.lanes._command_lanes


@hurried
class TestTooMany:
    async def test_what_is_too_much_meanwhile_is_refused_together_and_a_command_alone(self) -> None:
        crowded = LaneRules(debounce=AT_ONCE, waiting_per_session=1)
        async with lanes(crowded) as work:
            put(work, "asked")
            await later(1)
            put(work, "waits")
            for text in ("a", "b", "c"):
                put(work, text)
            work.lanes.command_queue(KEY).take(stored("/help", alone=True))
            put(work, "d")
            await later(1000)

        assert [batch for batch in work.done if batch[0] not in ("asked", "waits")] == [
            ["a", "b", "c"],
            ["/help"],
            ["d"],
        ]
