"""
Backfill: messages sent while the bot was offline, from the channels' histories.

Discord queues nothing for an offline bot and does not list its direct chats. So every channel,
thread and direct chat with a session, or allowed by the config, is read.

What takes long is left until the bot listens: chats beyond the first thousand, and users whose
direct chat is not known and has to be opened, which Discord does not like in great numbers.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from turngate.adapters.discord.account import Timeouts
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Cache
from turngate.adapters.discord.channels import (
    ANNOUNCEMENT,
    PUBLIC_THREAD,
    STAGE,
    TEXT,
    VOICE,
    Channel,
)
from turngate.adapters.discord.directory import Directory, direct
from turngate.adapters.discord.history_reader import History, retry_throttled
from turngate.adapters.discord.ids import (
    checked,
    id_at,
    is_id,
)
from turngate.adapters.discord.intake import Reader
from turngate.adapters.discord.json_fields import Payload, id_in, needed_id, objects_in
from turngate.adapters.discord.sending import Sender
from turngate.gateway.domain.errors import GapRemains, Undeliverable
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.ports.adapter import CatchUpChats

_AT_ONCE = 8
_MOST_CHECKED = 3
# A history keeps up to a hundred messages in memory.
_MOST_IN_ONE_ROUND = 1000
# Discord may flag bots that open many direct chats at once.
_MOST_OPENED = 25
_TEXT_CHANNELS = (TEXT, VOICE, ANNOUNCEMENT, STAGE)

_Found = dict[str, tuple[Channel, int]]
"""Channels to read by their ids, each with the id after which to begin."""


class CatchUp:
    """Reads missed messages for one bot."""

    def __init__(
        self,
        api: Api,
        directory: Directory,
        reader: Reader,
        sender: Sender,
        cache: Cache,
        chats: CatchUpChats,
        timeouts: Timeouts,
    ) -> None:
        self._api = api
        self._directory = directory
        self._reader = reader
        self._sender = sender
        self._cache = cache
        self._chats = chats
        self._timeouts = timeouts
        self._timed_ids: bool | None = None
        self._left: dict[SessionSource, int] = {}

    async def read(self, since: datetime, *, listens: bool) -> AsyncIterator[InboundMessage]:
        """
        Yield messages of all chats, oldest first; those of chats that were left out before in
        rounds of their own, once the bot listens. Raises GapRemains if a history was cut off.
        """
        is_cut = False
        after = id_at(since)
        async for sources in self._rounds(after, listens=listens):
            found = await self._find_all(sources, after)
            for histories in self._histories(list(found.values())):
                async for message in self._merged(histories, since):
                    yield message
                is_cut = is_cut or any(history.is_cut for history in histories)
            for source in sources if listens else ():
                self._left.pop(source, None)

        if is_cut:
            raise GapRemains("this server shows only the newest messages of a channel")

    async def _rounds(self, after: int, *, listens: bool) -> AsyncIterator[Sequence[SessionSource]]:
        """Yield the chats that are read together."""
        places = await self._chats()
        self._note_direct_chats(places)
        strangers = [each for each in places if self._has_to_be_opened(each)]
        unknown = set(strangers)
        known = [each for each in places if each not in unknown]
        if not listens:
            for each in (*known[_MOST_IN_ONE_ROUND:], *strangers[_MOST_OPENED:]):
                self._left[each] = min(after, self._left.get(each, after))
            yield [*known[:_MOST_IN_ONE_ROUND], *strangers[:_MOST_OPENED]]
            return

        for first in range(0, len(known), _MOST_IN_ONE_ROUND):
            yield known[first : first + _MOST_IN_ONE_ROUND]
        for each in strangers:
            await asyncio.sleep(self._timeouts.open)
            yield [each]

    def _histories(self, channels: Sequence[tuple[Channel, int]]) -> Iterator[list[History]]:
        """Yield the histories of channels, as many at a time as fit into memory."""
        for first in range(0, len(channels), _MOST_IN_ONE_ROUND):
            some = channels[first : first + _MOST_IN_ONE_ROUND]
            yield [History(self._api, chat, after) for chat, after in some]

    def _note_direct_chats(self, places: Sequence[SessionSource]) -> None:
        """Learn from sessions which direct chat is whose, so that none of them is opened."""
        for each in places:
            is_direct = each.chat_type is ChatType.DM and each.user_id is not None
            if is_direct and each.chat_id is not None and is_id(each.chat_id):
                self._cache.opened(str(each.user_id), each.chat_id)

    def _has_to_be_opened(self, source: SessionSource) -> bool:
        return (
            source.chat_type is ChatType.DM
            and source.chat_id is None
            and self._cache.direct_with(source.user_id or "") is None
        )

    async def _merged(
        self, histories: list[History], since: datetime
    ) -> AsyncIterator[InboundMessage]:
        """Yield the messages of several channels, oldest first."""
        await _run_all([history.begin for history in histories])
        if not await self._has_timed_ids(histories):
            await _run_all([partial(history.load_newest, since) for history in histories])

        waiting = [(history.next_id, number) for number, history in enumerate(histories)]
        heap = [(id_, number) for id_, number in waiting if id_ is not None]
        heapq.heapify(heap)

        while heap:
            _, number = heap[0]
            history = histories[number]
            message = await self._reader.read("MESSAGE_CREATE", await history.take(), history.chat)
            next_id = history.next_id
            if next_id is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (next_id, number))
            if message is not None:
                yield message

    async def _has_timed_ids(self, histories: list[History]) -> bool:
        """
        Check whether ids contain the time; on other servers they may be counters. Determined once,
        by a chat with messages.
        """
        if any(history.next_id is not None for history in histories):
            self._timed_ids = True
        for history in histories[:_MOST_CHECKED]:
            if self._timed_ids is None:
                self._timed_ids = await history.has_timed_ids()
        return self._timed_ids is not False

    async def newest(self, most: int) -> list[str]:
        """Return the channels of the newest sessions."""
        channels = [source.thread_id or source.chat_id for source in await self._chats()]
        return list(dict.fromkeys(each for each in channels if each is not None and is_id(each)))[
            :most
        ]

    async def _find_all(self, sources: Sequence[SessionSource], after: int) -> _Found:
        """Find the channels to read. Those the bot cannot see are skipped."""
        found: _Found = {}
        for source in sources:
            with suppress(Undeliverable):
                await self._find(source, self._left.get(source, after), found)
        return found

    async def _find(self, source: SessionSource, after: int, found: _Found) -> None:
        channel = source.thread_id or source.chat_id
        if channel in found and source.user_id is not None:
            return
        if source.chat_type is ChatType.DM:
            known = checked(channel) if channel else await self._opened(checked(source.user_id))
            _put(found, direct(known), after)
        elif channel is not None and is_id(channel):
            await self._find_channel(channel, source, after, found)
        elif source.scope is not None and is_id(source.scope):
            await self._find_guild(source.scope, after, found)

    async def _opened(self, person: str) -> str:
        return await retry_throttled(lambda: self._sender.direct_with(person))

    async def _find_channel(
        self, channel: str, source: SessionSource, after: int, found: _Found
    ) -> None:
        """Add a channel; one that the config allows is added with its threads."""
        chat = await self._locate(channel, source)
        if not chat.takes_only_posts:
            _put(found, chat, after)

        if (
            source.thread_id is None
            and source.user_id is None
            and chat.guild is not None
            and not chat.is_thread
        ):
            for thread in await self._active_threads(chat.guild):
                if str(thread.get("parent_id")) == channel:
                    await self._add(thread, after, found)

    async def _locate(self, channel: str, source: SessionSource) -> Channel:
        """
        Return the channel as Discord describes it, or as the session knows it. A deleted one has no
        history.
        """
        try:
            return await retry_throttled(lambda: self._directory.find(channel, guild=source.scope))
        except Undeliverable:
            if source.scope is None:
                raise
            kind = (
                {"type": TEXT}
                if source.thread_id is None
                else {"type": PUBLIC_THREAD, "parent_id": source.chat_id}
            )
            self._directory.note({"id": channel, "guild_id": source.scope, **kind})
            return await self._directory.find(channel)

    async def _find_guild(self, guild: str, after: int, found: _Found) -> None:
        channels = await retry_throttled(
            lambda: self._api.objects("GET", "/guilds/{guild_id}/channels", {"guild_id": guild})
        )
        channels = [each for each in channels if id_in(each, "id")]
        for channel in channels:
            self._directory.note({**channel, "guild_id": guild})
        for channel in channels:
            if channel.get("type", TEXT) in _TEXT_CHANNELS:
                await self._add({**channel, "guild_id": guild}, after, found)
        for thread in await self._active_threads(guild):
            await self._add(thread, after, found)

    async def _add(self, channel: Payload, after: int, found: _Found) -> None:
        """
        Add a channel unless it has no newer message. Some servers do not report its last message.
        """
        is_told = channel.get("last_message_id", "") is None or id_in(channel, "last_message_id")
        if not is_told or int(id_in(channel, "last_message_id") or 0) > after:
            _put(found, await self._directory.find(needed_id(channel, "id")), after)

    async def _active_threads(self, guild: str) -> list[Payload]:
        path = "/guilds/{guild_id}/threads/active"
        answer = await retry_throttled(lambda: self._api.call("GET", path, {"guild_id": guild}))
        threads: list[Payload] = [
            {**thread, "guild_id": guild}
            for thread in objects_in(answer or {}, "threads")
            if id_in(thread, "id")
        ]
        for thread in threads:
            self._directory.note(thread)
        return threads


def _put(found: _Found, chat: Channel, after: int) -> None:
    """Add a channel, which may be listed twice: by its session and by the config."""
    _, earlier = found.get(chat.channel, (chat, after))
    found[chat.channel] = chat, min(after, earlier)


async def _run_all(questions: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run them with limited concurrency: one by one, a hundred channels take too long."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def ask(question: Callable[[], Awaitable[None]]) -> None:
        async with room:
            await question()

    asking = [asyncio.ensure_future(ask(question)) for question in questions]
    try:
        await asyncio.gather(*asking)
    finally:
        for each in asking:
            each.cancel()
