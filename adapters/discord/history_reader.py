"""Reads the history of one channel during catch-up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import Channel
from turngate.adapters.discord.ids import time_of
from turngate.adapters.discord.json_fields import Payload, number_of
from turngate.adapters.discord.normalise import sent_at
from turngate.gateway.domain.errors import (
    Throttled,
    Undeliverable,
    Unreachable,
)

T = TypeVar("T")

_PAGE = 100
_LONGEST_PAUSE = 60.0
_CLOCKS_DIFFER = timedelta(days=1)


class History:
    """The history of one channel, page by page, oldest first."""

    def __init__(self, api: Api, chat: Channel, after: int) -> None:
        self.chat = chat
        self._api = api
        self._after = after
        self._page: list[Payload] = []
        self._is_whole = False
        self.is_cut = False

    @property
    def next_id(self) -> int | None:
        """
        Id of the oldest message not taken; None if there is none. One whose id cannot be read comes
        first.
        """
        return number_of(self._page[-1]) if self._page else None

    async def begin(self) -> None:
        """Load the first page. A channel the bot may not read is empty."""
        try:
            await self._load_page()
        except Undeliverable:
            self._is_whole = True

    async def take(self) -> Payload:
        """Return the oldest message, and load the next page if needed."""
        message = self._page.pop()
        self._after = max(self._after, number_of(message))
        if not self._page and not self._is_whole:
            await self._load_page()
        return message

    async def _load_page(self) -> None:
        page = await self._ask({"after": self._after, "limit": _PAGE})
        self._page = sorted(page, key=number_of, reverse=True)
        self._is_whole = len(page) < _PAGE

    async def load_newest(self, since: datetime) -> None:
        """
        Load the newest page and filter it by time, for servers whose ids contain no time.

        If the timestamps are all equal, keep all of it: known messages are deduped. A page that
        does not reach back far enough is all there is: then the history `is_cut`.
        """
        page = await self._newest()
        is_full = len(page) >= _PAGE
        if len({message.get("timestamp") for message in page}) > 1:
            page = [each for each in page if not number_of(each) or sent_at(each) >= since]
            self.is_cut = is_full and len(page) >= _PAGE
        self._page = sorted(page, key=number_of, reverse=True)
        self._is_whole = True

    async def has_timed_ids(self) -> bool | None:
        """Check whether ids contain the time of the message. None if there are no messages."""
        page: list[Payload] = []
        # Some servers do not support this query.
        with suppress(Unreachable):
            page = await self._newest()
        readable = list(filter(number_of, page))
        return all(map(_agrees, readable)) if readable else None

    async def _newest(self) -> list[Payload]:
        try:
            return await self._ask({"limit": _PAGE})
        except Undeliverable:
            return []

    async def _ask(self, query: dict[str, object]) -> list[Payload]:
        where = {"channel_id": self.chat.channel}
        path = "/channels/{channel_id}/messages"
        return await retry_throttled(lambda: self._api.objects("GET", path, where, query=query))


def _agrees(message: Payload) -> bool:
    """Check that the id's time matches the timestamp."""
    return abs(time_of(number_of(message)) - sent_at(message)) < _CLOCKS_DIFFER


async def retry_throttled(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request after each rate limit pause, unless the pause is too long."""
    while True:
        try:
            return await ask()
        except Throttled as exc:
            if exc.retry_after > _LONGEST_PAUSE:
                raise
            await asyncio.sleep(exc.retry_after)
