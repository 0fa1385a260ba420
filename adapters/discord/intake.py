"""
From events to the gateway. Discord is never told that something has arrived, and tells everything once: what could not
be stored ends the line, so that it is read again.

Channels wait for no other channel; within one everything comes in the order in which it was done.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from turngate.adapters.discord.account import Account
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Memory
from turngate.adapters.discord.channels import TEXT, Payload, Place
from turngate.adapters.discord.directory import Atlas, direct
from turngate.adapters.discord.interactions import TOO_LATE, Interaction, Interactions
from turngate.adapters.discord.normalise import HANDLED, Me, lacks_content, normalise
from turngate.gateway.domain.errors import Refused, Retryable, TurngateError, Undeliverable
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.adapter import Clock, Receive

_MOST_WAITING = 5000
_NOT_TAKEN = "That could not be stored, so nothing comes of it. Please try again in a moment."

_STRANGE = (KeyError, TypeError, ValueError, AttributeError)

_log = logging.getLogger(__name__)

Errand = Callable[[], Awaitable[None]]

_Event = tuple[str, Payload, Interaction | None]


class Reader:
    """Makes messages of what Discord tells, with what is known of the place."""

    def __init__(self, api: Api, atlas: Atlas, account: Account, clock: Clock) -> None:
        self._api = api
        self._atlas = atlas
        self._account = account
        self._clock = clock

    async def read(self, event: str, payload: Payload, place: Place) -> InboundMessage | None:
        """None for what concerns no bot, and for what nobody understands: the others must be heard all the same."""
        me, now = await self.me(), self._clock.now()
        try:
            return normalise(event, payload, place, me, now, self._atlas.names(place.guild))
        except _STRANGE:
            _log.warning("an event was left out: nobody understands it")
            return None

    async def me(self) -> Me:
        """The bot, as it is known by now. Raises Unauthorized if Discord does not know it."""
        user = await self._api.me()
        return Me(
            id=str(user["id"]),
            name=str(user.get("username") or ""),
            account=self._account.name,
            roles=self._atlas.own_roles,
            commands=self._account.command_names,
            threads=self._account.threads,
        )


class Intake:
    """Of one life of a bot. Leaving the block ends what it still does."""

    def __init__(
        self,
        reader: Reader,
        atlas: Atlas,
        memory: Memory,
        interactions: Interactions,
        receive: Receive,
    ) -> None:
        self._reader = reader
        self._atlas = atlas
        self._memory = memory
        self._interactions = interactions
        self._receive = receive
        self._me = ""
        self._waiting: dict[str, deque[_Event]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_warned = False

    async def __aenter__(self) -> Intake:
        """Ask Discord who we are. Raises Unauthorized if it does not know us."""
        self._me = (await self._reader.me()).id
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nobody waits for errands."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if not self._failure.cancel() and not self._failure.cancelled():
            self._failure.exception()  # nobody waits for it any more

    async def until_failure(self) -> None:
        """Raises what the first message that could not be stored did."""
        await self._failure

    def take(self, event: str, payload: Payload) -> None:
        """Called with every event, in order; never waits."""
        with _understanding():
            self._atlas.learn(event, payload, self._me)
            if event not in HANDLED:
                return
            channel = str(payload.get("channel_id") or payload["channel"]["id"])
            if event == "MESSAGE_CREATE":
                self._memory.heard(channel, int(payload["id"]))
            interaction = (
                self._interactions.begin(payload, self._me)
                if event == "INTERACTION_CREATE"
                else None
            )
            if interaction is not None:
                self.run_errand(partial(self._defer_in_time, interaction))
            self._enqueue(channel, (event, payload, interaction))

    def run_errand(self, errand: Errand) -> None:
        """Something on the side, that nobody waits for and that may fail."""
        self._start(_harmless(errand))

    def _enqueue(self, channel: str, event: _Event) -> None:
        self._count += 1
        if self._count > _MOST_WAITING:
            raise Retryable("more is said than can be stored; it is read again")
        queue = self._waiting.get(channel)
        if queue is not None:
            queue.append(event)
            return
        self._waiting[channel] = deque([event])
        self._start(self._serve(channel))

    async def _serve(self, channel: str) -> None:
        queue = self._waiting[channel]
        while queue:
            await self._take(channel, *queue[0])
            queue.popleft()
            self._count -= 1
        del self._waiting[channel]

    async def _take(
        self, channel: str, event: str, payload: Payload, interaction: Interaction | None
    ) -> None:
        message = await self._read(channel, event, payload)
        if message is None:
            return
        if interaction is None:
            with suppress(Refused):  # never taken, whoever asks: what comes after it is
                await self._receive(message)
        else:
            await self._take_at_once(message, interaction)

    async def _take_at_once(self, message: InboundMessage, interaction: Interaction) -> None:
        """A command or a press: Discord does not tell of it again, so whoever waits for an answer must hear of it."""
        try:
            await self._receive(message)
        except Refused as exc:
            self.run_errand(
                partial(self._interactions.decline, interaction, f"This is not taken: {exc}")
            )
        except TurngateError:
            await _harmless(partial(self._interactions.decline, interaction, _NOT_TAKEN))
            raise
        else:
            self.run_errand(partial(self._interactions.defer, interaction))

    async def _read(self, channel: str, event: str, payload: Payload) -> InboundMessage | None:
        guild = payload.get("guild_id") or self._atlas.guild_of(channel)
        try:
            place = (
                direct(channel)
                if guild is None
                else await self._atlas.place(channel, guild=str(guild))
            )
        except Undeliverable:
            # Deleted meanwhile, or nobody tells of it. It was written all the same: whether it can be answered shows.
            place = Place(channel=channel, kind=TEXT, guild=str(guild))
        if event == "MESSAGE_CREATE" and guild is not None:
            self._warn_if_kept_from_us(payload)
        return await self._reader.read(event, payload, place)

    def _warn_if_kept_from_us(self, message: Payload) -> None:
        with _understanding():
            if not self._has_warned and lacks_content(message):
                self._has_warned = True
                _log.warning(
                    "messages come without their words: switch on the Message Content Intent of this bot"
                )

    async def _defer_in_time(self, interaction: Interaction) -> None:
        """However long it takes to store it."""
        await asyncio.sleep(TOO_LATE)
        await self._interactions.defer(interaction)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whatever went wrong, the message is not stored: so all of this ends, and it is read again."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)


async def _harmless(errand: Errand) -> None:
    """Whoever pressed too long ago is not waiting, and a menu is looked at again with the next start."""
    with suppress(TurngateError):
        await errand()


@contextmanager
def _understanding() -> Iterator[None]:
    """One event that nobody understands must not keep the others from being heard."""
    try:
        yield
    except _STRANGE:
        _log.warning("an event was left out: nobody understands it")
