"""
From updates to the gateway: everything of a batch is stored before anybody is told that it is.

Chats wait for no other chat; within one chat everything comes in the order in which it was done. What was said there in
one go is stored side by side: Telegram has one line for all chats, and whoever stored the words of a noisy one after
each other would let all others wait for the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, starmap
from typing import Any

from aiogram.methods import AnswerCallbackQuery, GetMe, SetMyCommands
from aiogram.types import BotCommand, Update
from pydantic import ValidationError

from turngate.adapters.telegram.account import Account
from turngate.adapters.telegram.api import Api
from turngate.adapters.telegram.cache import Memory
from turngate.adapters.telegram.normalise import Me, normalise
from turngate.gateway.domain.errors import Refused, TurngateError, Unreachable
from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.ports.adapter import Clock, Receive

Raw = Mapping[str, Any]

_log = logging.getLogger(__name__)
_SAID = MessageKind.NEW, MessageKind.COMMAND


class Intake:
    """Of one life of a bot. Leaving the block ends what it still does on the side."""

    def __init__(
        self, api: Api, account: Account, memory: Memory, clock: Clock, receive: Receive
    ) -> None:
        self._api = api
        self._account = account
        self._memory = memory
        self._clock = clock
        self._receive = receive
        self._me: Me | None = None
        self._errands: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Intake:
        """Ask Telegram who we are. Raises Unauthorized if it does not know us."""
        user = await self._api.call(GetMe())
        self._me = Me(
            id=user.id,
            username=user.username or "",
            account=self._account.name,
            commands=frozenset(entry.name for entry in self._account.commands),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nobody waits for errands."""
        for errand in self._errands:
            errand.cancel()
        if self._errands:
            await asyncio.wait(self._errands)

    def offer_commands(self) -> None:
        """The menu, on the side: it can take Telegram long, and nothing depends on it."""
        offered = [entry for entry in self._account.commands if entry.offered]
        commands = [BotCommand(command=entry.name, description=entry.summary) for entry in offered]
        if commands:
            self._run_errand(self._api.call(SetMyCommands(commands=commands)))

    async def take(self, batch: Iterable[Raw]) -> None:
        """Returning means that all of it is stored, or never will be. Raises what the first that could not be did."""
        updates = [
            update for raw in sorted(batch, key=number_of) if (update := _parsed(raw)) is not None
        ]
        chats: dict[str | None, list[tuple[Update, InboundMessage]]] = {}
        for update in updates:
            message = normalise(update, self._known, self._clock.now())
            if message is not None:
                chats.setdefault(message.source.chat_id, []).append((update, message))
        await _all_of(self._take_chat(said) for said in chats.values())

    @property
    def _known(self) -> Me:
        if self._me is None:
            raise Unreachable("Telegram has not said yet who we are")
        return self._me

    async def _take_chat(self, said: Sequence[tuple[Update, InboundMessage]]) -> None:
        """What is done to a message must find it stored; words need not wait for each other, each has its place."""
        for is_said, together in groupby(said, lambda each: each[1].kind in _SAID):
            if is_said:
                await _all_of(starmap(self._take, together))
            else:
                for update, message in together:
                    await self._take(update, message)

    async def _take(self, update: Update, message: InboundMessage) -> None:
        self._memory.heard(message)
        with suppress(Refused):  # never taken, whoever asks: what comes after it is
            await self._receive(message)
        if update.callback_query is not None:
            # Until it is answered, the button looks as if it were still being pressed.
            self._run_errand(
                self._api.call(AnswerCallbackQuery(callback_query_id=update.callback_query.id))
            )

    def _run_errand(self, call: Coroutine[Any, Any, bool]) -> None:
        errand = asyncio.create_task(_harmless(call))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)


async def _all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Begun in this order. Raises what the first of them raised, and lets go of the rest."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for each in tasks:
            each.cancel()


def number_of(raw: Raw) -> int:
    """By which an update is confirmed. Without one nothing can be."""
    number = raw.get("update_id")
    if not isinstance(number, int):
        raise Unreachable("Telegram sent something that is no update")
    return number


def _parsed(raw: Raw) -> Update | None:
    """One that nobody understands must not keep the others from being heard, for ever."""
    try:
        return Update.model_validate(raw)
    except ValidationError:
        _log.warning("an update was left out: nobody understands it")
        return None


async def _harmless(call: Coroutine[Any, Any, bool]) -> None:
    """Whoever pressed too long ago is not waiting, and a menu is set again with the next start."""
    with suppress(TurngateError):
        await call
