"""
From gateway events to stored messages. Events are neither confirmed nor repeated: if one could not
be stored, the connection ends, so that catch-up reads it again.

Channels do not wait for each other; within one channel the order is kept.
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
from turngate.adapters.discord.cache import Cache
from turngate.adapters.discord.channels import (
    TEXT,
    Channel,
    Payload,
)
from turngate.adapters.discord.directory import Directory, direct
from turngate.adapters.discord.interactions import (
    DEFER_AFTER,
    Interaction,
    Interactions,
)
from turngate.adapters.discord.normalise import (
    HANDLED,
    Me,
    lacks_content,
    normalise,
)
from turngate.gateway.domain.errors import (
    Refused,
    Retryable,
    TurngateError,
    Undeliverable,
)
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.adapter import Receive
from turngate.gateway.domain.ports.clock import Clock

_MOST_WAITING = 5000
_NOT_TAKEN = "That could not be stored, so nothing comes of it. Please try again in a moment."

_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)

_log = logging.getLogger(__name__)

BackgroundCall = Callable[[], Awaitable[None]]

_Event = tuple[str, Payload, Interaction | None]


class Reader:
    """Converts events to messages, with the directory's names."""

    def __init__(self, api: Api, directory: Directory, account: Account, clock: Clock) -> None:
        self._api = api
        self._directory = directory
        self._account = account
        self._clock = clock

    async def read(self, event: str, payload: Payload, chat: Channel) -> InboundMessage | None:
        """
        Convert an event. None if it is not for the bot, or malformed: it must not block the others.
        """
        me = await self.me()
        now = self._clock.now()

        try:
            return normalise(event, payload, chat, me, now, self._directory.names(chat.guild))
        except _MALFORMED:
            _log.warning("an event was left out: its form is unknown")
            return None

    async def me(self) -> Me:
        """Return the bot as known now. Raises Unauthorized if the token is refused."""
        user = await self._api.me()
        return Me(
            id=str(user["id"]),
            name=str(user.get("username") or ""),
            account=self._account.name,
            roles=self._directory.own_roles,
            commands=self._account.command_names,
            threads=self._account.threads,
        )


class Intake:
    """Receives for one run of a bot. Leaving the block cancels its tasks."""

    def __init__(
        self,
        reader: Reader,
        directory: Directory,
        cache: Cache,
        interactions: Interactions,
        receive: Receive,
    ) -> None:
        self._reader = reader
        self._directory = directory
        self._cache = cache
        self._interactions = interactions
        self._receive = receive
        self._me = ""
        self._waiting: dict[str, deque[_Event]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        self._has_warned = False

    async def __aenter__(self) -> Intake:
        """Ask Discord for the bot's identity. Raises Unauthorized if the token is refused."""
        self._me = (await self._reader.me()).id
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if not self._failure.cancel() and not self._failure.cancelled():
            # Retrieve the error, or asyncio logs it as never retrieved.
            self._failure.exception()

    async def until_failure(self) -> None:
        """Wait for, and raise, the first error of a message that could not be stored."""
        await self._failure

    def take(self, event: str, payload: Payload) -> None:
        """Queue an event; called in order, never waits."""
        with _skip_malformed():
            self._directory.learn(event, payload, self._me)
            if event not in HANDLED:
                return

            channel = str(payload.get("channel_id") or payload["channel"]["id"])
            if event == "MESSAGE_CREATE":
                self._cache.note_received(channel, int(payload["id"]))

            interaction = (
                self._interactions.begin(payload, self._me)
                if event == "INTERACTION_CREATE"
                else None
            )
            if interaction is not None:
                self.run_in_background(partial(self._defer_after_delay, interaction))

            self._enqueue(channel, (event, payload, interaction))

    def run_in_background(self, call: BackgroundCall) -> None:
        """Run a call whose result is not needed and which may fail."""
        self._start(_ignore_errors(call))

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
            # A refused message is never stored; those after it must not wait.
            with suppress(Refused):
                await self._receive(message)
        else:
            await self._take_interaction(message, interaction)

    async def _take_interaction(self, message: InboundMessage, interaction: Interaction) -> None:
        """
        Store a command or press. Discord does not repeat it, so a failure is shown to the user.
        """
        try:
            await self._receive(message)
        except Refused as exc:
            self.run_in_background(
                partial(self._interactions.decline, interaction, f"This is not taken: {exc}")
            )
        except TurngateError:
            await _ignore_errors(partial(self._interactions.decline, interaction, _NOT_TAKEN))
            raise
        else:
            self.run_in_background(partial(self._interactions.defer, interaction))

    async def _read(self, channel: str, event: str, payload: Payload) -> InboundMessage | None:
        guild = payload.get("guild_id") or self._directory.guild_of(channel)
        try:
            chat = (
                direct(channel)
                if guild is None
                else await self._directory.find(channel, guild=str(guild))
            )
        except Undeliverable:
            # The channel was deleted or is hidden. The message exists: sending the answer will show
            # whether it can be answered.
            chat = Channel(channel=channel, kind=TEXT, guild=str(guild))

        if event == "MESSAGE_CREATE" and guild is not None:
            self._warn_if_content_missing(payload)

        return await self._reader.read(event, payload, chat)

    def _warn_if_content_missing(self, message: Payload) -> None:
        with _skip_malformed():
            if not self._has_warned and lacks_content(message):
                self._has_warned = True
                _log.warning(
                    "messages come without their words: switch on the Message Content Intent of "
                    "this bot"
                )

    async def _defer_after_delay(self, interaction: Interaction) -> None:
        """Acknowledge in time, even if storing takes long."""
        await asyncio.sleep(DEFER_AFTER)
        await self._interactions.defer(interaction)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the intake after any error: the message is not stored and has to be read again."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)


async def _ignore_errors(call: BackgroundCall) -> None:
    """Ignore failures: an old press needs no answer, and the menu is compared at the next start."""
    with suppress(TurngateError):
        await call()


@contextmanager
def _skip_malformed() -> Iterator[None]:
    """Skip a malformed event, which must not block the others."""
    try:
        yield
    except _MALFORMED:
        _log.warning("an event was left out: its form is unknown")
