"""
From updates to stored messages: a batch is confirmed to Telegram only after all of it is stored.

Chats do not wait for each other; within one chat the order is kept. Consecutive new messages of a
chat are stored concurrently: Telegram has one stream for all chats, and storing the messages of a
busy chat one by one would delay the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from itertools import groupby, starmap
from typing import Any

from aiogram.methods import AnswerCallbackQuery, GetMe, SetMyCommands
from aiogram.types import BotCommand

from turngate.adapters.telegram.account import Account
from turngate.adapters.telegram.api import Api
from turngate.adapters.telegram.cache import Cache
from turngate.adapters.telegram.fields import Raw, number, text, thing
from turngate.adapters.telegram.normalise import Me, normalise, unreadable
from turngate.adapters.telegram.unsupported import Unsupported
from turngate.gateway.domain.errors import (
    Refused,
    TurngateError,
    Unreachable,
)
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.ports.adapter import Receive
from turngate.gateway.domain.ports.clock import Clock

_log = logging.getLogger(__name__)
_NEW_MESSAGES = MessageKind.NEW, MessageKind.COMMAND


class Intake:
    """Receives for one run of a bot. Leaving the block cancels its background calls."""

    def __init__(
        self, api: Api, account: Account, cache: Cache, clock: Clock, receive: Receive
    ) -> None:
        self._api = api
        self._account = account
        self._cache = cache
        self._clock = clock
        self._receive = receive
        self._unsupported = Unsupported()
        self._me: Me | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Intake:
        """Ask Telegram for the bot's identity. Raises Unauthorized if the token is unknown."""
        self._me = await who_we_are(self._api, self._account)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def offer_commands(self) -> None:
        """Set the command menu in the background: it may be slow, and nothing depends on it."""
        offered = [entry for entry in self._account.commands if entry.offered]
        commands = [BotCommand(command=entry.name, description=entry.summary) for entry in offered]
        if commands:
            self._run_in_background(self._api.call(SetMyCommands(commands=commands)))

    async def take(self, batch: Iterable[Raw]) -> None:
        """
        Store all updates, or skip what is refused. Raises the first error of a message that could
        not be stored.
        """
        chats: dict[str | None, list[tuple[Raw, InboundMessage]]] = {}
        for update in sorted(batch, key=number_of):
            message = self._read(update)
            if message is not None:
                chats.setdefault(message.source.chat_id, []).append((update, message))

        await _all_of(self._take_chat(messages) for messages in chats.values())

    def _read(self, update: Raw) -> InboundMessage | None:
        """Convert an update. One that cannot be read must not cost the others: it is set aside."""
        me = self._known
        now = self._clock.now()
        try:
            return normalise(update, me, now, self._unsupported.note)
        except Exception:  # noqa: BLE001 - whatever form it has, the account goes on
            _log.warning("an update was set aside: its form is unknown")
            return unreadable(update, me, now)

    @property
    def _known(self) -> Me:
        if self._me is None:
            raise Unreachable("Telegram has not said yet who we are")
        return self._me

    async def _take_chat(self, messages: Sequence[tuple[Raw, InboundMessage]]) -> None:
        """
        Store in order: edits and presses must find their message stored. New messages run
        concurrently, since each keeps its place in the queue.
        """
        for is_new, together in groupby(messages, lambda each: each[1].kind in _NEW_MESSAGES):
            if is_new:
                await _all_of(starmap(self._take, together))
            else:
                for update, message in together:
                    await self._take(update, message)

    async def _take(self, update: Raw, message: InboundMessage) -> None:
        self._cache.note_message(message)
        # A refused message is never stored; those after it must not wait.
        with suppress(Refused):
            await self._receive(message)
        if query := text(thing(update, "callback_query"), "id"):
            # Clients show the button as loading until the query is answered.
            self._run_in_background(self._api.call(AnswerCallbackQuery(callback_query_id=query)))

    def _run_in_background(self, call: Coroutine[Any, Any, bool]) -> None:
        task = asyncio.create_task(_ignore_errors(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all, started in this order. Raises the first error and cancels the rest."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for each in tasks:
            each.cancel()


async def who_we_are(api: Api, account: Account) -> Me:
    """Ask Telegram for the bot's identity. Raises Unauthorized if the token is unknown."""
    user = await api.call(GetMe())
    me = number(user, "id")
    if me is None:
        raise Unreachable("Telegram does not say who we are")
    return Me(
        id=me,
        username=text(user, "username"),
        account=account.name,
        commands=frozenset(entry.name for entry in account.commands),
    )


def number_of(update: Raw) -> int:
    """Return the update id, by which an update is confirmed."""
    found = number(update, "update_id")
    if found is None:
        raise Unreachable("Telegram sent something that is no update")
    return found


async def _ignore_errors(call: Coroutine[Any, Any, bool]) -> None:
    """Ignore failures: an old press needs no answer, and the menu is set at the next start."""
    with suppress(TurngateError):
        await call
