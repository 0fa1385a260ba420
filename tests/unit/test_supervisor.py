"""One account: the states it goes through, when it is tried again, and what it catches up with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.fakes import NOON, FrozenClock, dm, message
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from tests.talk import key_of
from turngate.gateway.daemon.account_supervisor import (
    MOST_CAUGHT_UP,
    MOST_REFUSALS,
    REFUSALS_COUNT_FOR,
    AccountState,
    Supervisor,
)
from turngate.gateway.domain.errors import (
    GapRemains,
    Refused,
    Retryable,
    StoreDamaged,
    StoreUnavailable,
    Unauthorized,
    Unreachable,
)
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import Limits, Receive
from turngate.gateway.domain.ports.clock import Clock, Moment
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.stores.waiting_store import WaitingStore

Life = Callable[["Account", Receive], object]
DEAF_AFTER = timedelta(seconds=60)
OVERLAP = timedelta(minutes=2)


class Account:
    """Lives as its script says, one life after the other; the last one is lived again and again."""

    platform = "telegram"
    limits = Limits(largest_part=4000, measure=len, edit_every=timedelta(seconds=1))

    def __init__(self, clock: Clock, *lives: BaseException | Life) -> None:
        self._clock = clock
        self._lives = list(lives)
        self.began: list[float] = []

    async def run(self, receive: Receive) -> None:
        self.began.append(asyncio.get_running_loop().time())
        life = self._lives.pop(0) if len(self._lives) > 1 else self._lives[0]
        if isinstance(life, BaseException):
            raise life
        await life(self, receive)  # type: ignore[misc]

    async def send(self, part: Part) -> Sent:
        raise AssertionError("nothing is sent here")


class Telling(Account):
    """Knows when its platform last answered."""

    stale_after = DEAF_AFTER
    progress: Moment | None = None

    def hears(self) -> None:
        self.progress = Moment.now(self._clock)


class CatchingUp(Account):
    """Has a past. Each try gives the next of its tales, and an exception in one ends that try."""

    def __init__(self, clock: Clock, *tales: list[InboundMessage | BaseException]) -> None:
        super().__init__(clock, Retryable("the line broke"))
        self._tales = list(tales)
        self.asked: list[datetime] = []

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        self.asked.append(since)
        for each in self._tales.pop(0) if self._tales else []:
            if isinstance(each, BaseException):
                raise each
            yield each


class HearingAgain(CatchingUp):
    """Hears some seconds after it has begun, as one that has to connect first."""

    stale_after = DEAF_AFTER
    progress: Moment | None = None

    @property
    def now(self) -> datetime:
        return self._clock.now()

    async def run(self, receive: Receive) -> None:
        await asyncio.sleep(2)
        self.progress = Moment.now(self._clock)
        await asyncio.Event().wait()


class LosingTime(HearingAgain):
    """Its line lasts a minute, and then the platform is gone."""

    asked_for_the_time = 0

    async def platform_time(self) -> datetime:
        self.asked_for_the_time += 1
        if self.asked_for_the_time > 1:
            raise Unreachable("the platform is gone")
        return self._clock.now()

    async def run(self, receive: Receive) -> None:
        for _ in range(6):
            self.progress = Moment.now(self._clock)
            await asyncio.sleep(10)
        self.progress = Moment.now(self._clock)
        raise Unreachable("the line broke")


class Breaking(HearingAgain):
    """Hears, and its line breaks ten seconds later."""

    def __init__(self, clock: Clock, *tales: list[InboundMessage | BaseException]) -> None:
        super().__init__(clock, *tales)
        self.read_at: list[float] = []

    async def run(self, receive: Receive) -> None:
        self.began.append(asyncio.get_running_loop().time())
        self.progress = Moment.now(self._clock)
        await asyncio.sleep(10)
        raise Unreachable("the line broke")

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        self.read_at.append(asyncio.get_running_loop().time())
        async for each in super().catch_up(since):
            yield each


class BreakingOnce(HearingAgain):
    """Its first line breaks at once; the second is good."""

    async def run(self, receive: Receive) -> None:
        self.progress = Moment.now(self._clock)
        if self.began:
            return await super().run(receive)
        self.began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(2)
        raise Unreachable("the line broke")


class Slow(HearingAgain):
    """Needs an hour for what it reads while it listens, and hears nothing meanwhile."""

    async def run(self, receive: Receive) -> None:
        self.began.append(asyncio.get_running_loop().time())
        await super().run(receive)

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        async for each in super().catch_up(since):
            yield each
        if len(self.asked) == 2:
            await asyncio.sleep(3600)


async def for_ever(account: Account, _: Receive) -> None:
    await asyncio.Event().wait()


async def answered_once(account: Account, _: Receive) -> None:
    assert isinstance(account, Telling)
    account.hears()
    await asyncio.Event().wait()


async def always_answered(account: Account, _: Receive) -> None:
    assert isinstance(account, Telling)
    while True:
        account.hears()
        await asyncio.sleep(20)


async def answered_then_lost(account: Account, _: Receive) -> None:
    assert isinstance(account, Telling)
    account.hears()
    raise Unreachable("the line broke")


async def heard_for_a_minute(account: Account, _: Receive) -> None:
    assert isinstance(account, Telling)
    for _ in range(6):
        account.hears()
        await asyncio.sleep(10)
    account.hears()
    raise Unreachable("the line broke")


class KnowsTheTime(HearingAgain):
    """Its platform's clock is right, whatever ours says."""

    async def platform_time(self) -> datetime:
        return NOON + timedelta(seconds=self._clock.monotonic())


class Watched:
    """A supervisor at work, what it received and what it told."""

    def __init__(self, account: Account, clock: Clock, store: Store) -> None:
        self.observer = Observer()
        self.received: list[str] = []
        self.gaps: list[datetime] = []
        self.refuses: set[str] = set()
        self._store = store
        self.supervisor = Supervisor(
            account,
            "main",
            store=WaitingStore(store, self.observer),
            clock=clock,
            observer=self.observer,
            tell_of_gap=self._tell,
        )

    async def receive(self, inbound: InboundMessage) -> None:
        if inbound.text in self.refuses:
            raise Refused("too long")
        accepted = await self._store.accept(inbound, key_of(inbound.source))
        if not accepted.duplicate:
            self.received.append(inbound.text)

    async def _tell(self, platform: str, account: str, since: datetime) -> None:
        assert (platform, account) == ("telegram", "main")
        self.gaps.append(since)

    @property
    def state(self) -> AccountState:
        return self.supervisor.report.state

    @contextmanager
    def at_work(self) -> Iterator[asyncio.Task[None]]:
        task = asyncio.ensure_future(self.supervisor.run(self.receive))
        try:
            yield task
        finally:
            task.cancel()


def watched(make: type[Account], *script: object) -> tuple[Watched, Account]:
    clock = LoopClock()
    account = make(clock, *script)  # type: ignore[arg-type]
    return Watched(account, clock, MemoryStore(clock)), account


class Odd:
    """A store of which one verb is done differently."""

    def __init__(self, store: Store, **verbs: object) -> None:
        self._store = store
        self._verbs = verbs

    def __getattr__(self, name: str) -> object:
        return self._verbs.get(name) or getattr(self._store, name)


def numbered(*numbers: int) -> list[InboundMessage | BaseException]:
    return [message(f"{number}", id=f"{number}") for number in numbers]


@hurried
class TestStates:
    async def test_it_starts_and_receives_once_the_platform_has_answered(self) -> None:
        watch, account = watched(Telling, for_ever)
        with watch.at_work():
            await later(1)
            assert (watch.state, watch.supervisor.report.progress_at) == (
                AccountState.STARTING,
                None,
            )
            account.hears()  # type: ignore[attr-defined]

            assert watch.state is AccountState.RECEIVING
            assert watch.supervisor.report.progress_at == NOON + timedelta(seconds=1)

    async def test_a_platform_that_falls_silent_makes_it_degraded_with_a_reason(self) -> None:
        watch, _ = watched(Telling, answered_once)
        with watch.at_work():
            await later(59)
            assert watch.state is AccountState.RECEIVING
            await later(2)

            report = watch.supervisor.report
            assert (report.state, report.reason) == (
                AccountState.DEGRADED,
                "the platform has not answered for some time",
            )

    async def test_an_answer_heals_it(self) -> None:
        watch, account = watched(Telling, answered_once)
        with watch.at_work():
            await later(70)
            account.hears()  # type: ignore[attr-defined]

            assert watch.state is AccountState.RECEIVING

    async def test_one_that_stays_deaf_is_started_again(self) -> None:
        watch, account = watched(Telling, answered_once, always_answered)
        with watch.at_work():
            await later(119)
            assert len(account.began) == 1
            await later(10)

            assert len(account.began) == 2
            assert watch.state is AccountState.RECEIVING

    async def test_a_quiet_chat_is_no_deafness(self) -> None:
        watch, account = watched(Telling, always_answered)
        with watch.at_work():
            await later(100_000)

            assert len(account.began) == 1
            assert watch.state is AccountState.RECEIVING

    async def test_one_that_cannot_tell_is_never_deaf(self) -> None:
        watch, account = watched(Account, for_ever)
        with watch.at_work():
            await later(100_000)

            assert len(account.began) == 1
            assert watch.state is AccountState.STARTING

    async def test_one_that_failed_backs_off_with_the_reason(self) -> None:
        watch, _ = watched(Account, Unreachable("the platform did not answer"))
        with watch.at_work():
            await later(1)

            report = watch.supervisor.report
            assert (report.state, report.reason) == (
                AccountState.BACKING_OFF,
                "the platform did not answer",
            )

    async def test_a_trouble_that_stays_is_told_once(self) -> None:
        at, _ = watched(Telling, Retryable("somebody else receives"))

        with capture_logs() as lines, at.at_work():
            await later(300)

        assert [line["reason"] for line in lines if "reason" in line] == ["somebody else receives"]

    async def test_a_trouble_that_comes_back_is_told_again(self) -> None:
        at, _ = watched(Telling, answered_then_lost)

        with capture_logs() as lines, at.at_work():
            await later(3)

        assert [line["reason"] for line in lines if "reason" in line][:2] == [
            "the line broke",
            "the line broke",
        ]

    async def test_cancelling_stops_it(self) -> None:
        watch, _ = watched(Telling, always_answered)
        with watch.at_work() as task:
            await later(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        assert watch.state is AccountState.STOPPED


@hurried
class TestRestarts:
    async def test_pauses_grow_to_a_minute(self) -> None:
        watch, account = watched(Account, Unreachable("no"))
        with watch.at_work():
            await later(600)

        pauses = [
            after - before for before, after in zip(account.began, account.began[1:], strict=False)
        ]
        longest = [1, 2, 4, 8, 16, 32, 60, 60, 60]
        assert len(pauses) >= len(longest)
        for pause, most in zip(pauses, longest, strict=False):
            assert most / 2 <= pause <= most + 0.01

    async def test_pauses_are_short_again_after_a_connection_that_lasted(self) -> None:
        watch, account = watched(
            Telling, *[Unreachable("no")] * 6, heard_for_a_minute, Unreachable("no")
        )
        with watch.at_work():
            await later(220)

        assert account.began[7] - account.began[6] <= 62.01

    async def test_a_connection_that_lasted_makes_only_the_next_pause_short(self) -> None:
        """After it the platform cannot even be asked what time it is."""
        clock = LoopClock()
        account = LosingTime(clock)
        watch = Watched(account, clock, MemoryStore(clock))
        with watch.at_work():
            await later(600)

        assert 5 < account.asked_for_the_time < 20

    async def test_pauses_grow_where_every_connection_ends_at_once(self) -> None:
        """Finding R8: a platform that answers and hangs up was asked hundreds of times."""
        watch, account = watched(Telling, answered_then_lost)
        with watch.at_work():
            await later(600)

        assert len(account.began) < 25
        assert account.began[-1] - account.began[-2] >= 30

    @pytest.mark.parametrize(
        "ending",
        [ZeroDivisionError("secret"), asyncio.CancelledError("their own")],
        ids=lambda error: type(error).__name__,
    )
    async def test_whatever_ends_an_adapter_it_is_started_again(
        self, ending: BaseException
    ) -> None:
        watch, account = watched(Telling, ending, always_answered)
        with watch.at_work():
            await later(1.5)

            assert len(account.began) == 2
            assert watch.state is AccountState.RECEIVING

    async def test_a_bug_is_told_by_its_kind_alone(self) -> None:
        watch, _ = watched(Account, ZeroDivisionError("secret"))
        with watch.at_work():
            await later(0.1)

            assert watch.supervisor.report.reason == "ZeroDivisionError"

    async def test_an_adapter_that_just_ends_is_started_again(self) -> None:
        async def end(account: Account, _: Receive) -> None:
            return None

        watch, account = watched(Account, end)
        with watch.at_work():
            await later(10)

            assert len(account.began) > 2
            assert watch.supervisor.report.reason == "the connection ended"

    async def test_a_store_that_cannot_write_for_a_while_ends_nothing(self) -> None:
        clock, left = LoopClock(), [5]
        store = MemoryStore(clock)

        async def refused(platform: str, account: str) -> object:
            if left[0]:
                left[0] -= 1
                raise StoreUnavailable("the disk is full")
            return await store.record_refused(platform, account)

        account = Account(clock, Unauthorized("bad token"))
        watch = Watched(account, clock, Odd(store, record_refused=refused))  # type: ignore[arg-type]
        with watch.at_work() as task:
            await later(1000)

            assert not task.cancelled()
            assert (left, watch.state) == ([0], AccountState.REFUSED)
            assert len(account.began) == MOST_REFUSALS

    async def test_a_damaged_store_stops_the_account_and_not_the_daemon(self) -> None:
        async def damaged(platform: str, account: str) -> object:
            raise StoreDamaged("restore the backup")

        clock = LoopClock()
        watch = Watched(Account(clock, for_ever), clock, Odd(MemoryStore(clock), account=damaged))  # type: ignore[arg-type]
        with watch.at_work() as task:
            await task

        report = watch.supervisor.report
        assert (report.state, report.reason) == (AccountState.STOPPED, "restore the backup")


class TestRefusedCredentials:
    @hurried
    async def test_they_are_tried_three_times_and_then_left_alone(self) -> None:
        watch, account = watched(Account, Unauthorized("bad token"))
        with watch.at_work() as task:
            await later(100)

            assert task.done()
            assert len(account.began) == MOST_REFUSALS
            assert watch.state is AccountState.REFUSED
            assert watch.supervisor.report.reason == (
                "the platform refuses our credentials; correct them in the config and restart, "
                "not before 12:10 UTC"
            )

    @hurried
    async def test_an_answer_in_between_makes_them_count_from_the_beginning(self) -> None:
        refused = Unauthorized("bad token")
        watch, account = watched(
            Telling, refused, refused, answered_then_lost, refused, refused, always_answered
        )
        with watch.at_work():
            await later(100)

            assert len(account.began) == 6
            assert watch.state is AccountState.RECEIVING

    async def test_they_are_counted_across_restarts_and_tried_again_after_a_while(
        self, tmp_path: Path
    ) -> None:
        clock = FrozenClock()
        for _ in range(MOST_REFUSALS):
            store = await SqliteStore.connect(tmp_path / "turngate.db", clock)
            await store.record_refused("telegram", "main")
            await store.close()

        store = await SqliteStore.connect(tmp_path / "turngate.db", clock)
        account = Telling(clock, always_answered)
        watch = Watched(account, clock, store)
        await watch.supervisor.run(watch.receive)
        assert (watch.state, account.began) == (AccountState.REFUSED, [])

        clock.advance(seconds=REFUSALS_COUNT_FOR.total_seconds() + 1)
        with watch.at_work():
            while not account.began:
                await asyncio.sleep(0)
            assert watch.state is AccountState.RECEIVING
        await store.close()

    @hurried
    async def test_a_clock_that_was_set_back_does_not_make_them_count_for_a_day(self) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        for _ in range(MOST_REFUSALS):
            await store.record_refused("telegram", "main")
        clock.advance(days=-1)
        watch = Watched(Telling(clock, always_answered), clock, store)
        with watch.at_work():
            await later(1)

            assert watch.state is AccountState.RECEIVING


@hurried
class TestAClockThatIsSet:
    @pytest.mark.parametrize("days", [1, 365, -1])
    async def test_it_makes_nobody_deaf(self, days: int) -> None:
        clock = LoopClock()
        account = Telling(clock, always_answered)
        watch = Watched(account, clock, MemoryStore(clock))
        with watch.at_work():
            await later(50)
            clock.advance(days=days)
            assert watch.state is AccountState.RECEIVING
            assert watch.supervisor.report.silent_for == 10
            await later(500)

            assert watch.state is AccountState.RECEIVING
            assert len(account.began) == 1

    async def test_it_does_not_hide_that_somebody_is_deaf(self) -> None:
        clock = LoopClock()
        account = Telling(clock, answered_once)
        watch = Watched(account, clock, MemoryStore(clock))
        with watch.at_work():
            await later(1)
            clock.advance(days=-1)
            await later(61)
            assert watch.state is AccountState.DEGRADED
            await later(120)

            assert len(account.began) > 1

    async def test_what_was_missed_is_read_by_one_whose_last_note_lies_in_the_future(self) -> None:
        watch, account = watched(CatchingUp, numbered(1))
        late = replace(message("before", id="before"), sent_at=NOON + timedelta(days=365))
        await watch.receive(late)
        with watch.at_work():
            await later(0.1)

        assert account.asked == [NOON - timedelta(days=1) - OVERLAP]  # type: ignore[attr-defined]
        assert watch.received == ["before", "1"]

    async def test_what_was_missed_since_a_message_is_read_though_our_clock_was_ahead_then(
        self,
    ) -> None:
        """Finding R4: it was noted by our clock, so the messages after it were never read."""
        clock = LoopClock()
        store = MemoryStore(clock)
        clock.advance(minutes=15)
        await Watched(KnowsTheTime(clock), clock, store).receive(message("before", id="before"))
        clock.advance(minutes=-15)
        await later(1800)
        account = KnowsTheTime(clock, numbered(1))
        watch = Watched(account, clock, store)
        with watch.at_work():
            await later(0.1)

        assert account.asked == [NOON - OVERLAP]
        assert watch.received == ["1"]

    async def test_until_when_it_has_caught_up_is_noted_by_the_platform_s_clock(self) -> None:
        """Finding R4: also where nobody wrote while our clock was ahead."""
        clock = LoopClock()
        store = MemoryStore(clock)
        clock.advance(minutes=15)
        with Watched(KnowsTheTime(clock), clock, store).at_work():
            await later(5)
        clock.advance(minutes=-15)
        await later(1800)
        account = KnowsTheTime(clock, numbered(1))
        with Watched(account, clock, store).at_work():
            await later(0.1)

        assert account.asked == [NOON - OVERLAP]


@hurried
class TestCatchingUp:
    async def told(self, watch: Watched, text: str = "before") -> None:
        """There was something before this start."""
        await watch.receive(message(text, id=text))
        watch.received.clear()

    async def test_on_the_first_start_there_is_nothing_to_go_back_to(self) -> None:
        watch, account = watched(CatchingUp, numbered(1))
        with watch.at_work():
            await later(0.1)

        assert account.asked == []  # type: ignore[attr-defined]
        assert watch.received == []

    async def test_a_daemon_that_dies_with_its_first_message_goes_back_to_the_first_start(
        self,
    ) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        deaf = HearingAgain(clock)
        with Watched(deaf, clock, store).at_work():
            await later(0.1)
        again = CatchingUp(clock, numbered(1))
        next_run = Watched(again, clock, store)
        with next_run.at_work():
            await later(0.1)

        assert (deaf.asked, again.asked) == ([], [NOON - timedelta(minutes=2)])
        assert next_run.received == ["1"]

    async def test_what_was_missed_is_received_in_order_and_what_is_known_only_once(self) -> None:
        watch, account = watched(
            CatchingUp, [message("before", id="before"), *numbered(1, 2, 3, 2)]
        )
        await self.told(watch)
        with watch.at_work():
            await later(0.1)

        assert watch.received == ["1", "2", "3"]
        assert account.asked == [NOON - timedelta(minutes=2)]  # type: ignore[attr-defined]
        assert watch.gaps == []

    async def test_what_was_missed_is_stored_side_by_side_and_begun_in_order(self) -> None:
        watch, _ = watched(CatchingUp, numbered(*range(5)))
        await self.told(watch)
        begun, may_end = list[str](), asyncio.Event()

        async def receive(message: InboundMessage) -> None:
            begun.append(message.text)
            await may_end.wait()
            await watch.receive(message)

        running = asyncio.create_task(watch.supervisor.run(receive))
        await later(0.1)
        assert begun == ["0", "1", "2", "3", "4"]
        may_end.set()
        await later(0.1)
        running.cancel()
        await asyncio.wait({running})

        assert watch.received == begun

    async def test_one_that_is_never_taken_holds_up_nobody(self) -> None:
        watch, _ = watched(CatchingUp, numbered(1, 2, 3))
        watch.refuses = {"2"}
        await self.told(watch)
        with watch.at_work():
            await later(0.1)

        assert watch.received == ["1", "3"]

    async def test_a_try_that_breaks_off_is_begun_where_it_began(self) -> None:
        watch, account = watched(
            CatchingUp, [*numbered(1), Unreachable("the line broke")], numbered(1, 2), []
        )
        await self.told(watch)
        await later(3600)
        with watch.at_work():
            await later(1.1)

            assert watch.received == ["1", "2"]
            first, second = account.asked[:2]  # type: ignore[attr-defined]
            assert first == second == NOON - timedelta(minutes=2)

    async def test_a_daemon_that_dies_in_between_begins_where_it_began(self) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        account = CatchingUp(clock, [*numbered(1), Unreachable("the line broke")], [])
        watch = Watched(account, clock, store)
        await self.told(watch)
        await later(3600)
        with watch.at_work():
            await later(0.1)
        again = CatchingUp(clock, numbered(1, 2))
        next_run = Watched(again, clock, store)
        with next_run.at_work():
            await later(0.1)

        assert (watch.received, next_run.received) == (["1"], ["2"])
        assert account.asked == again.asked == [NOON - timedelta(minutes=2)]

    async def test_what_was_said_before_it_could_hear_is_read_once_more_when_it_does(self) -> None:
        watch, account = watched(HearingAgain, numbered(1), numbered(1, 2))
        await self.told(watch)
        await later(3600)
        began = account.now  # type: ignore[attr-defined]
        with watch.at_work():
            await later(5)

        assert watch.received == ["1", "2"]
        assert account.asked == [NOON - OVERLAP, began - OVERLAP]  # type: ignore[attr-defined]

    async def test_once_it_has_caught_up_a_later_start_goes_back_no_further(self) -> None:
        watch, account = watched(HearingAgain, numbered(1), [], [])
        await self.told(watch)
        await later(3600)
        with watch.at_work():
            await later(5)
        await later(3600)
        with watch.at_work():
            await later(0.1)

        assert account.asked[2] == NOON + timedelta(hours=1) - OVERLAP  # type: ignore[attr-defined]

    async def test_one_to_whom_nobody_has_written_yet_goes_back_to_its_first_hearing(self) -> None:
        watch, account = watched(HearingAgain, numbered(1))
        with watch.at_work():
            await later(5)
        assert account.asked == []  # type: ignore[attr-defined]
        await later(3600)
        with watch.at_work():
            await later(0.1)

        assert account.asked == [NOON - OVERLAP]  # type: ignore[attr-defined]
        assert watch.received == ["1"]

    async def test_a_line_that_breaks_again_and_again_is_caught_up_with_once_a_minute(self) -> None:
        """Finding R8: each catch-up asks for the history of every chat."""
        watch, account = watched(Breaking, numbered(1), *[[]] * 100)
        await self.told(watch)
        await later(3600)
        with watch.at_work():
            await later(600)

        # One before it listens, and one of what was said until it did.
        reads = account.read_at[::2]  # type: ignore[attr-defined]
        assert watch.received == ["1"]
        assert len(account.began) > 9
        assert all(after - before >= 60 for before, after in pairwise(reads))

    async def test_what_was_missed_by_one_that_broke_soon_is_read_when_the_minute_is_over(
        self,
    ) -> None:
        clock = LoopClock()
        watch = Watched(BreakingOnce(clock, [], [], numbered(1)), clock, MemoryStore(clock))
        await self.told(watch)
        with watch.at_work():
            await later(30)
            assert watch.received == []
            await later(50)

        assert watch.received == ["1"]

    async def test_a_line_that_goes_deaf_while_the_rest_is_read_is_begun_again(self) -> None:
        """A catch-up may take long: it must not hide that nothing is heard any more."""
        watch, account = watched(Slow, numbered(1))
        await self.told(watch)
        with watch.at_work():
            await later(300)

        assert len(account.began) > 1

    async def test_more_than_can_be_read_is_a_gap(self) -> None:
        tale = numbered(*range(MOST_CAUGHT_UP + 10))
        watch, _ = watched(CatchingUp, tale)
        await self.told(watch)
        with watch.at_work():
            await later(0.1)

        assert len(watch.received) == MOST_CAUGHT_UP
        assert watch.gaps == [NOON]

    async def test_a_gap_is_told_once_however_often_the_line_breaks(self) -> None:
        watch, account = watched(CatchingUp, *[[GapRemains("too long ago")]] * 20)
        await self.told(watch)
        with watch.at_work():
            await later(300)

            assert len(account.began) > 3
            assert watch.gaps == [NOON]

    async def test_every_gap_is_logged(self) -> None:
        """Finding R5: what had to be left out was left out without a word."""
        watch, _ = watched(CatchingUp, [GapRemains("too long ago")])
        await self.told(watch)
        with capture_logs() as lines, watch.at_work():
            await later(0.1)

        assert "too long ago" in [line.get("reason") for line in lines]

    async def test_a_gap_at_the_end_takes_nothing_from_what_was_read(self) -> None:
        watch, account = watched(CatchingUp, [*numbered(1, 2), GapRemains("too long ago")])
        await self.told(watch)
        with watch.at_work():
            await later(0.1)

            assert (watch.received, watch.gaps) == (["1", "2"], [NOON])
            assert len(account.began) == 1


def test_sources_of_these_tests_are_of_the_supervised_account() -> None:
    assert (dm().platform, dm().account) == ("telegram", "main")
