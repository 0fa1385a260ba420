"""Updates delivered to where bots want them: https://core.telegram.org/bots/api#setwebhook"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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
    """
    One update of a chat at a time, again and again with growing pauses, until it is taken or a day
    old.
    """

    def __init__(self, server: Server) -> None:
        self.faults = Faults({})
        self._server = server
        self._done: list[dict[str, object]] = []
        self._waiting: dict[Update, _Waiting] = {}
        self._busy: set[str] = set()
        self._held_back: set[Update] = set()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """While the block runs."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE)) as http:
            task = asyncio.create_task(self._deliver_all(http))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def shown(self, server: Server, bot: Bot, call: Call) -> Json:
        """Every attempt: which update, and what came back."""
        return [each for each in self._done if each["account"] == bot.account]

    async def _deliver_all(self, http: aiohttp.ClientSession) -> None:
        """For each bot one delivery at a time: one that hangs holds up no other bot."""
        news = self._server.news
        async with asyncio.TaskGroup() as tasks:
            while True:
                news.clear()
                for bot in [
                    bot for bot in self._server.bots.values() if bot.account not in self._busy
                ]:
                    for update in self._next(bot):
                        self._busy.add(bot.account)
                        tasks.create_task(self._deliver(http, bot, update))
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._until_next()):
                        await news.wait()

    def _until_next(self) -> float | None:
        """Seconds until something is to be tried again."""
        idle = [
            bot
            for bot in self._server.bots.values()
            if bot.webhook.url and bot.account not in self._busy
        ]
        waiting = [
            self._waiting[each].until
            for bot in idle
            for each in bot.queue.pending
            if each in self._waiting
        ]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _next(self, bot: Bot) -> list[Update]:
        """The oldest that may go now, if there is one. What waits holds up its own chat only."""
        now, held = time.monotonic(), set()
        pending = bot.queue.pending if bot.webhook.url else []
        for update in [each for each in pending if each not in self._held_back] or pending:
            chat = update.about[0] if update.about else None
            waiting = self._waiting.get(update)
            if chat not in held and (waiting is None or waiting.until <= now):
                return [update]
            held.add(chat)
        return []

    async def _deliver(self, http: aiohttp.ClientSession, bot: Bot, update: Update) -> None:
        try:
            fault = self._fault(bot, update)
            if fault == "reorder":
                self._held_back.add(update)
                return
            status, trouble = await self._attempt(http, bot, update, fault)
        finally:
            self._busy.discard(bot.account)
            self._server.news.set()
        attempt = {"account": bot.account, "update": update.id, "status": status, "pause": None}
        self._done.append(attempt)
        waited = self._waiting.pop(update, None)
        if update not in bot.queue.pending:
            return
        if 200 <= status < 300:
            bot.queue.settle(update, "acknowledged")
            self._held_back.clear()
            return
        bot.webhook.last_error = (self._server.clock.now(), trouble)
        pause = min(waited.pause * 2 if waited else self._server.webhook_pause, LONGEST_PAUSE)
        attempt["pause"] = pause
        self._waiting[update] = _Waiting(pause, time.monotonic() + pause)

    def _fault(self, bot: Bot, update: Update) -> str | None:
        chat = str(update.about[0]) if update.about else ""
        fault = self.faults.take(
            {"method": "webhook", "does": "receive", "account": bot.account, "chat": chat}
        )
        return fault.kind if fault is not None else None

    async def _attempt(
        self, http: aiohttp.ClientSession, bot: Bot, update: Update, fault: str | None
    ) -> tuple[int, str]:
        """The status, and what is told of it; 0 where none came."""
        if fault == "reset":
            return 0, "Connection reset by peer"
        if fault == "duplicate":
            bot.queue.again(update)
        headers = {SECRET_HEADER: bot.webhook.secret} if bot.webhook.secret else {}
        answer = await self._post(http, bot.webhook.url, update, headers)
        return (0, "Connection reset by peer") if fault == "lost answer" else answer

    @staticmethod
    async def _post(
        http: aiohttp.ClientSession, url: str, update: Update, headers: dict[str, str]
    ) -> tuple[int, str]:
        try:
            async with http.post(
                url, json=update.as_json(), headers=headers, allow_redirects=False
            ) as response:
                return (
                    response.status,
                    f"Wrong response from the webhook: {response.status} {response.reason}",
                )
        except (aiohttp.ClientError, TimeoutError) as exc:
            return 0, str(exc) or "Connection timed out"
