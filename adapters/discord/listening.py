"""
One life of a bot at the gateway: as many lines as Discord asks for, all of them alive, or none.

Discord counts the sessions that a bot begins, a thousand a day, and takes its token away after that. The count is kept
there, so it is asked for before every session and outlives us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from turngate.adapters.discord.account import Account, Patience
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Memory
from turngate.adapters.discord.catch_up import Historian
from turngate.adapters.discord.channels import Payload
from turngate.adapters.discord.history_reader import patiently
from turngate.adapters.discord.ids import id_at
from turngate.adapters.discord.intake import Intake
from turngate.adapters.discord.menu import offer
from turngate.adapters.discord.shard import Shard
from turngate.gateway.domain.errors import NotSent, Retryable, Throttled, Undeliverable, Unreachable
from turngate.gateway.domain.ports.adapter import Clock, Moment

_RESERVE = 10
_LOOKED_AT, _LAST = 3, 10
_STILL_ON_ITS_WAY = 5.0


class Deaf(Retryable):
    """The line is alive, and nothing comes through it."""


class Heartbeats:
    """
    When Discord last showed that it listens: on the line that has been silent for the longest time.

    `began` is by Discord's own clock, because it is compared with what Discord dates.
    """

    def __init__(self, clock: Clock, theirs: Clock) -> None:
        self.last: Moment | None = None
        self.began: datetime | None = None
        self._clock = clock
        self._theirs = theirs
        self._beats: dict[int, Moment] = {}
        self._shards = 0

    def begin(self, shards: int) -> None:
        """New lines, of which nothing was heard yet."""
        self._beats, self._shards, self.began = {}, shards, None

    def beat(self, shard: int) -> None:
        """There is life on this line."""
        self._beats[shard] = Moment.now(self._clock)
        if len(self._beats) == self._shards:
            self.last = min(self._beats.values(), key=lambda beat: beat.elapsed)
            self.began = self.began or self._theirs.now()


class Starts:
    """New sessions, one in so many seconds."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next_at = 0.0

    async def next(self) -> None:
        """Wait for one's turn."""
        now = asyncio.get_running_loop().time()
        mine = max(now, self._next_at)
        self._next_at = mine + self._every
        await asyncio.sleep(mine - now)


class Listener:
    """Of one bot."""

    def __init__(
        self,
        account: Account,
        patience: Patience,
        api: Api,
        memory: Memory,
        historian: Historian,
        clock: Clock,
        theirs: Clock,
    ) -> None:
        self.pulse = Heartbeats(clock, theirs)
        self._account = account
        self._clock = clock
        self._patience = patience
        self._api = api
        self._memory = memory
        self._historian = historian
        self._starts = Starts(patience.identify)

    async def listen(self, intake: Intake) -> None:
        """Until cancelled. Raises what ended it, one of ours."""
        url, count = _lines(await self._gateway(), self._clock.now())
        self.pulse.begin(count)
        shards = [self._shard(url, number, count, intake) for number in range(count)]
        lives = (intake.until_failure(), self._look_after(), *map(self._live, shards))
        working = [asyncio.ensure_future(life) for life in lives]
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
        """As Discord tells it. A server of another kind need not, if the config does."""
        try:
            return await patiently(lambda: self._api.call("GET", "/gateway/bot"))
        except Undeliverable:
            if self._account.gateway_url is None:
                raise
            return {"url": self._account.gateway_url}

    async def _live(self, shard: Shard) -> None:
        await self._starts.next()
        await shard.listen()

    def _shard(self, url: str, number: int, count: int, intake: Intake) -> Shard:
        def hear(event: str, payload: Payload) -> None:
            if event == "READY" and number == 0:
                self._offer_commands(intake, payload)
            intake.take(event, payload)

        return Shard(
            self._account,
            self._patience,
            number=number,
            count=count,
            gateway=url,
            hear=hear,
            beat=lambda: self.pulse.beat(number),
        )

    def _offer_commands(self, intake: Intake, ready: Payload) -> None:
        """On the side: it can take Discord long, and nothing depends on it."""
        application = (ready.get("application") or {}).get("id")
        if application is not None and self._account.commands:
            intake.run_errand(partial(offer, self._api, str(application), self._account.commands))

    async def _look_after(self) -> None:
        """Heartbeats can go on while nothing else comes. What people wrote last shows whether it was heard."""
        known = await self._historian.newest(_LOOKED_AT)
        while True:
            await asyncio.sleep(self._patience.look)
            channels = dict.fromkeys((*self._memory.lately(_LOOKED_AT), *known))
            with suppress(Unreachable, NotSent, Throttled):
                if self.pulse.began is not None and await self._has_missed(
                    channels, self.pulse.began
                ):
                    raise Deaf("Discord keeps the connection and says nothing of what people write")

    async def _has_missed(self, channels: Iterable[str], since: datetime) -> bool:
        for channel in channels:
            newest = await self._newest_in(channel)
            if newest > max(id_at(since), self._memory.newest_in(channel)):
                await asyncio.sleep(min(_STILL_ON_ITS_WAY, self._patience.look))
                if newest > self._memory.newest_in(channel):
                    return True
        return False

    async def _newest_in(self, channel: str) -> int:
        """What others said, as Discord has it; not every server tells us of our own. What is closed tells nothing."""
        where, path = {"channel_id": channel}, "/channels/{channel_id}/messages"
        me = str((await self._api.me())["id"])
        try:
            page = await self._api.objects("GET", path, where, query={"limit": _LAST})
        except Undeliverable:
            return 0
        said = (message for message in page if str((message.get("author") or {}).get("id")) != me)
        return max((int(message["id"]) for message in said), default=0)


def _lines(gateway: object, now: datetime) -> tuple[str, int]:
    """Where to, and how many. Raises Retryable when there are no sessions left to begin."""
    match gateway:
        case {"url": str(url), "shards": int(shards), "session_start_limit": dict(limit)}:
            left, milliseconds = limit.get("remaining"), limit.get("reset_after")
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
