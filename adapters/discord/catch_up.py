"""
What was said while nobody listened, out of the channels' histories.

Discord keeps nothing for a bot that was away, and does not even tell it which direct chats it has. So every channel,
thread and direct chat in which there is a conversation, or in which one is allowed, is looked at.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import (
    ANNOUNCEMENT,
    PUBLIC_THREAD,
    TEXT,
    VOICE,
    Payload,
    Place,
)
from turngate.adapters.discord.directory import Atlas, direct
from turngate.adapters.discord.history_reader import History, patiently
from turngate.adapters.discord.ids import checked, id_at, is_id
from turngate.adapters.discord.intake import Reader
from turngate.adapters.discord.sending import Sender
from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.messages import ChatType, InboundMessage, SessionSource
from turngate.gateway.domain.ports.adapter import Places

_AT_ONCE = 8
_LOOKED_AT = 3
_MOST_CHANNELS = 1000
# Discord looks with suspicion at bots that open many direct chats at once.
_MOST_OPENED = 25
_WRITTEN_IN = (TEXT, VOICE, ANNOUNCEMENT)


class Historian:
    """Of one bot."""

    def __init__(
        self, api: Api, atlas: Atlas, reader: Reader, sender: Sender, places: Places
    ) -> None:
        self._api = api
        self._atlas = atlas
        self._reader = reader
        self._sender = sender
        self._places = places
        self._ids_tell_time: bool | None = None

    async def read(self, since: datetime) -> AsyncIterator[InboundMessage]:
        """Oldest first, across all of them."""
        after = id_at(since)
        histories = [
            History(self._api, place, after) for place in (await self._known(after)).values()
        ]
        await _at_once([history.begin for history in histories])
        if not await self._tell_time(histories):
            await _at_once([partial(history.look_back, since) for history in histories])
        waiting = [(history.next_id, number) for number, history in enumerate(histories)]
        heap = [(id_, number) for id_, number in waiting if id_ is not None]
        heapq.heapify(heap)
        while heap:
            _, number = heap[0]
            history = histories[number]
            message = await self._reader.read("MESSAGE_CREATE", await history.take(), history.place)
            next_id = history.next_id
            if next_id is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (next_id, number))
            if message is not None:
                yield message

    async def _tell_time(self, histories: list[History]) -> bool:
        """Whether ids do. A server of another kind may just count; it is found out once, where something was said."""
        if any(history.next_id is not None for history in histories):
            self._ids_tell_time = True
        for history in histories[:_LOOKED_AT]:
            if self._ids_tell_time is None:
                self._ids_tell_time = await history.ids_tell_time()
        return self._ids_tell_time is not False

    async def newest(self, most: int) -> list[str]:
        """The channels in which there was a conversation last."""
        channels = [source.thread_id or source.chat_id for source in await self._places()]
        return list(dict.fromkeys(each for each in channels if each is not None and is_id(each)))[
            :most
        ]

    async def _known(self, after: int) -> dict[str, Place]:
        """By channel. Of what cannot be seen any more nothing can be read."""
        found: dict[str, Place] = {}
        opened = 0
        for source in await self._places():
            if len(found) >= _MOST_CHANNELS:
                break
            opens = source.chat_type is ChatType.DM and source.chat_id is None
            opened += opens
            if opens and opened > _MOST_OPENED:
                continue
            try:
                await self._find(source, after, found)
            except Undeliverable:
                continue
        return found

    async def _find(self, source: SessionSource, after: int, found: dict[str, Place]) -> None:
        channel = source.thread_id or source.chat_id
        if channel in found and source.user_id is not None:
            return
        if source.chat_type is ChatType.DM:
            known = checked(channel) if channel else await self._opened(checked(source.user_id))
            found[known] = direct(known)
        elif channel is not None and is_id(channel):
            await self._find_channel(channel, source, after, found)
        elif source.scope is not None and is_id(source.scope):
            await self._find_guild(source.scope, after, found)

    async def _opened(self, person: str) -> str:
        return await patiently(lambda: self._sender.direct_with(person))

    async def _find_channel(
        self, channel: str, source: SessionSource, after: int, found: dict[str, Place]
    ) -> None:
        """A channel that is allowed is allowed with its threads."""
        place = await self._place(channel, source)
        if not place.takes_only_posts:
            found[channel] = place  # what is allowed is named after what is known, and may be both
        if (
            source.thread_id is None
            and source.user_id is None
            and place.guild is not None
            and not place.is_thread
        ):
            for thread in await self._active_threads(place.guild):
                if str(thread.get("parent_id")) == channel:
                    await self._add(thread, after, found)

    async def _place(self, channel: str, source: SessionSource) -> Place:
        """As Discord tells of it, or else as it was when somebody wrote there. Of what is gone there is no history."""
        try:
            return await patiently(lambda: self._atlas.place(channel, guild=source.scope))
        except Undeliverable:
            if source.scope is None:
                raise
            kind = (
                {"type": TEXT}
                if source.thread_id is None
                else {"type": PUBLIC_THREAD, "parent_id": source.chat_id}
            )
            self._atlas.note({"id": channel, "guild_id": source.scope, **kind})
            return await self._atlas.place(channel)

    async def _find_guild(self, guild: str, after: int, found: dict[str, Place]) -> None:
        channels = await patiently(
            lambda: self._api.objects("GET", "/guilds/{guild_id}/channels", {"guild_id": guild})
        )
        for channel in channels:
            self._atlas.note({**channel, "guild_id": guild})
        for channel in channels:
            if channel.get("type", TEXT) in _WRITTEN_IN:
                await self._add({**channel, "guild_id": guild}, after, found)
        for thread in await self._active_threads(guild):
            await self._add(thread, after, found)

    async def _add(self, channel: Payload, after: int, found: dict[str, Place]) -> None:
        """Where nothing was said since, there is nothing to read. Some servers do not say when that was."""
        if "last_message_id" not in channel or int(channel["last_message_id"] or 0) > after:
            found.setdefault(str(channel["id"]), await self._atlas.place(str(channel["id"])))

    async def _active_threads(self, guild: str) -> list[Payload]:
        path = "/guilds/{guild_id}/threads/active"
        told = await patiently(lambda: self._api.call("GET", path, {"guild_id": guild}))
        threads: list[Payload] = [
            {**thread, "guild_id": guild} for thread in (told or {}).get("threads") or ()
        ]
        for thread in threads:
            self._atlas.note(thread)
        return threads


async def _at_once(questions: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """A few of them at once: Discord is slow to answer a hundred one by one."""
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
