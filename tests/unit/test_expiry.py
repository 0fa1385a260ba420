"""The sweep, on a loop whose time passes at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.errors import StoreUnavailable
from gateway.expiry import sweep
from gateway.files import Files
from gateway.model import InboxState
from gateway.observe import Observer
from gateway.stores.memory import MemoryStore
from gateway.storing import Pruned
from tests.fakes import message
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
