"""The sweep, on a loop whose time passes at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from gateway.errors import StoreUnavailable
from gateway.expiry import sweep, sweep_files
from gateway.files import FileRules, Files
from gateway.model import InboxState, Part, SessionId
from gateway.observe import Observer
from gateway.stores.memory import MemoryStore
from gateway.storing import Pruned
from tests.fakes import FrozenClock, message
from tests.hurry import LoopClock, hurried
from tests.talk import exchange, key_of

DAY = 86_400.0


class Moody(MemoryStore):
    """Cannot be swept the first time."""

    failed = False

    async def prune(self, **ages: object) -> Pruned:
        if not self.failed:
            self.failed = True
            raise StoreUnavailable("locked")
        return await super().prune(**ages)  # type: ignore[arg-type]


@hurried
class TestSweep:
    async def test_a_repeated_message_is_known_for_a_week_and_forgotten_after_it(self, tmp_path: Path) -> None:
        store = MemoryStore(LoopClock())
        await exchange(store, id="1")
        sweeping = asyncio.create_task(sweep(store, Files(tmp_path / "files"), LoopClock(), Observer()))

        await asyncio.sleep(6.9 * DAY)
        assert (await store.accept(message(id="1"), key_of())).duplicate
        await asyncio.sleep(0.3 * DAY)
        assert await store.inbox(InboxState.DONE) == []
        assert not (await store.accept(message(id="1"), key_of())).duplicate
        sweeping.cancel()

    async def test_a_store_that_cannot_be_swept_is_swept_the_next_time(self, tmp_path: Path) -> None:
        store = Moody(LoopClock())
        await exchange(store, id="1")
        sweeping = asyncio.create_task(sweep(store, Files(tmp_path / "files"), LoopClock(), Observer()))

        await asyncio.sleep(8 * DAY)

        assert store.failed
        assert await store.inbox(InboxState.DONE) == []
        sweeping.cancel()


class TestFiles:
    @staticmethod
    async def swept(store: MemoryStore, files: Files, clock: FrozenClock) -> list[SessionId]:
        await sweep_files(store, files, clock, Observer())
        return sorted(await files.sessions())

    async def test_the_files_of_a_session_stay_while_it_lives_and_go_with_it(self, tmp_path: Path) -> None:
        clock = FrozenClock()
        store, files = MemoryStore(clock), Files(tmp_path / "files")
        session = await exchange(store, id="1")
        files.workdir(session.id)

        assert await self.swept(store, files, clock) == [session.id]
        await store.delete(session.id)
        assert await self.swept(store, files, clock) == []

    async def test_the_files_of_a_session_that_rests_for_long_go(self, tmp_path: Path) -> None:
        clock = FrozenClock()
        store, files = MemoryStore(clock), Files(tmp_path / "files", FileRules(keep=timedelta(days=2)))
        session = await exchange(store, id="1")
        files.workdir(session.id)

        clock.advance(days=1.9)
        assert await self.swept(store, files, clock) == [session.id]
        clock.advance(days=0.2)
        assert await self.swept(store, files, clock) == []

    async def test_what_still_has_to_be_sent_stays(self, tmp_path: Path) -> None:
        clock = FrozenClock()
        store, files = MemoryStore(clock), Files(tmp_path / "files", FileRules(keep=timedelta(days=2)))
        session = await exchange(store, id="1")
        waiting = await files.as_file("x", session.id)
        await store.tell(session.id, entries=(), parts=(Part(target=session.origin, text="", file=waiting),))

        clock.advance(days=365)

        assert await self.swept(store, files, clock) == [session.id]
        assert Path(waiting.path).exists()

    async def test_one_folder_that_cannot_be_deleted_keeps_no_other(self, tmp_path: Path) -> None:
        class Stuck(Files):
            async def forget(self, session: SessionId) -> None:
                if session == "a":
                    raise StoreUnavailable("stuck")
                await super().forget(session)

        clock, files = FrozenClock(), Stuck(tmp_path / "files")
        for name in ("a", "b"):
            files.workdir(SessionId(name))

        assert await self.swept(MemoryStore(clock), files, clock) == ["a"]
