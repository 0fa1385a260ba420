"""The people's side: starts the gateway, says things, and knows how long each of them waited for its answer."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.commands import ROOT

_LONGEST_LINE = 1 << 26
PATIENCE = 300.0


@dataclass(slots=True)
class People:
    """What was said and not answered yet, by the id of the message; and how long the others took."""

    writer: asyncio.StreamWriter
    daemon: asyncio.subprocess.Process
    state: Path
    stored: int = 0
    answers: int = 0
    refusals: int = 0
    waiting: dict[str, float] = field(default_factory=dict)
    took: dict[str, list[float]] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _how: dict[int, asyncio.Future[dict[str, float]]] = field(default_factory=dict)

    def say(self, said: Sequence[tuple[str, str, str]]) -> None:
        """Ids, chats and texts, all at once. A text begins with its id."""
        now = time.monotonic()
        self.waiting.update((id_, now) for id_, _, _ in said)
        self._tell({"say": [(id_, chat, f"{id_} {text}") for id_, chat, text in said]})

    async def how(self) -> dict[str, float]:
        """What the gateway's process uses."""
        number = len(self._how)
        answer = self._how[number] = asyncio.get_running_loop().create_future()
        self._tell({"how": number})
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def until(self, most_waiting: int) -> None:
        """Until no more than so many have no answer."""
        async with asyncio.timeout(PATIENCE):
            while len(self.waiting) > most_waiting:
                self.changed.clear()
                await self.changed.wait()

    async def listen(self, reader: asyncio.StreamReader) -> None:
        """Until the gateway hangs up."""
        async for line in reader:
            told = json.loads(line)
            if "how" in told:
                self._how[told["how"]].set_result(told)
            elif "stored" in told:
                self.stored += len(told["stored"])
            else:
                self._hear(told["sent"], told["text"])
            self.changed.set()

    def _tell(self, what: dict[str, object]) -> None:
        self.writer.write(json.dumps(what).encode() + b"\n")

    def _hear(self, chat: str, text: str) -> None:
        """An answer may be to several messages."""
        self.answers += 1
        now = time.monotonic()
        for word in text.split():
            since = self.waiting.pop(word, None)
            if since is not None:
                self.took.setdefault(chat, []).append(now - since)


@asynccontextmanager
async def gateway(folder: Path, *arguments: str) -> AsyncIterator[People]:
    """A gateway at work, until the block is left; then it is stopped in order."""
    socket, state, met = folder / "load.sock", folder / "state", asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(
        lambda reader, writer: met.set_result((reader, writer)), socket, limit=_LONGEST_LINE
    )
    command = [sys.executable, "-m", "tests.benchmarks.load.daemon", "--state-dir", str(state), "--socket", str(socket)]
    daemon = await asyncio.create_subprocess_exec(*command, *arguments, cwd=ROOT)
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await met
        people = People(writer, daemon, state)
        listening = asyncio.create_task(people.listen(reader))
        yield people
        daemon.send_signal(signal.SIGTERM)
        await daemon.wait()
        await listening
        writer.close()
    finally:
        if daemon.returncode is None:
            daemon.kill()
            await daemon.wait()
        server.close()


def percentile(values: Sequence[float], share: float) -> float:
    """Of at least one."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
