"""
The same load through Telegram: `turngate run` with the real aiogram, and the least that a Bot API
server must do.

Not the simulator of the tests: that one looks at every parameter, and would be slower than what it
is to measure.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import time

from aiohttp import web

from tests.benchmarks.load.driver import People, Said, started

TOKEN = "42:load"  # noqa: S105 - of a bot that is nowhere
_BOT = {"id": 42, "is_bot": True, "first_name": "Load", "username": "load_bot"}
_MOST_AT_ONCE = 100


class BotApi:
    """What was said waits here until it is confirmed."""

    def __init__(self) -> None:
        self._updates: deque[dict[str, object]] = deque()
        self._news = asyncio.Event()
        self._numbers = self._sent = 0
        self.people: People | None = None

    def say(self, said: Sequence[Said]) -> None:
        """Each is an update."""
        for _, chat, text in said:
            self._numbers += 1
            person = {"id": int(chat), "first_name": f"P {chat}"}
            message = {
                "message_id": self._numbers,
                "date": int(time()),
                "chat": {**person, "type": "private"},
                "from": {**person, "is_bot": False},
                "text": text,
            }
            self._updates.append({"update_id": self._numbers, "message": message})
        self._news.set()

    async def answer(self, request: web.Request) -> web.Response:
        """Any method."""
        method, asked = request.match_info["method"], await request.post()
        if method == "getMe":
            return _result(_BOT)
        if method == "getUpdates":
            return _result(
                await self._get(int(asked.get("offset", 0)), float(asked.get("timeout", 0)))
            )
        if method in ("sendMessage", "editMessageText"):
            return _result(self._take(str(asked["chat_id"]), str(asked.get("text", ""))))
        return _result(True)

    async def _get(self, offset: int, timeout: float) -> list[dict[str, object]]:
        confirmed = 0
        while self._updates and self._updates[0]["update_id"] < offset:  # type: ignore[operator]
            self._updates.popleft()
            confirmed += 1
        if self.people is not None:
            self.people.is_stored(confirmed)
        if not self._updates and timeout:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), timeout)
            except TimeoutError:
                return []
        return [self._updates[number] for number in range(min(_MOST_AT_ONCE, len(self._updates)))]

    def _take(self, chat: str, text: str) -> dict[str, object]:
        self._sent += 1
        if self.people is not None and not text.endswith("…"):
            self.people.hear(chat, text)
        chat_ = {"id": int(chat), "type": "private", "first_name": "P"}
        return {
            "message_id": 1_000_000_000 + self._sent,
            "date": int(time()),
            "chat": chat_,
            "text": text,
        }


def _result(value: object) -> web.Response:
    return web.json_response({"ok": True, "result": value})


@asynccontextmanager
async def through_telegram(folder: Path) -> AsyncIterator[People]:
    """The daemon at work, until the block is left."""
    api = BotApi()
    app = web.Application()
    app.router.add_post("/bot{token}/{method}", api.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config = folder / "turngate.yaml"
    config.write_text(
        f"platforms: {{telegram: [{{token: '{TOKEN}', api_url: '{address}'}}]}}\n"
        "web: {listen: null}\naccess: {direct: open-dangerously}\nlog: {level: warning}\n"
        "agents: {main: {kind: python, object: 'tests.benchmarks.load.daemon:Waiting', "
        "repeatable: true}}\n"
    )
    command = [
        sys.executable,
        "-m",
        "gateway",
        "run",
        "--config",
        str(config),
        "--state-dir",
        str(folder / "state"),
    ]
    try:
        async with started(*command) as daemon:
            api.people = People(api.say, daemon.pid, folder / "state")
            yield api.people
    finally:
        await runner.cleanup()
