"""
Simulators at work, in this process or in one of their own, behind the same `Remote`.

    async with in_process(Simulator(platform)) as sim:                     # quick; shares the event
    loop of the test
    async with as_process("tests.simulators.scripted", "--lossy") as sim:  # survives whatever the
    test does to itself
        await sim.say("hello", chat="7", user="ann")
        await sim.fault("reset", does="send")
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from tests.simulators.common import CONTROL, Simulator

PATIENCE = 30.0
"""
Seconds for whatever must happen soon. A test that waits in vain fails after them; none takes that
long otherwise.
"""

Answer = Any


class Remote:
    """A simulator, wherever it runs, as tests see it. `common.py` says what each deed does."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self._http = http

    async def say(self, text: str, *, chat: str | None, user: str | None, **more: object) -> str:
        """
        A person writes; returns what the platform calls it. `file` is a name and its bytes, or as
        it is in JSON.
        """
        if isinstance(more.get("file"), tuple):
            name, content = more["file"]  # type: ignore[misc]
            more["file"] = {
                "name": name,
                "mime": "text/plain",
                "content": base64.b64encode(content).decode(),
            }
        return str((await self.do("say", text=text, chat=chat, user=user, **more))["id"])

    async def messages(self, account: str = "main") -> list[dict[str, Answer]]:
        """What people see of the bot, oldest first."""
        return await self.do("messages", account=account)

    async def texts(self, account: str = "main") -> list[str]:
        """The words alone."""
        return [message["text"] for message in await self.messages(account)]

    async def updates(self, account: str = "main") -> list[dict[str, Answer]]:
        """What people did, and how far it has come."""
        return await self.do("updates", account=account)

    async def do(self, deed: str, **what: object) -> Answer:
        """Anything that people can do."""
        return await self._ask("POST", deed, what)

    async def fault(
        self,
        kind: str,
        *,
        times: int | None = 1,
        skip: int = 0,
        after: bool | None = None,
        retry_after: float = 1.0,
        everywhere: bool = False,
        seconds: float = 0.05,
        says: str = "",
        **match: object,
    ) -> None:
        """Let something go wrong with the calls that match."""
        rule = {"kind": kind, "match": match, "times": times, "skip": skip, "after": after}
        rule |= {
            "retry_after": retry_after,
            "everywhere": everywhere,
            "seconds": seconds,
            "says": says,
        }
        await self._ask("POST", "faults", rule)

    async def heal(self) -> None:
        """Nothing goes wrong any more."""
        await self._ask("DELETE", "faults")

    async def calls(self, **match: str) -> list[dict[str, Answer]]:
        """What the bot asked for."""
        return await self._ask("GET", "calls", query=match)

    async def violations(self) -> list[dict[str, Answer]]:
        """What no correct bot would have asked for."""
        return await self._ask("GET", "violations")

    async def rules(self) -> list[dict[str, Answer]]:
        """What is enforced."""
        return await self._ask("GET", "rules")

    async def connections(self) -> int:
        """How many connections of bots are open."""
        return await self._ask("GET", "connections")

    async def until(self, holds: Callable[[], Awaitable[object]]) -> None:
        """Ask again and again until it is so."""
        async with asyncio.timeout(PATIENCE):
            while not await holds():
                await asyncio.sleep(0.005)

    async def until_shown(self, *texts: str, account: str = "main") -> None:
        """Wait until people see exactly this."""

        async def is_shown() -> bool:
            return await self.texts(account) == list(texts)

        await self.until(is_shown)

    async def _ask(
        self, method: str, name: str, body: object = None, query: dict[str, str] | None = None
    ) -> Answer:
        async with self._http.request(
            method, self.url + CONTROL + name, json=body, params=query
        ) as response:
            answer = await response.json()
            if response.status != 200:
                raise ValueError(answer["error"])
            return answer


@asynccontextmanager
async def in_process(simulator: Simulator) -> AsyncIterator[Remote]:
    """On this event loop, until the block is left."""
    async with _listening(simulator, 0) as url, _remote(url) as remote:
        yield remote


@asynccontextmanager
async def as_process(module: str, *arguments: str) -> AsyncIterator[Remote]:
    """As `python -m module`, until the block is left; it prints its address."""
    command = [sys.executable, "-m", module, *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().strip()
        if not url:
            raise RuntimeError(f"{module} ended before it said where it is")
        async with _remote(url) as remote:
            yield remote
    finally:
        process.kill()
        await process.communicate()


async def serve(simulator: Simulator, port: int) -> None:
    """Be a process: print the address and answer until ended."""
    async with _listening(simulator, port) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def _listening(simulator: Simulator, port: int) -> AsyncIterator[str]:
    # Handlers end with their callers: one that never answers would else hold up the end.
    runner = web.AppRunner(
        simulator.application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.05
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        host, taken = runner.addresses[0][:2]
        simulator.url = f"http://{host}:{taken}"
        async with simulator.at_work():
            yield simulator.url
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _remote(url: str) -> AsyncIterator[Remote]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE)) as http:
        yield Remote(url, http)
