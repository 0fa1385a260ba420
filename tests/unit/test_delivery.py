"""Outbox to adapter: order, waiting, giving up, and what nobody can know after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from tests.at_work import at_desk
from tests.fakes import NOON, RecordingAdapter, assistant, message
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from tests.talk import begin
from turngate.gateway.domain import crashpoints
from turngate.gateway.domain.agent_events import AgentEvent
from turngate.gateway.domain.errors import (
    NotSent,
    Retryable,
    StoreUnavailable,
    Throttled,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    Limits,
    Rate,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import Outcome
from turngate.gateway.domain.transcript import Text
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery, DeliveryRules
from turngate.gateway.stores.waiting_store import WaitingStore


def now() -> float:
    return asyncio.get_running_loop().time()


class Timed(RecordingAdapter):
    """Remembers when it was tried."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        super().__init__(*outcomes)
        self.tried_at: list[float] = []

    async def send(self, part: Part) -> Sent:
        self.tried_at.append(now())
        return await super().send(part)


class Finding(Timed):
    """Can tell whether a part has arrived."""

    def __init__(
        self, *found: Sent | BaseException | None, outcomes: tuple[BaseException | None, ...] = ()
    ) -> None:
        super().__init__(*outcomes)
        self.found = list(found)
        self.asked: list[tuple[Part, datetime]] = []

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        self.asked.append((part, since))
        found = self.found.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found


class Editing(Timed):
    """Can change what it sent."""

    def __init__(
        self, *edits: BaseException | None, outcomes: tuple[BaseException | None, ...] = ()
    ) -> None:
        super().__init__(*outcomes)
        self.outcomes_of_edits = list(edits)
        self.edited: list[tuple[str, str]] = []

    async def edit(self, part: Part, message_id: str) -> Sent:
        outcome = self.outcomes_of_edits.pop(0) if self.outcomes_of_edits else None
        if outcome is not None:
            raise outcome
        self.edited.append((message_id, part.text))
        return Sent(message_id=message_id, at=NOON)


class FindingEditor(Editing, Finding):
    """Can do both."""

    def __init__(self, *edits: BaseException | None, found: tuple[Sent | None, ...]) -> None:
        super().__init__(*edits)
        self.found = list(found)
        self.asked = []


class Following(RecordingAdapter):
    """A screen whose own code may break."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.shown: list[object] = []

    def turn_began(self, target: SessionSource, turn: TurnId, messages: object) -> None:
        self._show("began")

    def turn_event(self, target: SessionSource, turn: TurnId, event: AgentEvent) -> None:
        self._show(event)

    def settled(self, target: SessionSource, messages: object) -> None:
        self._show("settled")

    def _show(self, shown: object) -> None:
        self.shown.append(shown)
        if self.error is not None:
            raise self.error


class FullDisk:
    """A store of which one verb does not work for a while."""

    def __init__(self, store: Store, verb: str, times: int) -> None:
        self._store = store
        self._verb = verb
        self.times = times

    def __getattr__(self, name: str) -> object:
        verb = getattr(self._store, name)
        if name != self._verb:
            return verb

        async def failing(*args: object, **named: object) -> object:
            if self.times > 0:
                self.times -= 1
                raise StoreUnavailable("the disk is full")
            return await verb(*args, **named)

        return failing


@dataclass
class Post:
    """A delivery at work over a store."""

    delivery: Delivery
    store: MemoryStore
    number: int = 0

    async def put_out(
        self, *texts: str, source: SessionSource | None = None, edits: str | None = None
    ) -> tuple[Part, ...]:
        """Parts in the outbox, as a turn leaves them."""
        self.number += 1
        source = source or at_desk()
        begun = await begin(self.store, message("?", id=f"q{self.number}", source=source))
        parts = tuple(
            Part(target=source, text=text, ordinal=at, edits=None if at else edits)
            for at, text in enumerate(texts)
        )
        return await self.store.finish(begun.turn, Outcome(entries=(assistant("!"),), parts=parts))

    async def states(self) -> dict[str, PartState]:
        return {part.text: part.state for part in await self.store.outbox(*PartState) if part.text}

    async def in_state(self, *states: PartState) -> list[Part]:
        return await self.store.outbox(*states)


class _Over(Exception):
    pass


@asynccontextmanager
async def post(
    adapter: Adapter,
    *,
    store: MemoryStore | None = None,
    clock: LoopClock | None = None,
    seen_as: object = None,
    retry_for: timedelta = timedelta(hours=24),
    stream: bool = True,
) -> AsyncIterator[Post]:
    clock = clock or LoopClock()
    store = store or MemoryStore(clock)
    rules = DeliveryRules(retry_for=retry_for, stream=stream)
    try:
        async with asyncio.TaskGroup() as tasks:
            accounts = ConnectedAccounts({("web", "main"): adapter})
            delivery = Delivery(
                rules,
                accounts,
                WaitingStore(seen_as or store, Observer()),
                clock,
                Observer(),
                tasks,
            )
            yield Post(delivery, store)
            raise _Over
    except* _Over:
        pass


@hurried
class TestSending:
    async def test_parts_are_sent_in_order_and_marked(self) -> None:
        adapter = RecordingAdapter()
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two", "three"))

            assert adapter.texts == ["one", "two", "three"]
            sent = await office.in_state(PartState.SENT)
            assert [part.sent_id for part in sent] == [f"p{part.id}" for part in sent]
            assert [part.attempts for part in sent] == [1, 1, 1]

    async def test_a_part_is_marked_as_sending_before_it_leaves(self) -> None:
        states: list[PartState] = []

        class Looking(RecordingAdapter):
            async def send(self, part: Part) -> Sent:
                states.extend(each.state for each in await office.store.outbox(*PartState))
                return await super().send(part)

        async with post(Looking()) as office:
            await office.delivery.deliver(await office.put_out("one"))

        assert states == [PartState.SENDING]

    async def test_nothing_is_kept_of_a_chat_that_has_been_served(self) -> None:
        async with post(RecordingAdapter()) as office:
            for number in range(50):
                await office.delivery.deliver(
                    await office.put_out("x", source=at_desk(f"chat{number}"))
                )
            await later()

            assert not office.delivery._queues

    async def test_a_part_whose_session_was_deleted_goes_nowhere_and_holds_up_nobody(self) -> None:
        adapter = RecordingAdapter()
        async with post(adapter) as office:
            parts = await office.put_out("gone")
            session = await office.store.session((await office.store.sessions())[0].id)
            await office.store.delete(session.id)
            await office.delivery.deliver(parts)
            await office.delivery.deliver(await office.put_out("here"))

        assert adapter.texts == ["here"]


@hurried
class TestWaiting:
    async def test_a_throttled_part_is_sent_again_when_the_platform_said_and_not_before(
        self,
    ) -> None:
        adapter = Timed(Throttled("slow down", retry_after=7.0))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later()

        assert adapter.tried_at == [0.0, 7.0]
        assert adapter.texts == ["one"]

    async def test_a_long_pause_is_kept_to_the_second_too(self) -> None:
        adapter = Timed(Throttled("slow down", retry_after=1000.0))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later(2000)

        assert adapter.tried_at == [0.0, pytest.approx(1000.0)]

    async def test_the_time_is_kept_over_a_restart(self) -> None:
        first = Timed(Throttled("slow down", retry_after=1000.0))
        async with post(first) as office:
            store = office.store
            await office.delivery.deliver(await office.put_out("one"))
        second = Timed()
        async with post(second, store=store) as office:
            await office.delivery.recover()
            await later(2000)

        assert second.tried_at == [pytest.approx(1000.0)]

    async def test_later_parts_of_a_chat_wait_behind_the_first(self) -> None:
        adapter = Timed(Throttled("slow down", retry_after=7.0))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two"))
            await office.delivery.deliver(await office.put_out("three"))
            assert adapter.texts == []
            await later()

        assert adapter.texts == ["one", "two", "three"]

    async def test_a_chat_that_waits_delays_no_other(self) -> None:
        adapter = Timed(Throttled("slow down", retry_after=3600.0))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("waits"))
            await office.delivery.deliver(await office.put_out("goes", source=at_desk("other")))

            assert adapter.texts == ["goes"]
            assert now() == 0.0

    async def test_whoever_delivers_is_not_held_up_by_a_chat_that_waits(self) -> None:
        adapter = Timed(Throttled("slow down", retry_after=3600.0))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await office.delivery.deliver(await office.put_out("two"))

            assert now() == 0.0

    async def test_pauses_after_failures_grow_to_a_minute_and_no_further(self) -> None:
        adapter = Timed(*[Retryable("not now")] * 30)
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later(7200)

        pauses = [
            later - earlier
            for earlier, later in zip(adapter.tried_at, adapter.tried_at[1:], strict=False)
        ]
        assert adapter.texts == ["one"]
        assert pauses[0] <= 2
        assert max(pauses) <= 60
        assert (
            len({round(pause, 3) for pause in pauses[10:]}) > 5
        )  # with jitter, or all chats would come back at once

    async def test_a_failure_is_kept_with_its_reason_and_its_time(self) -> None:
        async with post(Timed(Throttled("slow down", retry_after=7.0))) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await asyncio.sleep(0)

            (part,) = await office.in_state(PartState.FAILED)
            assert part.reason == "slow down"
            assert part.not_before == NOON + timedelta(seconds=7)


@hurried
class TestGivingUp:
    @pytest.mark.parametrize(
        "error", [Undeliverable("blocked by the user"), Unauthorized("bad token")]
    )
    async def test_what_can_never_arrive_is_a_dead_letter_at_once_and_the_next_goes_on(
        self, error: Exception
    ) -> None:
        adapter = Timed(error)
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two"))

            assert adapter.texts == ["two"]
            (dead,) = await office.in_state(PartState.DEAD)
            assert (dead.text, dead.reason) == ("one", str(error))
            assert now() == 0.0

    async def test_an_account_that_is_no_longer_there_makes_dead_letters(self) -> None:
        adapter = Timed()
        async with post(adapter) as office:
            stranger = SessionSource(platform="web", account="second", chat_id="c", user_id="u")
            await office.delivery.deliver(await office.put_out("one", source=stranger))

            (dead,) = await office.in_state(PartState.DEAD)
            assert "web/second" in (dead.reason or "")
            assert adapter.tried == []

    async def test_after_the_last_try_within_the_time_it_is_a_dead_letter(self) -> None:
        adapter = Timed(*[Retryable("not now")] * 1000)
        async with post(adapter, retry_for=timedelta(minutes=10)) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later(3600)

            assert [part.text for part in await office.in_state(PartState.DEAD)] == ["one"]
            assert max(adapter.tried_at) <= 600

    async def test_a_platform_that_asks_for_more_time_than_there_is_makes_a_dead_letter(
        self,
    ) -> None:
        adapter = Timed(Throttled("come back next year", retry_after=float("inf")))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))

            assert [part.text for part in await office.in_state(PartState.DEAD)] == ["one"]

    async def test_an_adapter_that_breaks_down_makes_a_dead_letter_without_its_words(self) -> None:
        adapter = Timed(ValueError("secret words"))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two"))

            assert adapter.texts == ["two"]
            (dead,) = await office.in_state(PartState.DEAD)
            assert dead.text == "one"
            assert "ValueError" in (dead.reason or "")
            assert "secret" not in (dead.reason or "")


@hurried
class TestAClockThatIsSet:
    @pytest.mark.parametrize("days", [365, -1])
    async def test_a_pause_is_as_long_as_the_platform_asked_for(self, days: int) -> None:
        adapter, clock = Timed(Throttled("slowly", retry_after=30.0)), LoopClock()
        async with post(adapter, clock=clock) as office:
            await office.delivery.deliver(await office.put_out("one"))
            clock.advance(days=days)
            await later(60)

            assert (adapter.tried_at, adapter.texts) == ([0.0, 30.0], ["one"])

    async def test_a_part_is_given_up_when_it_is_old_and_not_when_the_clock_says_so(self) -> None:
        adapter, clock = Timed(*[Throttled("slowly", retry_after=60.0)] * 1000), LoopClock()
        async with post(adapter, clock=clock, retry_for=timedelta(minutes=10)) as office:
            await office.delivery.deliver(await office.put_out("one"))
            clock.advance(days=365)
            await later(300)
            assert await office.in_state(PartState.DEAD) == []
            clock.advance(days=-400)
            await later(400)

            assert [part.text for part in await office.in_state(PartState.DEAD)] == ["one"]
            assert max(adapter.tried_at) == 600

    async def test_what_an_earlier_run_left_waits_a_minute_at_most_if_the_clock_was_set_back(
        self,
    ) -> None:
        adapter, clock = Timed(Throttled("slowly", retry_after=300.0)), LoopClock()
        async with post(adapter, clock=clock) as office:
            await office.delivery.deliver(await office.put_out("one"))
        clock.advance(days=-1)
        async with post(adapter, clock=clock, store=office.store) as office:
            await office.delivery.recover()
            await later(61)

            assert adapter.texts == ["one"]

    async def test_what_may_have_arrived_is_looked_for_in_the_past(self) -> None:
        adapter, clock = Finding(Sent(message_id="7", at=NOON)), LoopClock()
        async with post(adapter, clock=clock) as office:
            (part,) = await office.put_out("one")
            await office.store.record_sending(part.id)
        clock.advance(days=-1)
        async with post(adapter, clock=clock, store=office.store) as office:
            await office.delivery.recover()
            await later(61)

            assert [since for _, since in adapter.asked] == [NOON - timedelta(days=2)]
            assert adapter.tried == []


@hurried
class TestDoubt:
    async def left_in_doubt(self, *more: str) -> MemoryStore:
        async with post(Timed()) as office:
            first, *_ = await office.put_out("one", *more)
            await office.store.record_sending(first.id)
            return office.store

    async def test_what_was_on_its_way_is_repeated_with_words_that_say_so(self) -> None:
        adapter = Timed()
        async with post(adapter, store=await self.left_in_doubt("two")) as office:
            await office.delivery.recover()
            await later()

        assert adapter.texts == ["(possible repeat)\n\none", "two"]

    async def test_what_a_platform_finds_is_not_sent_again(self) -> None:
        adapter = Finding(Sent(message_id="77", at=NOON))
        async with post(adapter, store=await self.left_in_doubt("two")) as office:
            await office.delivery.recover()
            await later()

            assert adapter.texts == ["two"]
            assert "77" in [part.sent_id for part in await office.in_state(PartState.SENT)]
            assert [(part.text, since) for part, since in adapter.asked] == [("one", NOON)]

    async def test_what_a_platform_certainly_does_not_have_is_sent_as_it_is(self) -> None:
        adapter = Finding(None)
        async with post(adapter, store=await self.left_in_doubt()) as office:
            await office.delivery.recover()
            await later()

        assert adapter.texts == ["one"]

    @pytest.mark.parametrize(
        "error", [Throttled("slow down", retry_after=3.0), Unreachable("no answer")]
    )
    async def test_a_doubt_stays_one_when_the_platform_cannot_be_asked_now(
        self, error: Exception
    ) -> None:
        adapter = Finding(error, Sent(message_id="77", at=NOON))
        async with post(adapter, store=await self.left_in_doubt()) as office:
            await office.delivery.recover()
            await later()

            assert len(adapter.asked) == 2
            assert adapter.texts == []

    async def test_a_doubt_stays_one_over_another_restart(self) -> None:
        store = await self.left_in_doubt()
        async with post(Finding(Throttled("slow down", retry_after=3000.0)), store=store) as office:
            await office.delivery.recover()
            await later(1)
        adapter = Finding(Sent(message_id="77", at=NOON))
        async with post(adapter, store=store) as office:
            await office.delivery.recover()
            await later(4000)

        assert adapter.texts == []
        assert len(adapter.asked) == 1

    async def test_a_platform_that_did_not_answer_may_have_taken_it(self) -> None:
        adapter = Timed(Unreachable("no answer"))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later()

        assert adapter.texts == ["(possible repeat)\n\none"]

    async def test_a_platform_that_did_not_answer_is_asked_whether_it_took_it(self) -> None:
        adapter = Finding(Sent(message_id="77", at=NOON), outcomes=(Unreachable("no answer"),))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later()

            assert len(adapter.asked) == 1
            assert adapter.texts == []
            assert [part.sent_id for part in await office.in_state(PartState.SENT)] == ["77"]

    async def test_what_failed_for_certain_is_sent_again_as_it_is(self) -> None:
        adapter = Timed(Throttled("slow down", retry_after=1.0))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later()

        assert adapter.texts == ["one"]

    async def test_everything_left_in_the_outbox_is_sent_in_order_after_a_restart(self) -> None:
        async with post(Timed()) as office:
            for number in range(5):
                await office.put_out(f"{number}a", f"{number}b")
            store = office.store
        adapter = Timed()
        async with post(adapter, store=store) as office:
            await office.delivery.recover()
            await later()

        assert adapter.texts == [f"{number}{letter}" for number in range(5) for letter in "ab"]

    async def test_what_certainly_did_not_leave_is_sent_again_as_it_is(self) -> None:
        adapter = Timed(NotSent("no route"))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later()

        assert adapter.texts == ["one"]

    async def test_a_doubt_is_on_disk_with_its_reason_and_its_time(self) -> None:
        async with post(Timed(Unreachable("no answer"))) as office:
            parts = await office.put_out("one")
            await office.delivery.deliver(parts)
            await asyncio.sleep(0)

            (part,) = await office.in_state(PartState.SENDING)
            assert part.reason == "no answer"
            assert part.not_before is not None
            assert NOON <= part.not_before <= NOON + timedelta(seconds=2)
            (inbox,) = await office.store.find("q1")
            assert "in doubt" in [step.step for step in (await office.store.trace(inbox)).steps]

    async def test_a_doubt_outlives_tries_that_certainly_failed(self) -> None:
        adapter = Timed(
            Unreachable("no answer"), NotSent("no route"), Throttled("slow down", retry_after=1.0)
        )
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later(600)

        assert adapter.texts == ["(possible repeat)\n\none"]

    async def test_a_doubt_that_cannot_be_settled_in_time_is_a_dead_letter(self) -> None:
        adapter = Timed(*[Unreachable("no answer")] * 1000)
        async with post(adapter, retry_for=timedelta(minutes=10)) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await later(3600)

            assert [(part.text, part.reason) for part in await office.in_state(PartState.DEAD)] == [
                ("one", "no answer")
            ]


@hurried
class TestEditing:
    async def test_a_part_takes_the_place_of_its_preview(self) -> None:
        adapter = Editing()
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two", edits="m7"))

            assert adapter.edited == [("m7", "one")]
            assert adapter.texts == ["two"]
            assert "m7" in [part.sent_id for part in await office.in_state(PartState.SENT)]

    async def test_a_platform_that_cannot_edit_is_sent_a_new_message(self) -> None:
        adapter = Timed()
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", edits="m7"))

        assert adapter.texts == ["one"]

    async def test_if_the_preview_is_gone_a_new_message_is_sent(self) -> None:
        adapter = Editing(Undeliverable("no such message"))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", edits="m7"))

        assert adapter.texts == ["one"]

    async def test_a_chat_that_takes_neither_makes_a_dead_letter(self) -> None:
        adapter = Editing(Undeliverable("blocked"), outcomes=(Undeliverable("blocked"),))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", edits="m7"))

            assert [part.reason for part in await office.in_state(PartState.DEAD)] == ["blocked"]

    @pytest.mark.parametrize(
        "error",
        [Unreachable("no answer"), NotSent("no route"), Throttled("slow down", retry_after=2.0)],
    )
    async def test_an_edit_is_made_again_without_a_word_of_a_repeat(self, error: Exception) -> None:
        adapter = Editing(error)
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", edits="m7"))
            await later()

        assert adapter.edited == [("m7", "one")]
        assert adapter.texts == []

    async def test_an_edit_that_was_under_way_in_a_crash_is_made_again(self) -> None:
        async with post(Editing()) as office:
            (part,) = await office.put_out("one", edits="m7")
            await office.store.record_sending(part.id)
            store = office.store
        adapter = Editing()
        async with post(adapter, store=store) as office:
            await office.delivery.recover()
            await later()

        assert adapter.edited == [("m7", "one")]
        assert adapter.texts == []

    async def test_a_new_message_in_place_of_one_that_is_gone_is_looked_for_if_it_is_in_doubt(
        self,
    ) -> None:
        adapter = FindingEditor(
            *[Undeliverable("no such message")] * 2, found=(Sent(message_id="77", at=NOON),)
        )
        adapter.outcomes = [Unreachable("no answer")]
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", edits="m7"))
            await later()

            assert adapter.texts == []
            assert [part.sent_id for part in await office.in_state(PartState.SENT)] == ["77"]


@hurried
class TestRates:
    async def test_parts_keep_to_the_rate_of_their_chat_and_in_order(self) -> None:
        adapter = Timed()
        adapter.limits = _limits(per_chat=Rate(count=1, per=timedelta(seconds=10)))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two", "three"))
            await office.delivery.deliver(await office.put_out("four", source=at_desk("other")))
            await later()

        assert sorted(adapter.tried_at) == [0.0, 0.0, pytest.approx(10.0), pytest.approx(20.0)]
        assert adapter.texts == ["one", "four", "two", "three"]

    async def test_whoever_delivers_is_not_held_up_by_a_rate(self) -> None:
        adapter = Timed()
        adapter.limits = _limits(per_chat=Rate(count=1, per=timedelta(hours=1)))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two", "three"))

            assert now() == 0.0

    async def test_what_waits_for_room_is_not_marked_as_sending(self) -> None:
        adapter = Timed()
        adapter.limits = _limits(per_chat=Rate(count=1, per=timedelta(hours=1)))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one", "two"))
            await later(60)

            assert [part.text for part in await office.in_state(PartState.PENDING)] == ["two"]

    async def test_a_pause_of_the_whole_account_makes_every_chat_wait(self) -> None:
        adapter = Timed(Throttled("slow down", retry_after=30.0, everywhere=True))
        async with post(adapter) as office:
            await office.delivery.deliver(await office.put_out("one"))
            await office.delivery.deliver(await office.put_out("two", source=at_desk("other")))
            assert now() == 0.0
            await later()

        assert adapter.tried_at == [0.0, pytest.approx(30.0), pytest.approx(30.0)]


def _limits(*, per_chat: Rate) -> Limits:
    return Limits(
        largest_part=4000, measure=len, edit_every=timedelta(seconds=1), per_chat=per_chat
    )


@pytest.fixture
def reached() -> Iterator[list[str]]:
    """The crash points that were passed, in order."""
    names: list[str] = []
    crashpoints.arm(names.append)
    yield names
    crashpoints._reached.remove(names.append)


@hurried
class TestCrashPoints:
    async def test_there_is_one_before_and_after_each_send_and_between_two(
        self, reached: list[str]
    ) -> None:
        class Noting(Timed):
            async def send(self, part: Part) -> Sent:
                reached.append(part.text)
                return await super().send(part)

        async with post(Noting()) as office:
            await office.delivery.deliver(await office.put_out("one", "two"))

        one, two = ["sending", "one", "sent"], ["sending", "two", "sent"]
        assert [name for name in reached if name != "committing"] == [*one, "between-parts", *two]


@hurried
class TestStoreUnavailable:
    @pytest.mark.parametrize("verb", ["record_sending", "record_sent"])
    async def test_a_part_is_sent_once_and_marked_when_the_store_is_back(self, verb: str) -> None:
        adapter, store = Timed(), MemoryStore(LoopClock())
        async with post(adapter, store=store, seen_as=FullDisk(store, verb, 5)) as office:
            await office.delivery.deliver(await office.put_out("one", "two"))

            assert adapter.texts == ["one", "two"]
            assert len(await office.in_state(PartState.SENT)) == 2

    async def test_a_failure_is_noted_when_the_store_is_back(self) -> None:
        adapter, store = Timed(Undeliverable("no")), MemoryStore(LoopClock())
        async with post(
            adapter, store=store, seen_as=FullDisk(store, "record_unsent", 5)
        ) as office:
            await office.delivery.deliver(await office.put_out("one"))

            assert len(await office.in_state(PartState.DEAD)) == 1


@hurried
class TestPreviews:
    async def test_a_follower_is_shown_a_turn_as_it_happens(self) -> None:
        screen = Following()
        async with post(screen) as office:
            preview = office.delivery.preview(at_desk(), TurnId(1), ["m1"])
            preview.show(Text("Hello"))
            office.delivery.settled(at_desk(), ["m1"])

        assert screen.shown == ["began", Text("Hello"), "settled"]

    async def test_a_platform_that_cannot_follow_is_shown_nothing(self) -> None:
        async with post(RecordingAdapter()) as office:
            office.delivery.preview(at_desk(), TurnId(1), ["m1"]).show(Text("Hello"))
            office.delivery.settled(at_desk(), ["m1"])

    async def test_a_screen_that_breaks_spoils_no_turn(self) -> None:
        screen = Following(error=RuntimeError("no screen"))
        async with post(screen) as office:
            preview = office.delivery.preview(at_desk(), TurnId(1), ["m1"])
            preview.show(Text("Hello"))
            office.delivery.settled(at_desk(), ["m1"])

        assert len(screen.shown) == 3

    async def test_without_streaming_a_follower_hears_only_of_the_beginning_and_the_end(
        self,
    ) -> None:
        screen = Following()
        async with post(screen, stream=False) as office:
            preview = office.delivery.preview(at_desk(), TurnId(1), ["m1"])
            preview.show(Text("Hello"))
            assert await preview.close() is None
            office.delivery.settled(at_desk(), ["m1"])

        assert screen.shown == ["began", "settled"]

    async def test_nothing_is_kept_of_a_turn_that_is_settled(self) -> None:
        async with post(Following()) as office:
            for number in range(10):
                office.delivery.preview(at_desk(), TurnId(number), [f"m{number}"])
                office.delivery.settled(at_desk(), [f"m{number}"])

            assert not office.delivery._previews
