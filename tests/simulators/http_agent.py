"""
A service that an agent of the kind `http` talks to, on loopback: whatever a test wants it to
answer, and a record of what it was told.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Document = dict[str, object]
Answer = Callable[[web.Request, Document], Awaitable[web.StreamResponse]]


@dataclass
class Service:
    """
    `answer` gives the response to a turn; `told` is what was posted to the address for answers.
    """

    answer: Answer
    url: str = ""
    turns: list[Document] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    told: list[Document] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    refuse_answers: int | None = None
    working: int = 0

    async def until_told(self, count: int) -> list[Document]:
        """Wait for that many."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: len(self.told) >= count)
        return self.told

    async def _turn(self, request: web.Request) -> web.StreamResponse:
        self.turns.append(await request.json())
        self.headers.append(dict(request.headers))
        self.working += 1
        try:
            return await self.answer(request, self.turns[-1])
        finally:
            self.working -= 1

    async def _answers(self, request: web.Request) -> web.StreamResponse:
        self.told.append(await request.json())
        self.paths.append(request.path)
        self.headers.append(dict(request.headers))
        async with self.arrived:
            self.arrived.notify_all()
        return web.Response(status=self.refuse_answers or 204)


@asynccontextmanager
async def service(answer: Answer) -> AsyncIterator[Service]:
    """At work below `url`, which ends in /turn; /turn/answers and /elsewhere hear answers."""
    serving = Service(answer)
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_post("/turn", serving._turn)
    for path in ("/turn/answers", "/elsewhere"):
        app.router.add_post(path, serving._answers)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    serving.url = f"http://127.0.0.1:{runner.addresses[0][1]}/turn"
    try:
        yield serving
    finally:
        await runner.cleanup()


async def streaming(
    request: web.Request, kind: str = "text/event-stream", **headers: str
) -> web.StreamResponse:
    """A response that has begun."""
    response = web.StreamResponse(headers={"Content-Type": kind} | headers)
    await response.prepare(request)
    return response


async def say(response: web.StreamResponse, **event: object) -> None:
    """One event of a stream."""
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


def hang_up(request: web.Request) -> None:
    """As if the service had died."""
    assert request.transport is not None
    request.transport.abort()
