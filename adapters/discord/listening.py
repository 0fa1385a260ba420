"""
One run of a bot at the gateway: all shards that Discord asks for; if one ends, all end.

Discord limits session starts to a thousand a day and resets the token beyond that. Discord keeps
the count, so it is read before every start and survives restarts. When half of them are used, the
rest is spread over the rest of the day: something begins sessions again and again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from turngate.adapters.discord.account import Account, Timeouts
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Cache
from turngate.adapters.discord.catch_up import CatchUp
from turngate.adapters.discord.history_reader import retry_throttled
from turngate.adapters.discord.ids import id_at
from turngate.adapters.discord.intake import Intake
from turngate.adapters.discord.json_fields import (
    Payload,
    author_of,
    id_in,
    number_in,
    number_of,
    object_in,
)
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
# Seconds that are waited without saying so.
_SHORT = 20.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """
    Where to connect, with how many shards, and how many sessions may still be begun, of how many,
    until the count begins anew in so many seconds.
    """

    url: str
    shards: int = 1
    left: int | None = None
    total: int = 0
    renewed_in: float = 0.0


class Starts:
    """Spaces session starts by `every` seconds, and by more when few are left for the day."""

    def __init__(self, every: float, clock: Clock) -> None:
        self._every = every
        self._clock = clock
        self._next_at = 0.0
        # An earlier process may have begun one just now.
        self._last = clock.monotonic()

    def pause(self, gateway: Gateway) -> float:
        """
        Return how long to wait before the next connection. Raises Retryable if no sessions are
        left.
        """
        if gateway.left is None:
            return 0.0

        now = self._clock.now()
        if gateway.left < gateway.shards + _RESERVE:
            until = now + timedelta(seconds=gateway.renewed_in)
            raise Retryable(
                f"too many sessions were begun today; Discord takes new ones at {until:%H:%M} UTC"
            )
        if gateway.left * 2 >= gateway.total:
            return 0.0

        every = gateway.renewed_in * gateway.shards / (gateway.left - _RESERVE)
        return max(0.0, self._last + every - self._clock.monotonic())

    async def next(self) -> None:
        """Wait for the next allowed start."""
        now = asyncio.get_running_loop().time()
        mine = max(now, self._next_at)
        self._next_at = mine + self._every
        await asyncio.sleep(mine - now)
        self._last = self._clock.monotonic()


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

        self._starts = Starts(timeouts.identify, clock)

    async def listen(self, intake: Intake) -> None:
        """Receive until cancelled. Raises the gateway error that ended it."""
        gateway = _gateway_of(await self._gateway())
        await self._wait_for_a_start(gateway)
        count = gateway.shards
        self.heartbeats.begin(count)
        shards = [self._shard(gateway.url, number, count, intake) for number in range(count)]
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

    async def _wait_for_a_start(self, gateway: Gateway) -> None:
        """Wait a little; say so instead if it takes longer."""
        pause = self._starts.pause(gateway)
        if pause > _SHORT:
            at = self._clock.now() + timedelta(seconds=pause)
            raise Retryable(
                f"{gateway.left} of {gateway.total} sessions are left for today, because one is "
                f"begun too often; the next begins at {at:%H:%M} UTC"
            )
        await asyncio.sleep(pause)

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
        application = id_in(object_in(ready, "application"), "id")
        if application is not None and self._account.commands:
            intake.run_in_background(partial(offer, self._api, application, self._account.commands))

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

        return max((number_of(each) for each in page if author_of(each) != me), default=0)


def _gateway_of(answer: object) -> Gateway:
    """Read what Discord says of its gateway. Servers in its place may say less."""
    match answer:
        case {"url": str(url), "shards": int(shards), "session_start_limit": dict(limit)}:
            found = Gateway(url=url, shards=max(1, shards))
        case {"url": str(url), "shards": int(shards)}:
            return Gateway(url=url, shards=max(1, shards))
        case {"url": str(url)}:
            return Gateway(url=url)
        case _:
            raise Unreachable("Discord has not said where its gateway is")

    left = number_in(limit, "remaining")
    milliseconds = limit.get("reset_after")
    if left is None or not isinstance(milliseconds, int | float):
        return found
    total = number_in(limit, "total") or 0
    return replace(found, left=left, total=total, renewed_in=milliseconds / 1000)
