"""After a crash: one suspect at a time, then everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.hurry import hurried
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.turns.quarantine import Quarantine

ONE, TWO = TurnId(1), TurnId(2)


class House:
    """A quarantine, the turns that run in it, and when each began."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.quarantine = Quarantine(self._end_alone, tasks)
        self.tasks = tasks
        self.not_alone: list[TurnId] = []
        self.began: list[tuple[str, float, bool]] = []
        self.most = 0
        self._running = 0

    async def _end_alone(self, turn: TurnId) -> None:
        self.not_alone.append(turn)

    def run(
        self, name: str, turn: TurnId | None = None, *, takes: float, attempts: int = 1
    ) -> asyncio.Task[None]:
        return self.tasks.create_task(self._run(name, turn, takes, attempts))

    async def _run(self, name: str, turn: TurnId | None, takes: float, attempts: int) -> None:
        async with self.quarantine.enter(turn, attempts) as probation:
            now = asyncio.get_running_loop().time()
            self.began.append((name, round(now, 3), probation.is_alone))
            self._running += 1
            self.most = max(self.most, self._running)
            await asyncio.sleep(takes)
            self._running -= 1


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    async with asyncio.TaskGroup() as tasks:
        yield House(tasks)


@hurried
async def test_without_a_crash_everything_runs_at_once() -> None:
    async with house() as at:
        at.quarantine.begin([], crashes=0)
        at.run("a", ONE, takes=1)
        at.run("b", takes=1)

    assert [(name, alone) for name, _, alone in at.began] == [("a", False), ("b", False)]
    assert at.most == 2


@hurried
async def test_suspects_run_one_at_a_time_and_others_after_them() -> None:
    async with house() as at:
        at.quarantine.begin([ONE, TWO], crashes=1)
        at.run("new", takes=1)
        at.run("two", TWO, takes=1)
        at.run("one", ONE, takes=1)

    assert [(name, alone) for name, _, alone in at.began] == [
        ("one", True),
        ("two", True),
        ("new", False),
    ]
    assert at.most == 1
    assert at.not_alone == []


@hurried
async def test_a_suspect_that_survives_is_cleared_and_the_next_one_is_not_alone() -> None:
    async with house() as at:
        at.quarantine.begin([ONE, TWO], crashes=1)
        at.run("one", ONE, takes=60)
        at.run("two", TWO, takes=1)
        at.run("new", takes=1)

    assert [(name, alone) for name, _, alone in at.began] == [
        ("one", True),
        ("two", False),
        ("new", False),
    ]
    assert at.not_alone == [ONE]
    assert at.began[1][1] - at.began[0][1] == pytest.approx(5)


@hurried
async def test_a_suspect_is_alone_for_longer_after_each_crash() -> None:
    async with house() as at:
        at.quarantine.begin([ONE], crashes=1)
        at.run("one", ONE, takes=60, attempts=3)
        at.run("new", takes=1)

    assert at.began[1][1] - at.began[0][1] == pytest.approx(20)


@hurried
async def test_a_crash_loop_backs_off() -> None:
    begins = []
    for crashes in (1, 2, 3, 4, 20):
        async with house() as at:
            start = asyncio.get_running_loop().time()
            at.quarantine.begin([ONE], crashes=crashes)
            at.run("one", ONE, takes=1)
        begins.append(at.began[0][1] - start)

    assert begins == pytest.approx([0.5, 2, 8, 10, 10], abs=0.01)


@hurried
async def test_a_crash_loop_without_suspects_backs_off_too() -> None:
    begins = []
    for crashes in (1, 2, 3, 20):
        async with house() as at:
            start = asyncio.get_running_loop().time()
            at.quarantine.begin([], crashes=crashes)
            at.run("new", takes=1)
        begins.append(at.began[0][1] - start)

    assert begins == pytest.approx([0, 2, 8, 10], abs=0.01)


@hurried
async def test_a_suspect_that_does_not_run_holds_nothing_back() -> None:
    async with house() as at:
        at.quarantine.begin([ONE], crashes=1)
        at.run("new", takes=1)
        at.quarantine.clear(ONE)

    assert [name for name, _, _ in at.began] == ["new"]
