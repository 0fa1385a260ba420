"""The history of one channel, as far as it is to be read again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import Payload, Place
from turngate.adapters.discord.ids import time_of
from turngate.adapters.discord.normalise import sent_at
from turngate.gateway.domain.errors import Throttled, Undeliverable, Unreachable

T = TypeVar("T")

_PAGE = 100
_LONGEST_PAUSE = 60.0
_CLOCKS_DIFFER = timedelta(days=1)


class History:
    """One channel's, page by page, oldest first."""

    def __init__(self, api: Api, place: Place, after: int) -> None:
        self.place = place
        self._api = api
        self._after = after
        self._page: list[Payload] = []
        self._is_whole = False

    @property
    def next_id(self) -> int | None:
        """Of the oldest that was not taken; None if there is none left."""
        return int(self._page[-1]["id"]) if self._page else None

    async def begin(self) -> None:
        """Look at the first page. Of a channel that is closed to us nothing is there."""
        try:
            await self._turn_page()
        except Undeliverable:
            self._is_whole = True

    async def take(self) -> Payload:
        """The oldest. The page after it is there when this returns."""
        message = self._page.pop()
        self._after = int(message["id"])
        if not self._page and not self._is_whole:
            await self._turn_page()
        return message

    async def _turn_page(self) -> None:
        page = await self._ask({"after": self._after, "limit": _PAGE})
        self._page = sorted(page, key=lambda message: int(message["id"]), reverse=True)
        self._is_whole = len(page) < _PAGE

    async def look_back(self, since: datetime) -> None:
        """
        Where ids tell no time: take the newest page instead, of it what was said since then.

        If times tell nothing either, all of it: what is known already is not taken twice.
        """
        page = await self._newest()
        if len({message.get("timestamp") for message in page}) > 1:
            page = [message for message in page if sent_at(message) >= since]
        self._page, self._is_whole = (
            sorted(page, key=lambda message: int(message["id"]), reverse=True),
            True,
        )

    async def ids_tell_time(self) -> bool | None:
        """Discord's do, and what was said since some time is asked for by that. None if nothing here shows it."""
        page: list[Payload] = []
        with suppress(Unreachable):  # not every server can be asked this
            page = await self._newest()
        return all(map(_agrees, page)) if page else None

    async def _newest(self) -> list[Payload]:
        try:
            return await self._ask({"limit": _PAGE})
        except Undeliverable:
            return []

    async def _ask(self, query: dict[str, object]) -> list[Payload]:
        where, path = {"channel_id": self.place.channel}, "/channels/{channel_id}/messages"
        return await patiently(lambda: self._api.objects("GET", path, where, query=query))


def _agrees(message: Payload) -> bool:
    """Whether its id tells the time at which it was sent."""
    return abs(time_of(int(message["id"])) - sent_at(message)) < _CLOCKS_DIFFER


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """A question may be asked again after the pause that Discord wants."""
    while True:
        try:
            return await ask()
        except Throttled as exc:
            if exc.retry_after > _LONGEST_PAUSE:
                raise
            await asyncio.sleep(exc.retry_after)
