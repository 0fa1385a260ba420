"""
One run of a bot at the gateway: all shards that Discord asks for; if one ends, all end.

Discord limits session starts to a thousand a day and resets the token beyond that. Discord keeps
the count, so it is read before every start and survives restarts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from turngate.adapters.discord.account import Account, Timeouts
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Cache
from turngate.adapters.discord.catch_up import CatchUp
from turngate.adapters.discord.history_reader import retry_throttled
from turngate.adapters.discord.ids import id_at
from turngate.adapters.discord.intake import Intake
from turngate.adapters.discord.json_fields import Payload
from turngate.adapters.discord.menu import offer
from turngate.adapters.discord.shard import Shard
from turngate.gateway.domain.errors import (
    NotSent,
    Retryable,
    Throttled,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.ports.clock import Clock, Moment

_RESERVE = 10
_MOST_CHECKED = 3
_LAST = 10
_GRACE = 5.0


class EventsMissing(Retryable):
    """The connection is alive but delivers no events."""


class Heartbeats:
    """
    The last sign of life, of the shard that has been silent longest.

    `began` is by Discord's clock, because it is compared with Discord's timestamps.
    """

    def __init__(self, clock: Clock, platform_clock: Clock) -> None:
        self.last: Moment | None = None
        self.began: datetime | None = None
        self._clock = clock
        self._platform_clock = platform_clock
        self._beats: dict[int, Moment] = {}
        self._shards = 0

    def begin(self, shards: int) -> None:
        """Reset for new connections."""
        self._beats = {}
        self._shards = shards
        self.began = None

    def beat(self, shard: int) -> None:
        """Note a sign of life of a shard."""
        self._beats[shard] = Moment.now(self._clock)
        if len(self._beats) == self._shards:
            self.last = min(self._beats.values(), key=lambda beat: beat.elapsed)
            self.began = self.began or self._platform_clock.now()


class Starts:
    """Spaces session starts by `every` seconds."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next_at = 0.0

    async def next(self) -> None:
        """Wait for the next allowed start."""
        now = asyncio.get_running_loop().time()
        mine = max(now, self._next_at)
        self._next_at = mine + self._every
        await asyncio.sleep(mine - now)


class Listener:
    """Receives for one bot."""

    def __init__(
        self,
        account: Account,
        timeouts: Timeouts,
        api: Api,
        cache: Cache,
        catch_up: CatchUp,
        clock: Clock,
        platform_clock: Clock,
    ) -> None:
        self.heartbeats = Heartbeats(clock, platform_clock)
        self._account = account
        self._clock = clock
        self._timeouts = timeouts
        self._api = api
        self._cache = cache
        self._catch_up = catch_up

        self._starts = Starts(timeouts.identify)

    async def listen(self, intake: Intake) -> None:
        """Receive until cancelled. Raises the gateway error that ended it."""
        url, count = _shards_of(await self._gateway(), self._clock.now())
        self.heartbeats.begin(count)
        shards = [self._shard(url, number, count, intake) for number in range(count)]
        work = (intake.until_failure(), self._check_for_missed(), *map(self._run_shard, shards))
        working = [asyncio.ensure_future(each) for each in work]

        try:
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for each in working:
                if each.done():
                    each.result()
        finally:
            for each in working:
                each.cancel()
            await asyncio.wait(working)

    async def _gateway(self) -> object:
        """Request the gateway's address; from the config if the server lacks that endpoint."""
        try:
            return await retry_throttled(lambda: self._api.call("GET", "/gateway/bot"))
        except Undeliverable:
            if self._account.gateway_url is None:
                raise
            return {"url": self._account.gateway_url}

    async def _run_shard(self, shard: Shard) -> None:
        await self._starts.next()
        await shard.listen()

    def _shard(self, url: str, number: int, count: int, intake: Intake) -> Shard:
        def on_event(event: str, payload: Payload) -> None:
            if event == "READY" and number == 0:
                self._offer_commands(intake, payload)
            intake.take(event, payload)

        return Shard(
            self._account,
            self._timeouts,
            number=number,
            count=count,
            gateway=url,
            on_event=on_event,
            beat=lambda: self.heartbeats.beat(number),
        )

    def _offer_commands(self, intake: Intake, ready: Payload) -> None:
        """Set the menu in the background: it may be slow, and nothing depends on it."""
        application = (ready.get("application") or {}).get("id")
        if application is not None and self._account.commands:
            intake.run_in_background(
                partial(offer, self._api, str(application), self._account.commands)
            )

    async def _check_for_missed(self) -> None:
        """
        Compare channel histories with received events: heartbeats can continue while events stop.
        """
        known = await self._catch_up.newest(_MOST_CHECKED)
        while True:
            await asyncio.sleep(self._timeouts.look)
            channels = dict.fromkeys((*self._cache.recent_channels(_MOST_CHECKED), *known))
            with suppress(Unreachable, NotSent, Throttled):
                if self.heartbeats.began is not None and await self._has_missed(
                    channels, self.heartbeats.began
                ):
                    raise EventsMissing(
                        "Discord keeps the connection and says nothing of what people write"
                    )

    async def _has_missed(self, channels: Iterable[str], since: datetime) -> bool:
        for channel in channels:
            newest = await self._newest_in(channel)
            if newest > max(id_at(since), self._cache.newest_in(channel)):
                # The event may still be in transit.
                await asyncio.sleep(min(_GRACE, self._timeouts.look))
                if newest > self._cache.newest_in(channel):
                    return True
        return False

    async def _newest_in(self, channel: str) -> int:
        """
        Return the newest message of other users; some servers do not echo the bot's own. 0 if it
        cannot be read.
        """
        where = {"channel_id": channel}
        path = "/channels/{channel_id}/messages"
        me = str((await self._api.me())["id"])

        try:
            page = await self._api.objects("GET", path, where, query={"limit": _LAST})
        except Undeliverable:
            return 0

        messages = (
            message for message in page if str((message.get("author") or {}).get("id")) != me
        )
        return max((int(message["id"]) for message in messages), default=0)


def _shards_of(gateway: object, now: datetime) -> tuple[str, int]:
    """Return the address and number of shards. Raises Retryable if no session starts are left."""
    match gateway:
        case {"url": str(url), "shards": int(shards), "session_start_limit": dict(limit)}:
            left = limit.get("remaining")
            milliseconds = limit.get("reset_after")
        case {"url": str(url), "shards": int(shards)}:
            return url, max(1, shards)
        case {"url": str(url)}:
            return url, 1
        case _:
            raise Unreachable("Discord has not said where its gateway is")

    if isinstance(left, int) and left < shards + _RESERVE and isinstance(milliseconds, int | float):
        until = now + timedelta(milliseconds=milliseconds)
        raise Retryable(
            f"too many sessions were begun today; Discord takes new ones at {until:%H:%M} UTC"
        )

    return url, max(1, shards)
