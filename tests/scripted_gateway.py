"""
A stand-in for the gateway behind a real control socket, a real store and real screens: it answers
by a script.

Started as a program with a state folder, it holds the lock like a daemon until its input ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from turngate.adapters.screens import Screens
from turngate.gateway.daemon.control.chat import chat_requests
from turngate.gateway.daemon.control.chat_events import ChatCommand
from turngate.gateway.daemon.control.requests import Args, Line
from turngate.gateway.daemon.control.server import ControlServer
from turngate.gateway.daemon.control.sessions import session_requests
from turngate.gateway.daemon.control.status import DaemonStatus, status_requests
from turngate.gateway.daemon.state_dir import StateDir, take_lock
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.ids import (
    PartId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import (
    LOCAL_PLATFORM,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import Text
from turngate.gateway.stores.sqlite import SqliteStore

COMMANDS = (
    ChatCommand(name="help", summary="what can be said"),
    ChatCommand(name="new", summary="start anew"),
    ChatCommand(name="stop", summary="end the answer"),
)
PIECES = 7


class Script:
    """What takes the place of the pipeline."""

    def __init__(self, screens: Screens) -> None:
        self._screens = screens
        self._turns = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    async def receive(self, message: InboundMessage) -> None:
        """A command is answered at once, anything else by a turn."""
        if message.text.startswith("refuse"):
            raise Refused("not now; say it later")
        task = asyncio.create_task(self._answer(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: InboundMessage) -> None:
        if message.text.startswith("/"):
            await self._command(message)
        else:
            await self._turn(message)
        self._screens.settled(message.source, [message.id])

    async def _command(self, message: InboundMessage) -> None:
        if message.text == "/stop":
            self._stopped.set()
        await self._send(message, f"**{message.text}** was done", None)

    async def _turn(self, message: InboundMessage) -> None:
        self._turns += 1
        turn, target = TurnId(self._turns), message.source
        self._screens.turn_began(target, turn, [message.id])
        if message.text == "tool":
            for status in (ToolStatus.STARTED, ToolStatus.DONE):
                tool = Tool(id="t", name="look", title="README.md", status=status)
                self._screens.turn_event(target, turn, tool)
        answer = f"You said: {message.text}"
        for start in range(0, len(answer), PIECES):
            self._screens.turn_event(target, turn, Text(answer[start : start + PIECES]))
            await asyncio.sleep(0)
        if message.text == "slow":
            self._stopped.clear()
            await self._stopped.wait()
            answer += " (incomplete)"
        await self._send(message, answer, turn)

    async def _send(self, message: InboundMessage, text: str, turn: TurnId | None) -> None:
        await self._screens.send(
            Part(id=PartId(1), target=message.source, text=text, turn=turn, reply_to=message.id)
        )


async def _web_link(args: Args, line: Line) -> Json:
    return {"url": "http://127.0.0.1:8765/enter/once"}


async def _stop(key: SessionKey) -> None:
    """No turn of this gateway belongs to a session of the store."""


@asynccontextmanager
async def answering(state: StateDir, store: Store) -> AsyncIterator[None]:
    """Behind the control socket of a folder that the caller has locked."""
    clock = SystemClock()
    screens = Screens(LOCAL_PLATFORM, lambda name: SessionSource.terminal(name or None), clock)
    running = asyncio.create_task(screens.run(Script(screens).receive))
    await asyncio.sleep(0)
    daemon = DaemonStatus(ready=True, since=clock.now(), pid=os.getpid())

    async def as_known() -> DaemonStatus:
        return daemon

    requests = {
        **session_requests(store, _stop),
        **status_requests(store, as_known),
        **chat_requests(screens, COMMANDS),
        "web.link": _web_link,
    }
    async with ControlServer(state.control_socket, requests):
        yield
    running.cancel()


async def main(folder: Path) -> None:
    """Until standard input ends."""
    with take_lock(folder) as lock:
        store = await SqliteStore.connect(lock.state.database, SystemClock())
        async with answering(lock.state, store):
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.read)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
