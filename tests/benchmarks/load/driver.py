"""
The people's side: starts the gateway, says things, and knows how long each of them waited for its
answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.commands import ROOT

Said = tuple[str, str, str]
"""The id of a message, its chat, its text."""

_LONGEST_LINE = 1 << 26
PATIENCE = 600.0


@dataclass(slots=True)
class People:
    """
    What was said and not answered yet, by the id of the message; and how long the others took.
    """

    tell: Callable[[Sequence[Said]], None]
    pid: int
    state: Path
    stored: int = 0
    answers: int = 0
    waiting: dict[str, float] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    twice: int = 0
    took: dict[str, list[float]] = field(default_factory=dict)
    tasks: int = 0
    ask: Callable[[], None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def say(self, said: Sequence[Said]) -> None:
        """
        All at once. A text begins with its id, and an answer is known by what it repeats of it.
        """
        now = time.monotonic()
        self.waiting.update((id_, now) for id_, _, _ in said)
        self.tell([(id_, chat, f"{id_} {text}") for id_, chat, text in said])

    def hear(self, chat: str, text: str) -> None:
        """An answer may be to several messages."""
        self.answers += 1
        now = time.monotonic()
        for word in text.split():
            since = self.waiting.pop(word, None)
            self.twice += word in self.answered
            if since is not None:
                self.answered.add(word)
                self.took.setdefault(chat, []).append(now - since)
        self._changed.set()

    def has_tasks(self, count: int) -> None:
        """So many tasks there are."""
        self.tasks = count
        self._changed.set()

    def is_stored(self, count: int) -> None:
        """So many more were acknowledged."""
        self.stored += count
        self._changed.set()

    async def until(self, most_waiting: int) -> None:
        """Until no more than so many have no answer."""
        await self._until(lambda: len(self.waiting) <= most_waiting)

    async def until_answered(self, ids: Collection[str]) -> None:
        """Until all of these have one."""
        await self._until(lambda: self.waiting.keys().isdisjoint(ids))

    async def until_stored(self, count: int) -> None:
        """Until so many were acknowledged, in all."""
        await self._until(lambda: self.stored >= count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                changed = self._changed
                await changed.wait()
                if changed is self._changed:
                    self._changed = asyncio.Event()

    async def count_tasks(self) -> int:
        """How many tasks the gateway has, if it can be asked."""
        if self.ask is not None:
            self.tasks = 0
            self.ask()
            await self._until(lambda: self.tasks > 0)
        return self.tasks

    def use(self) -> dict[str, float]:
        """What the gateway's process has now, and the most memory it ever had."""
        folder = Path("/proc", str(self.pid))
        kb = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        spent = (folder / "stat").read_text().rpartition(")")[2].split()
        return {
            "mb": int(kb["VmRSS"].split()[0]) / 1000,
            "most_mb": int(kb["VmHWM"].split()[0]) / 1000,
            "files": len(list((folder / "fd").iterdir())),
            "cpu": (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK"),
        }


@asynccontextmanager
async def gateway(folder: Path, *arguments: str) -> AsyncIterator[People]:
    """
    A gateway at work with the load's own platform, until the block is left; then it is stopped in
    order.
    """
    socket, state, met = (
        folder / "load.sock",
        folder / "state",
        asyncio.get_running_loop().create_future(),
    )
    server = await asyncio.start_unix_server(
        lambda reader, writer: met.set_result((reader, writer)), socket, limit=_LONGEST_LINE
    )
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.load.daemon",
        "--state-dir",
        str(state),
        "--socket",
        str(socket),
    ]
    async with started(*command, *arguments) as daemon:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await met
        people = People(lambda said: _write(writer, {"say": said}), daemon.pid, state)
        people.ask = lambda: _write(writer, {"tasks": True})
        listening = asyncio.create_task(_listen(reader, people))
        yield people
    await listening
    writer.close()
    server.close()


@asynccontextmanager
async def started(*command: str, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process, until the block is left; then it is stopped in order."""
    daemon = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env={**os.environ, **env})
    try:
        yield daemon
        daemon.send_signal(signal.SIGTERM)
        await daemon.wait()
    finally:
        if daemon.returncode is None:
            daemon.kill()
            await daemon.wait()


def percentile(values: Sequence[float], share: float) -> float:
    """Of at least one."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def _write(writer: asyncio.StreamWriter, what: dict[str, object]) -> None:
    writer.write(json.dumps(what).encode() + b"\n")


async def _listen(reader: asyncio.StreamReader, people: People) -> None:
    """Until the gateway hangs up."""
    async for line in reader:
        told = json.loads(line)
        if "tasks" in told:
            people.has_tasks(told["tasks"])
        elif "stored" in told:
            people.is_stored(told["stored"])
        else:
            people.hear(told["sent"], told["text"])
