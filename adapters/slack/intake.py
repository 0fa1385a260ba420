"""
Passing events from Slack to the gateway: an event is stored before it is acknowledged.

Chats are handled concurrently; events of one chat are handled in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from turngate.adapters.slack.account import Account
from turngate.adapters.slack.api import Api, required_text
from turngate.adapters.slack.app.slash import command_of
from turngate.adapters.slack.cache import Cache
from turngate.adapters.slack.events import Events, Unreadable
from turngate.adapters.slack.identity import BotIdentity
from turngate.adapters.slack.json_fields import Json, text_in
from turngate.adapters.slack.lookup_keys import assistant_thread_in
from turngate.adapters.slack.threads import Threads
from turngate.gateway.domain.errors import (
    Refused,
    Retryable,
    TurngateError,
)
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.adapter import Receive

_LONGEST_TITLE = 60
_MOST_AT_ONCE = 1000
# https://docs.slack.dev/apis/events-api/#rate-limiting: events of such a minute are not sent.
_EVENTS_DROPPED = "app_rate_limited"


class Busy(TurngateError):
    """Too many events are being stored. Slack resends this one later."""


class OtherWorkspace(TurngateError):
    """The event is for another workspace with the same app; Slack may try another connection."""


async def identify_bot(api: Api, account: Account) -> BotIdentity:
    """Ask Slack for the bot's identity. Raises Unauthorized if the token is not valid."""
    answer = await api.answer(api.client.auth_test())

    return BotIdentity(
        user=required_text(answer, "user_id"),
        bot=required_text(answer, "bot_id", "user_id"),
        team=text_in(answer, "team_id"),
        account=account.name,
        enterprise=text_in(answer, "enterprise_id") or None,
        commands=frozenset(entry.name for entry in account.commands),
        dm_threads=account.dm_threads,
        follow_threads=account.follow_threads,
    )


class Intake:
    """
    Receives events during one run of an account.

    `failed` gets the error when an event could not be stored: the account then has to restart with
    a catch-up.
    """

    def __init__(
        self,
        api: Api,
        me: BotIdentity,
        cache: Cache,
        events: Events,
        threads: Threads,
        receive: Receive,
    ) -> None:
        self._api = api
        self._me = me
        self._cache = cache
        self._events = events
        self._threads = threads
        self._receive = receive
        self._chat_locks: dict[str, _ChatLock] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._taken = 0
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def take(self, body: Json) -> None:
        """
        Handle one event. Returns once it is stored or will never be; raises if it could not be
        stored.
        """
        if self._taken >= _MOST_AT_ONCE:
            raise Busy("too many events at once")

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

    async def take_unreadable(self, body: Json) -> None:
        """Handle an event that could not even be dispatched, like `take`."""
        try:
            await self._set_aside(body)
        except Exception as exc:
            self._fail(exc)
            raise

    async def close(self) -> None:
        """Cancel background calls."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        if self.failed.done() and not self.failed.cancelled():
            # Mark the error as retrieved; it was reported where the run ended.
            self.failed.exception()

    def _fail(self, reason: Exception) -> None:
        if not self.failed.done():
            self.failed.set_exception(reason)

    async def _take(self, body: Json) -> None:
        if body.get("type") == _EVENTS_DROPPED:
            return self._fail(Retryable("Slack dropped events because of its rate limit"))
        # An app in several workspaces receives the events of all of them.
        if not self._me.is_addressed_by(body):
            raise OtherWorkspace("the event is for another workspace")

        self._note_assistant_thread(body)
        try:
            keys = self._events.keys(body)
            if keys is None:
                return None
            # In order of arrival within a chat, while other chats continue.
            async with self._chat_lock(keys.chat):
                message = await self._events.message(body, keys)
                if message is not None:
                    await self._store(message, body)
        except Unreadable:
            await self._set_aside(body)

        return None

    async def _store(self, message: InboundMessage, body: Json) -> None:
        self._note_command(body, message)
        self._threads.note(message)
        # A refused event will never be stored, so it counts as handled.
        with suppress(Refused):
            await self._receive(message)
        self._join(message)
        self._give_title(message)

    async def _set_aside(self, body: Json) -> None:
        with suppress(Refused):
            await self._receive(self._events.set_aside(body))

    @asynccontextmanager
    async def _chat_lock(self, chat: str) -> AsyncIterator[None]:
        """
        Hold the chat's lock. The waiting position is taken synchronously, before the first await.
        """
        entry = self._chat_locks.setdefault(chat, _ChatLock())
        entry.users += 1

        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._chat_locks[chat]

    def _note_assistant_thread(self, body: Json) -> None:
        opened = assistant_thread_in(body)
        if opened is not None:
            self._cache.assistants.put((opened.chat, opened.thread), True)
            self._cache.untitled.put((opened.chat, opened.thread), True)

    def _note_command(self, body: Json, message: InboundMessage) -> None:
        """Remember how a command can be answered."""
        url = body.get("response_url")
        if isinstance(url, str):
            self._cache.response_urls.put(message.id, url)
        if "command" in body:
            self._cache.commands.put(message.id, command_of(text_in(body, "command")))

    def _join(self, message: InboundMessage) -> None:
        """
        Remember the thread, so that later messages need no mention even before the bot has
        answered.
        """
        if message.addressed_to_bot:
            self._cache.join(message.source.chat_id, message.source.thread_id)

    def _give_title(self, message: InboundMessage) -> None:
        """Title a new thread of the assistant pane with the first message."""
        source = message.source

        if (
            self._cache.untitled.take((source.chat_id, source.thread_id))
            and source.chat_id
            and source.thread_id
        ):
            title = " ".join(message.text.split())[:_LONGEST_TITLE] or "…"
            request = self._api.client.assistant_threads_setTitle(
                channel_id=source.chat_id, thread_ts=source.thread_id, title=title
            )
            self._start_in_background(self._api.answer(request))

    def _start_in_background(self, call: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(_ignoring_errors(call))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class _ChatLock:
    """Lock of one chat, removed after its last user."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


async def _ignoring_errors(call: Coroutine[Any, Any, object]) -> None:
    """Run a call whose failure has no consequences (a thread without a title)."""
    with suppress(TurngateError):
        await call
