"""
From what Slack sends to the gateway: it is stored before Slack is told that it is.

Chats wait for no other chat; within one chat everything comes in the order in which it arrived.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from turngate.adapters.slack.account import Account
from turngate.adapters.slack.api import Api, word
from turngate.adapters.slack.cache import Memory
from turngate.adapters.slack.directory import Directory
from turngate.adapters.slack.identity import Me
from turngate.adapters.slack.json_fields import Json, text_in
from turngate.adapters.slack.lookup_keys import about, assistants_thread
from turngate.adapters.slack.normalise import normalise
from turngate.gateway.domain.errors import Refused, Retryable, TurngateError
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.adapter import Clock, Receive

Value = TypeVar("Value")

_LONGEST_TITLE = 60
_MOST_AT_ONCE = 1000
# https://docs.slack.dev/apis/events-api/#rate-limiting: what happens in such a minute is in no event.
_LEFT_OUT = "app_rate_limited"

_log = logging.getLogger(__name__)


class Busy(TurngateError):
    """More has come than can be stored now. Slack keeps it and hands it out again."""


class OtherWorkspace(TurngateError):
    """It is for another workspace that has the same app: Slack may try another connection."""


async def who_we_are(api: Api, account: Account) -> Me:
    """Asked of Slack. Raises Unauthorized if it does not know us."""
    said = await api.answer(api.client.auth_test())
    return Me(
        user=word(said, "user_id"),
        bot=word(said, "bot_id", "user_id"),
        team=text_in(said, "team_id"),
        account=account.name,
        enterprise=text_in(said, "enterprise_id") or None,
        commands=frozenset(entry.name for entry in account.commands),
        dm_threads=account.dm_threads,
        follow_threads=account.follow_threads,
    )


class Intake:
    """Of one life of a bot. `failed` is set by what could not be stored: then everything has to be read again."""

    def __init__(
        self, api: Api, me: Me, memory: Memory, lookups: Directory, clock: Clock, receive: Receive
    ) -> None:
        self._api = api
        self._me = me
        self._memory = memory
        self._lookups = lookups
        self._clock = clock
        self._receive = receive
        self._lines: dict[str, _Line] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._taken = 0
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def take(self, body: Json) -> None:
        """Returning means that it is stored, or never will be. Raises what kept it from that."""
        if self._taken >= _MOST_AT_ONCE:
            raise Busy("too much at once")
        self._taken += 1
        try:
            await self._take(body)
        except (Busy, OtherWorkspace):
            raise
        except Exception as exc:
            self._fail(exc)
            raise
        finally:
            self._taken -= 1

    async def close(self) -> None:
        """Nobody waits for errands."""
        for errand in self._errands:
            errand.cancel()
        if self._errands:
            await asyncio.wait(self._errands)
        if self.failed.done() and not self.failed.cancelled():
            self.failed.exception()  # whoever ended this life knows it, or had another reason

    def _fail(self, reason: Exception) -> None:
        if not self.failed.done():
            self.failed.set_exception(reason)

    async def _take(self, body: Json) -> None:
        if body.get("type") == _LEFT_OUT:
            return self._fail(
                Retryable("Slack has left out events, because there were too many of them")
            )
        if not self._me.is_meant_by(body):
            raise OtherWorkspace("it is for another workspace")
        self._note_pane(body)
        found = _understood(lambda: about(body))
        if found is None:
            return None
        async with self._in_line(found.chat):
            known = await self._lookups.known(found, self._me)
            message = _understood(lambda: normalise(body, self._me, known, self._clock.now()))
            if message is not None:
                self._note_response_url(body, message)
                with suppress(Refused):  # never taken, whoever asks: what comes after it is
                    await self._receive(message)
                self._join(message)
                self._give_title(message)
        return None

    @asynccontextmanager
    async def _in_line(self, chat: str) -> AsyncIterator[None]:
        """The place in the line is taken before anything is waited for."""
        line = self._lines.setdefault(chat, _Line())
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[chat]

    def _note_pane(self, body: Json) -> None:
        opened = _understood(lambda: assistants_thread(body))
        if opened is not None:
            self._memory.assistants.put((opened.chat, opened.thread), True)
            self._memory.untitled.put((opened.chat, opened.thread), True)

    def _note_response_url(self, body: Json, message: InboundMessage) -> None:
        url = body.get("response_url")
        if isinstance(url, str):
            self._memory.response_urls.put(message.id, url)

    def _join(self, message: InboundMessage) -> None:
        """Who calls the bot into a thread need not call it again, not even before it has said anything."""
        if message.addressed_to_bot:
            self._memory.join(message.source.chat_id, message.source.thread_id)

    def _give_title(self, message: InboundMessage) -> None:
        """A new thread of the assistant's pane is called by what was asked first."""
        source = message.source
        if (
            self._memory.untitled.take((source.chat_id, source.thread_id))
            and source.chat_id
            and source.thread_id
        ):
            title = " ".join(message.text.split())[:_LONGEST_TITLE] or "…"
            asking = self._api.client.assistant_threads_setTitle(
                channel_id=source.chat_id, thread_ts=source.thread_id, title=title
            )
            self._run_errand(self._api.answer(asking))

    def _run_errand(self, call: Coroutine[Any, Any, object]) -> None:
        errand = asyncio.create_task(_harmless(call))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)


class _Line:
    """Those of one chat, one after the other; gone with the last of them."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0


def _understood(read: Callable[[], Value | None]) -> Value | None:
    """One that nobody understands must not keep the others from being heard."""
    try:
        return read()
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        _log.warning("an event was left out: nobody understands it")
        return None


async def _harmless(call: Coroutine[Any, Any, object]) -> None:
    """A thread without a title is a thread."""
    with suppress(TurngateError):
        await call
