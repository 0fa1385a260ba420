"""Waiting for a store that cannot write now."""

from __future__ import annotations

import asyncio

import pytest

from tests.hurry import hurried
from turngate.gateway.domain.errors import (
    StoreDamaged,
    StoreUnavailable,
    UnknownSession,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.stores.waiting_store import WaitingStore, until_stored


class Disk:
    """Full for a while."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.tried_at: list[float] = []

    async def write(self) -> str:
        self.tried_at.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)
        return "written"


@hurried
class TestUntilStored:
    async def test_a_write_is_tried_with_growing_pauses_until_the_store_takes_it(self) -> None:
        disk = Disk(*[StoreUnavailable("full")] * 9)

        assert await until_stored(Observer(), disk.write) == "written"
        pauses = [
            later - earlier
            for earlier, later in zip(disk.tried_at, disk.tried_at[1:], strict=False)
        ]
        assert pauses == [0.5, 1, 2, 3, 3, 3, 3, 3, 3]

    @pytest.mark.parametrize(
        "error", [StoreDamaged("bad row"), UnknownSession("gone"), KeyError("bug")]
    )
    async def test_what_waiting_cannot_cure_is_raised_at_once(self, error: Exception) -> None:
        disk = Disk(error)

        with pytest.raises(type(error)):
            await until_stored(Observer(), disk.write)
        assert disk.tried_at == [0.0]


class Full:
    """A store that is full at the first attempt of each verb."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> object:
        async def verb(*args: object) -> str:
            self.asked.append(name)
            if self.asked.count(name) == 1:
                raise StoreUnavailable("full")
            return name

        return verb


VERBS = sorted(name for name in dir(Store) if not name.startswith("_"))
MUST_NOT_BE_LOST = {
    "account",
    "answer",
    "ask",
    "begin",
    "charge",
    "end_alone",
    "finish",
    "join",
    "open",
    "record_preview",
    "record_refused",
    "record_sending",
    "record_sent",
    "record_tool",
    "record_unsent",
    "record_welcome",
    "refuse",
    "summarise",
    "tell",
}


async def call(verb: str, store: Full) -> object:
    """Call a verb of the waiting store."""
    waiting = WaitingStore(store, Observer())  # type: ignore[arg-type]
    return await getattr(waiting, verb)()


@hurried
class TestWaitingStore:
    @pytest.mark.parametrize("verb", sorted(MUST_NOT_BE_LOST))
    async def test_what_must_not_be_lost_waits(self, verb: str) -> None:
        store = Full()

        assert await call(verb, store) == verb
        assert store.asked == [verb, verb]

    @pytest.mark.parametrize("verb", sorted(set(VERBS) - MUST_NOT_BE_LOST))
    async def test_every_other_verb_of_the_port_is_there_and_answers_at_once(
        self, verb: str
    ) -> None:
        with pytest.raises(StoreUnavailable):
            await call(verb, Full())
