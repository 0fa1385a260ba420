"""
From gateway events to stored messages. Events are neither confirmed nor repeated: if one could not
be stored, the connection ends, so that catch-up reads it again.

Channels do not wait for each other; within one channel the order is kept. An event that cannot be
read is stored as it came, to be read again by a later version.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from turngate.adapters.discord.account import Account
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Cache
from turngate.adapters.discord.channels import (
    GROUP_DM,
    TEXT,
    Channel,
    is_among_others,
)
from turngate.adapters.discord.directory import Directory, direct
from turngate.adapters.discord.ids import time_of
from turngate.adapters.discord.interactions import (
    DEFER_AFTER,
    Interaction,
    Interactions,
)
from turngate.adapters.discord.json_fields import (
    Payload,
    id_in,
    object_in,
)
from turngate.adapters.discord.normalise import (
    HANDLED,
    UNREADABLE,
    Me,
    lacks_content,
    normalise,
    unreadable,
)
from turngate.gateway.domain.errors import (
    Refused,
    Retryable,
    TurngateError,
    Undeliverable,
)
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.ports.adapter import Receive
from turngate.gateway.domain.ports.clock import Clock

_MOST_WAITING = 5000
_NOT_TAKEN = "That could not be stored, so nothing comes of it. Please try again in a moment."
_NOT_READ = "That could not be read. Whoever runs this bot can see it."
_NOT_OFFERED = "This is no longer offered here. Type / to see which commands there are."
# What an earlier process of this bot sent may arrive so late.
_FROM_BEFORE = timedelta(minutes=1)
# An answer comes soon after what it answers.
_ANSWERS_WITHIN = timedelta(minutes=30)

_log = logging.getLogger(__name__)

BackgroundCall = Callable[[], Awaitable[None]]

_Event = tuple[str, Payload, Interaction | None]


class AnsweredElsewhere(Retryable):
    """Another program answers with this bot's token."""


class Reader:
    """Converts events to messages, with the directory's names. `clock` is Discord's."""

    def __init__(self, api: Api, directory: Directory, account: Account, clock: Clock) -> None:
        self._api = api
        self._directory = directory
        self._account = account
        self._clock = clock

    async def read(self, event: str, payload: Payload, chat: Channel) -> InboundMessage | None:
        """
        Convert an event. None if it is not for the bot. One that cannot be converted must not block
        the others: its message is of kind UNREADABLE.
        """
        me = await self.me()
        try:
            return self._normalise(event, payload, chat, me)
        except UNREADABLE as exc:
            _log.warning("an event cannot be read and is set aside (%s)", type(exc).__name__)
            return unreadable(event, payload, chat, me, self._clock.now())

    async def read_again(self, raw: str) -> InboundMessage | None:
        """Convert an event that was set aside. Raises ValueError if it still cannot be read."""
        try:
            known = json.loads(raw)
            event = known["t"]
            payload = {"guild_id": known.get("guild_id"), **known["d"]}
            chat = await self.locate(payload, channel_of(payload))
            return self._normalise(event, payload, chat, await self.me())
        except UNREADABLE as exc:
            raise ValueError("this event of Discord's still cannot be read") from exc

    def _normalise(
        self, event: str, payload: Payload, chat: Channel, me: Me
    ) -> InboundMessage | None:
        names = self._directory.names(chat.guild)
        return normalise(event, payload, chat, me, self._clock.now(), names)

    async def locate(self, payload: Payload, channel: str) -> Channel:
        """Return the channel of an event."""
        guild = id_in(payload, "guild_id") or self._directory.guild_of(channel)
        if guild is None:
            return (
                Channel(channel=channel, kind=GROUP_DM)
                if is_among_others(payload)
                else direct(channel)
            )
        try:
            return await self._directory.find(channel, guild=guild)
        except Undeliverable:
            # The channel was deleted or is hidden. The message exists: sending the answer will show
            # whether it can be answered.
            return Channel(channel=channel, kind=TEXT, guild=guild)

    def now(self) -> datetime:
        """Return the time by Discord's clock."""
        return self._clock.now()

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
        self._began = reader.now()
        self._waiting: dict[str, deque[_Event]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        self._has_warned = False

    async def __aenter__(self) -> Intake:
        """Ask Discord for the bot's identity. Raises Unauthorized if the token is refused."""
        self._me = (await self._reader.me()).id
        self._began = self._reader.now()
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
        with suppress(*UNREADABLE):
            self._directory.learn(event, payload, self._me)
        if event not in HANDLED:
            return

        channel = channel_of(payload)
        if event == "MESSAGE_CREATE":
            self._note(payload, channel)

        interaction = (
            self._interactions.begin(payload, self._me) if event == "INTERACTION_CREATE" else None
        )
        if interaction is not None and not interaction.is_completion:
            self.run_in_background(partial(self._defer_after_delay, interaction))

        self._enqueue(channel, (event, payload, interaction))

    def _note(self, message: Payload, channel: str) -> None:
        """Note who wrote where. Raises AnsweredElsewhere for an answer that is not ours."""
        id_ = id_in(message, "id")
        author = id_in(object_in(message, "author"), "id")
        if id_ is None or not channel:
            return
        self._cache.note_received(channel, int(id_))
        if author != self._me:
            self._cache.note_written(channel, int(id_))
            if id_in(message, "guild_id") is None and author is not None:
                self._cache.opened(author, channel)
        elif self._is_of_another_program(message, channel):
            raise AnsweredElsewhere(
                "another program answers with this bot's token; stop it or give it a token of its "
                "own, then restart Turngate"
            )

    def _is_of_another_program(self, message: Payload, channel: str) -> bool:
        """
        Check whether a message of the bot's carries a nonce that this process never used, and
        follows something that a person wrote. What was sent before the start does not count.

        An answer to what was written since the start is of no earlier process; where it quotes
        nothing, a minute after the start it is not either.
        """
        nonce = message.get("nonce")
        sent_at = time_of(int(message["id"]))
        if not isinstance(nonce, str | int) or self._cache.was_tried(str(nonce)):
            return False
        written_at = time_of(self._cache.written_in(channel))
        is_answer = sent_at - written_at < _ANSWERS_WITHIN
        answered = id_in(object_in(message, "message_reference"), "message_id")
        if answered is not None and time_of(int(answered)) > self._began:
            return is_answer
        return is_answer and sent_at > self._began + _FROM_BEFORE

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
            if interaction is not None:
                self._decline(interaction, _NOT_OFFERED)
            return

        if interaction is None:
            # A refused message is never stored; those after it must not wait.
            with suppress(Refused):
                await self._receive(message)
        else:
            await self._take_interaction(message, interaction)

    def _decline(self, interaction: Interaction, words: str) -> None:
        self.run_in_background(partial(self._interactions.decline, interaction, words))

    async def _take_interaction(self, message: InboundMessage, interaction: Interaction) -> None:
        """
        Store a command or press. Discord does not repeat it, so a failure is shown to the user.
        """
        try:
            await self._receive(message)
        except Refused as exc:
            self._decline(interaction, f"This is not taken: {exc}")
        except TurngateError:
            await _ignore_errors(partial(self._interactions.decline, interaction, _NOT_TAKEN))
            raise
        else:
            if message.kind is MessageKind.UNREADABLE:
                self._decline(interaction, _NOT_READ)
            else:
                self.run_in_background(partial(self._interactions.defer, interaction))

    async def _read(self, channel: str, event: str, payload: Payload) -> InboundMessage | None:
        chat = await self._reader.locate(payload, channel)
        if event == "MESSAGE_CREATE" and chat.guild is not None:
            self._warn_if_content_missing(payload)

        return await self._reader.read(event, payload, chat)

    def _warn_if_content_missing(self, message: Payload) -> None:
        with suppress(*UNREADABLE):
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


def channel_of(payload: Payload) -> str:
    """Return the channel's id of an event, or an empty text."""
    return id_in(payload, "channel_id") or id_in(object_in(payload, "channel"), "id") or ""
