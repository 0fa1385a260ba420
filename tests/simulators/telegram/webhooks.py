"""Updates delivered to where bots want them: https://core.telegram.org/bots/api#setwebhook"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from tests.simulators.common import Call, Json
from tests.simulators.faults import Faults
from tests.simulators.telegram.queue import Update
from tests.simulators.telegram.server import Server
from tests.simulators.telegram.world import Bot

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - its name
LONGEST_PAUSE = 60.0
PATIENCE = 30.0


@dataclass(slots=True)
class _Waiting:
    """An update that was not taken, and when it is tried again."""

    pause: float
    until: float


class Deliveries:
    """One update of a chat at a time, again and again with growing pauses, until it is taken or a day old."""

    def __init__(self, server: Server) -> None:
        self.faults = Faults({})
        self._server = server
        self._done: list[dict[str, object]] = []
        self._waiting: dict[Update, _Waiting] = {}

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """While the block runs."""
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            task = asyncio.create_task(self._deliver_all(http))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})

    async def shown(self, server: Server, bot: Bot, call: Call) -> Json:
        """Every attempt: which update, and what came back."""
        return [each for each in self._done if each["account"] == bot.account]

    async def _deliver_all(self, http: aiohttp.ClientSession) -> None:
        while True:
            busy = False
            for bot in self._server.bots.values():
                update = self._next(bot) if bot.webhook.url else None
                if update is not None:
                    await self._deliver(http, bot, update)
                    busy = True
            if not busy:
                await asyncio.sleep(0.01)

    def _next(self, bot: Bot) -> Update | None:
        """The oldest that may go now. What waits holds up its own chat only."""
        now, held = time.monotonic(), set()
        for update in bot.queue.pending:
            chat = update.about[0] if update.about else None
            waiting = self._waiting.get(update)
            if chat not in held and (waiting is None or waiting.until <= now):
                return update
            held.add(chat)
        return None

    async def _deliver(self, http: aiohttp.ClientSession, bot: Bot, update: Update) -> None:
        chat = str(update.about[0]) if update.about else ""
        facts = {"method": "webhook", "does": "receive", "account": bot.account, "chat": chat}
        fault = self.faults.take(facts)
        if fault is not None and fault.kind == "duplicate":
            bot.queue.again(update)
        headers = {SECRET_HEADER: bot.webhook.secret} if bot.webhook.secret else {}
        status, trouble = await self._post(http, bot.webhook.url, update, headers)
        if fault is not None and fault.kind == "lost answer":
            status, trouble = 0, "Connection reset by peer"
        self._done.append({"account": bot.account, "update": update.id, "status": status, "at": time.time()})
        if update not in bot.queue.pending:
            return
        if 200 <= status < 300:
            bot.queue.settle(update, "acknowledged")
            self._waiting.pop(update, None)
            return
        bot.webhook.last_error = (self._server.clock.now(), trouble)
        waited = self._waiting.get(update)
        pause = min(waited.pause * 2 if waited else self._server.webhook_pause, LONGEST_PAUSE)
        self._waiting[update] = _Waiting(pause, time.monotonic() + pause)

    @staticmethod
    async def _post(http: aiohttp.ClientSession, url: str, update: Update, headers: dict[str, str]) -> tuple[int, str]:
        try:
            async with http.post(url, json=update.as_json(), headers=headers, allow_redirects=False) as response:
                return response.status, f"Wrong response from the webhook: {response.status} {response.reason}"
        except (aiohttp.ClientError, TimeoutError) as exc:
            return 0, str(exc) or "Connection timed out"
