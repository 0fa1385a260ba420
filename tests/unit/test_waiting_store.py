"""Waiting for a store that cannot write now."""

from __future__ import annotations

import asyncio

import pytest

from tests.hurry import hurried
from turngate.gateway.domain.errors import StoreDamaged, StoreUnavailable, UnknownSession
from turngate.gateway.observability.observer import Observer
from turngate.gateway.stores.waiting_store import until_stored


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

        assert await until_stored(disk.write, Observer()) == "written"
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
            await until_stored(disk.write, Observer())
        assert disk.tried_at == [0.0]
