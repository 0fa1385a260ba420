"""The sweep, on a loop whose time passes at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import time, timedelta
from pathlib import Path

import pytest

from tests.fakes import FrozenClock, ScriptedAgent, dm, message
from tests.hurry import LoopClock, hurried
from tests.oracle_store import MemoryStore
from tests.talk import begin, exchange, key_of, opening, texts
from turngate.gateway.daemon.sweep import Sweep, sweep_files
from turngate.gateway.domain.errors import StoreUnavailable, UnknownSession
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import ChatType, InboxState
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.session import (
    EndReason,
    ResetPolicy,
    Session,
)
from turngate.gateway.domain.store_values import (
    Outcome,
    PolicyOf,
    Pruned,
)
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.retention import CleanUpRules
from turngate.gateway.rules.session_lifecycle import ResetPolicies
from turngate.gateway.stores.session_files import FileRules, SessionFiles

DAY = 86_400.0
HOUR = 3600.0
IDLE = ResetPolicy(idle_after=timedelta(hours=1))


class Moody(MemoryStore):
    """Cannot be swept the first time."""

    failed = False

    async def prune(self, **ages: object) -> Pruned:
        if not self.failed:
            self.failed = True
            raise StoreUnavailable("locked")
        return await super().prune(**ages)  # type: ignore[arg-type]


class Counting(MemoryStore):
    """Knows how often it was asked what is due."""

    asked = 0

    def due(self, policy_of: PolicyOf) -> AsyncIterator[Session]:
        self.asked += 1
        return super().due(policy_of)


def sweep_of(
    store: MemoryStore,
    folder: Path,
    clock: Clock,
    *,
    resets: ResetPolicies | None = None,
    rules: CleanUpRules | None = None,
    is_busy: Callable[[Session], bool] = lambda session: False,
) -> Sweep:
    """The sweep over a store, by these rules."""
    agents = {"main": ConfiguredAgent(name="main", agent=ScriptedAgent())}
    return Sweep(
        policy=Policy(agents=agents, resets=resets or ResetPolicies()),
        store=store,
        files=SessionFiles(folder / "files"),
        clock=clock,
        observer=Observer(),
        is_busy=is_busy,
        rules=rules or CleanUpRules(),
    )


@asynccontextmanager
async def at_work(sweep: Sweep) -> AsyncIterator[None]:
    """For as long as the block lasts."""
    sweeping = asyncio.create_task(sweep.run())
    try:
        yield
    finally:
        assert not sweeping.done()
        sweeping.cancel()


@hurried
class TestCleanUp:
    async def test_a_repeated_message_is_known_for_a_week_and_forgotten_after_it(
        self, tmp_path: Path
    ) -> None:
        store = MemoryStore(LoopClock())
        await exchange(store, id="1")
        async with at_work(sweep_of(store, tmp_path, LoopClock())):
            await asyncio.sleep(6.9 * DAY)
            assert (await store.accept(message(id="1"), key_of())).duplicate
            await asyncio.sleep(0.3 * DAY)
            assert await store.inbox(InboxState.DONE) == []
            assert not (await store.accept(message(id="1"), key_of())).duplicate

    async def test_a_store_that_cannot_be_swept_is_swept_the_next_time(
        self, tmp_path: Path
    ) -> None:
        store = Moody(LoopClock())
        await exchange(store, id="1")
        async with at_work(sweep_of(store, tmp_path, LoopClock())):
            await asyncio.sleep(8 * DAY)

        assert store.failed
        assert await store.inbox(InboxState.DONE) == []

    async def test_empty_sessions_go_and_old_ones_are_put_away_by_the_ages_of_the_config(
        self, tmp_path: Path
    ) -> None:
        store = MemoryStore(LoopClock())
        empty, old = (
            (await store.open(opening(dm("1")))).session,
            await exchange(store, source=dm("2")),
        )
        rules = CleanUpRules(empty_after=timedelta(hours=5), archive_after=timedelta(days=2))
        async with at_work(sweep_of(store, tmp_path, LoopClock(), rules=rules)):
            await asyncio.sleep(4.5 * HOUR)
            assert await store.session(empty.id)
            await asyncio.sleep(2 * HOUR)
            with pytest.raises(UnknownSession):
                await store.session(empty.id)
            assert not (await store.session(old.id)).archived
            await asyncio.sleep(2 * DAY)
            assert (await store.session(old.id)).archived

    async def test_without_a_schedule_no_session_is_touched_but_work_is_forgotten(
        self, tmp_path: Path
    ) -> None:
        store = MemoryStore(LoopClock())
        empty, old = (
            (await store.open(opening(dm("1")))).session,
            await exchange(store, source=dm("2")),
        )
        async with at_work(sweep_of(store, tmp_path, LoopClock(), rules=CleanUpRules(every=None))):
            await asyncio.sleep(90 * DAY)

        assert (await store.session(empty.id), (await store.session(old.id)).archived) == (
            empty,
            False,
        )
        assert await store.inbox(InboxState.DONE) == []

    async def test_a_jump_of_the_clock_deletes_archives_and_forgets_nothing(
        self, tmp_path: Path
    ) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        empty, old = (
            (await store.open(opening(dm("1")))).session,
            await exchange(store, source=dm("2")),
        )
        async with at_work(
            sweep_of(store, tmp_path, clock, rules=CleanUpRules(keep=timedelta(days=90)))
        ):
            await asyncio.sleep(0.5 * HOUR)
            clock.advance(days=400)
            await asyncio.sleep(0.9 * HOUR)
            clock.advance(days=-400)
            await asyncio.sleep(0.5 * HOUR)

            assert await store.session(empty.id)
            assert not (await store.session(old.id)).archived
            assert await texts(store, old) == ["hello", "hi"]
            assert (await store.accept(message(id="1", source=dm("2")), key_of())).duplicate

    async def test_a_host_that_slept_is_swept_an_hour_later(self, tmp_path: Path) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        await exchange(store)
        async with at_work(sweep_of(store, tmp_path, clock)):
            await asyncio.sleep(0.5 * HOUR)
            clock.advance(days=8)
            await asyncio.sleep(0.9 * HOUR)
            assert await store.inbox(InboxState.DONE) != []
            await asyncio.sleep(1.2 * HOUR)
            assert await store.inbox(InboxState.DONE) == []

    async def test_other_rules_count_within_a_minute(self, tmp_path: Path) -> None:
        store = MemoryStore(LoopClock())
        empty = (await store.open(opening())).session
        sweep = sweep_of(store, tmp_path, LoopClock(), rules=CleanUpRules(every=timedelta(days=30)))
        async with at_work(sweep):
            await asyncio.sleep(0.5 * HOUR)
            sweep.rules = CleanUpRules(
                every=timedelta(minutes=5), empty_after=timedelta(minutes=10)
            )
            await asyncio.sleep(120)
            with pytest.raises(UnknownSession):
                await store.session(empty.id)


@hurried
class TestEnding:
    async def test_a_session_that_is_due_is_ended_within_a_minute_and_once(
        self, tmp_path: Path
    ) -> None:
        store = MemoryStore(LoopClock())
        session = await exchange(store)
        async with at_work(
            sweep_of(store, tmp_path, LoopClock(), resets=ResetPolicies(default=IDLE))
        ):
            await asyncio.sleep(0.99 * HOUR)
            assert (await store.session(session.id)).end_reason is None
            await asyncio.sleep(0.01 * HOUR + 61)
            ended = await store.session(session.id)
            await asyncio.sleep(DAY)

        assert (ended.end_reason, ended.current) == (EndReason.IDLE, True)
        assert await store.session(session.id) == ended

    async def test_where_people_are_away_after_seconds_it_looks_every_second(
        self, tmp_path: Path
    ) -> None:
        store = MemoryStore(LoopClock())
        session = await exchange(store)
        short = ResetPolicies(default=ResetPolicy(idle_after=timedelta(seconds=3)))
        async with at_work(sweep_of(store, tmp_path, LoopClock(), resets=short)):
            await asyncio.sleep(4.5)

        assert (await store.session(session.id)).end_reason is EndReason.IDLE

    async def test_where_nothing_is_ever_due_nothing_is_looked_for(self, tmp_path: Path) -> None:
        store = Counting(LoopClock())
        never = ResetPolicies(
            by_platform={"slack": ResetPolicy()}, by_chat_type={ChatType.DM: ResetPolicy()}
        )
        async with at_work(sweep_of(store, tmp_path, LoopClock(), resets=never)):
            await asyncio.sleep(DAY)

        assert store.asked == 0

    async def test_a_session_in_which_something_is_at_work_is_ended_when_that_is_over(
        self, tmp_path: Path
    ) -> None:
        store, busy = MemoryStore(LoopClock()), {"1"}
        session = await exchange(store, source=dm("1"))
        resets = ResetPolicies(default=IDLE)

        def is_busy(asked: Session) -> bool:
            return asked.origin.chat_id in busy

        async with at_work(sweep_of(store, tmp_path, LoopClock(), resets=resets, is_busy=is_busy)):
            await asyncio.sleep(5 * HOUR)
            assert (await store.session(session.id)).end_reason is None
            busy.clear()
            await asyncio.sleep(61)
            assert (await store.session(session.id)).end_reason is EndReason.IDLE

    async def test_a_session_of_which_nobody_can_say_whether_it_is_busy_is_not_ended(
        self, tmp_path: Path
    ) -> None:
        store = MemoryStore(LoopClock())
        session, other = (
            await exchange(store, source=dm("1")),
            await exchange(store, source=dm("2")),
        )

        def is_busy(asked: Session) -> bool:
            return {"2": False}[asked.origin.chat_id or ""]

        resets = ResetPolicies(default=IDLE)
        async with at_work(sweep_of(store, tmp_path, LoopClock(), resets=resets, is_busy=is_busy)):
            await asyncio.sleep(2 * HOUR)

        assert (await store.session(session.id)).end_reason is None
        assert (await store.session(other.id)).end_reason is EndReason.IDLE

    async def test_a_session_whose_turn_runs_is_not_ended(self, tmp_path: Path) -> None:
        store = MemoryStore(LoopClock())
        begun = await begin(store, message())
        async with at_work(
            sweep_of(store, tmp_path, LoopClock(), resets=ResetPolicies(default=IDLE))
        ):
            await asyncio.sleep(2 * HOUR)

        assert (await store.session(begun.opened.session.id)).end_reason is None

    async def test_the_next_message_is_told_once_as_if_it_had_made_the_reset_itself(
        self, tmp_path: Path
    ) -> None:
        clock = LoopClock()
        swept, unswept = MemoryStore(clock), MemoryStore(clock)
        for store in (swept, unswept):
            await exchange(store)
        async with at_work(sweep_of(swept, tmp_path, clock, resets=ResetPolicies(default=IDLE))):
            await asyncio.sleep(2 * HOUR)
            first = [
                (await begin(store, message(id="2"), IDLE)).opened for store in (swept, unswept)
            ]
            answered = [await exchange(store, id="3", policy=IDLE) for store in (swept, unswept)]

        notices = [opened.notice for opened in first]
        assert notices[0] == notices[1]
        assert notices[0] is not None
        assert (notices[0].reason, notices[0].had_activity) == (EndReason.IDLE, True)
        assert [opened.is_new for opened in first] == [True, True]
        assert [session.notice for session in answered] == [None, None]
        assert [session.id for session in answered] == [opened.session.id for opened in first]

    async def test_a_clock_that_jumps_ahead_ends_nothing_unless_somebody_writes(
        self, tmp_path: Path
    ) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        session = await exchange(store)
        async with at_work(sweep_of(store, tmp_path, clock, resets=ResetPolicies(default=IDLE))):
            await asyncio.sleep(120)
            clock.advance(days=2)
            await asyncio.sleep(0.9 * HOUR)
            assert (await store.session(session.id)).end_reason is None
            assert (await store.open(opening(policy=IDLE))).is_new

    async def test_a_clock_that_jumps_back_ends_nothing_early(self, tmp_path: Path) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        session = await exchange(store)
        async with at_work(sweep_of(store, tmp_path, clock, resets=ResetPolicies(default=IDLE))):
            clock.advance(hours=-5)
            await asyncio.sleep(4 * HOUR)
            assert (await store.session(session.id)).end_reason is None
            await asyncio.sleep(3 * HOUR)
            assert (await store.session(session.id)).end_reason is EndReason.IDLE

    async def test_many_that_are_due_at_once_are_all_ended(self, tmp_path: Path) -> None:
        clock = LoopClock()
        store = MemoryStore(clock)
        for number in range(100):
            await exchange(store, id=str(number), source=dm(str(number)))
        daily = ResetPolicies(default=ResetPolicy(daily_at=time(4)))
        async with at_work(sweep_of(store, tmp_path, clock, resets=daily)):
            await asyncio.sleep(16 * HOUR + 61)

        assert {session.end_reason for session in await store.sessions()} == {EndReason.DAILY}
        assert len(await store.endings(limit=1000)) == 100


class TestFiles:
    async def test_what_is_not_to_be_kept_goes_with_its_files_and_without_a_schedule_too(
        self, tmp_path: Path
    ) -> None:
        clock = FrozenClock()
        store = MemoryStore(clock)
        begun = await begin(store, message())
        await store.finish(begun.turn, Outcome())
        session = begun.opened.session
        sweep = sweep_of(
            store, tmp_path, clock, rules=CleanUpRules(every=None, keep=timedelta(days=5))
        )
        sweep.files.workdir(session.id)

        clock.advance(days=4)
        await sweep.clean_up()
        kept = await sweep.files.sessions()
        clock.advance(days=3)
        pruned = await sweep.clean_up()

        assert (kept, await sweep.files.sessions()) == ([session.id], [])
        assert (pruned.deleted, pruned.entries) == (1, 1)

    @staticmethod
    async def swept(store: MemoryStore, files: SessionFiles, clock: FrozenClock) -> list[SessionId]:
        await sweep_files(store, files, clock, Observer())
        return sorted(await files.sessions())

    async def test_the_files_of_a_session_stay_while_it_lives_and_go_with_it(
        self, tmp_path: Path
    ) -> None:
        clock = FrozenClock()
        store, files = MemoryStore(clock), SessionFiles(tmp_path / "files")
        session = await exchange(store, id="1")
        files.workdir(session.id)

        assert await self.swept(store, files, clock) == [session.id]
        await store.delete(session.id)
        assert await self.swept(store, files, clock) == []

    async def test_the_files_of_a_session_that_rests_for_long_go(self, tmp_path: Path) -> None:
        clock = FrozenClock()
        store, files = (
            MemoryStore(clock),
            SessionFiles(tmp_path / "files", FileRules(keep=timedelta(days=2))),
        )
        session = await exchange(store, id="1")
        files.workdir(session.id)

        clock.advance(days=1.9)
        assert await self.swept(store, files, clock) == [session.id]
        clock.advance(days=0.2)
        assert await self.swept(store, files, clock) == []

    async def test_what_still_has_to_be_sent_stays(self, tmp_path: Path) -> None:
        clock = FrozenClock()
        store, files = (
            MemoryStore(clock),
            SessionFiles(tmp_path / "files", FileRules(keep=timedelta(days=2))),
        )
        session = await exchange(store, id="1")
        waiting = await files.as_file("x", session.id)
        await store.tell(
            session.id, entries=(), parts=(Part(target=session.origin, text="", file=waiting),)
        )

        clock.advance(days=365)

        assert await self.swept(store, files, clock) == [session.id]
        assert Path(waiting.path).exists()

    async def test_one_folder_that_cannot_be_deleted_keeps_no_other(self, tmp_path: Path) -> None:
        class Stuck(SessionFiles):
            async def forget(self, session: SessionId) -> None:
                if session == "a":
                    raise StoreUnavailable("stuck")
                await super().forget(session)

        clock, files = FrozenClock(), Stuck(tmp_path / "files")
        for name in ("a", "b"):
            files.workdir(SessionId(name))

        assert await self.swept(MemoryStore(clock), files, clock) == ["a"]
