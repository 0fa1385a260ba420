"""
Backfill of messages that were missed while offline. Slack retries an event three times within
minutes and then drops it.

Reads the chats that the bot is a member of, their threads with new replies, and those threads of
the gateway's last conversations for which no history reports a reply time (they are older, or the
server does not report it). A thread is read only for one of these reasons, because there may be
thousands. Messages are sorted before the first one is yielded.

A run before the connection delays it, so it reads only some of the threads without a reply time;
the others are read by the run that follows once events arrive.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from turngate.adapters.slack.api import (
    Answer,
    Api,
    MissingScope,
)
from turngate.adapters.slack.directory import Directory
from turngate.adapters.slack.events import Events
from turngate.adapters.slack.history_reader import (
    HistoryReader,
    messages_of,
    next_cursor,
    objects_in,
    timestamp_of,
)
from turngate.adapters.slack.identity import Kind
from turngate.gateway.domain.errors import GapRemains, Undeliverable
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.ports.adapter import CatchUpChats

Thread = tuple[str, str]
"""A chat and the timestamp of the thread in it."""

MOST_CHATS = 1000
MOST_THREADS = 500
MOST_UNLISTED_THREADS = 50
"""Read before the connection."""
MOST_PAGES = 50
MOST_MESSAGES = 10_000
LONGEST = 300.0
"""
Seconds. Slack allows about fifty pages a minute, and no events are received until the first run is
over.
"""

_TIMESTAMP = re.compile(r"\d+\.\d+")
_KINDS = ("im", "mpim", "public_channel", "private_channel")
_PAGE = 200
# A history reports the latest reply only for threads whose parent it contains, so read further back
# than the gap: a little everywhere, more in direct chats, where people write in threads of their
# own, and to the oldest known conversation of the chat.
_NEWER = timedelta(days=2)
_NEWER_DIRECT = timedelta(days=14)
_NEWER_KNOWN = timedelta(days=30)
# The bot was removed, the chat was deleted, or a scope is missing: skip the chat.
_UNREADABLE = (Undeliverable, MissingScope)


class CatchUpRuns:
    """What the backfill runs of one bot share."""

    def __init__(self) -> None:
        self.is_connected = False
        """Whether events are received, so that a run may take its time."""
        self.unread: dict[Thread, str] = {}
        """Threads that a run left to the next one, each with the time since which to read it."""


class CatchUp:
    """One backfill run of one bot."""

    def __init__(
        self,
        api: Api,
        directory: Directory,
        events: Events,
        catch_up_chats: CatchUpChats,
        runs: CatchUpRuns,
        since: datetime,
    ) -> None:
        self._api = api
        self._reader = HistoryReader(api)
        self._directory = directory
        self._catch_up_chats = catch_up_chats
        self._events = events
        self._runs = runs
        self._since = timestamp_of(since)
        self._newer_than = timestamp_of(since - _NEWER)
        self._newer_than_direct = timestamp_of(since - _NEWER_DIRECT)
        self._newer_than_known = timestamp_of(since - _NEWER_KNOWN)
        self._found: dict[tuple[str, str], Answer] = {}
        self._with_reply_time: set[Thread] = set()
        self._is_gap = False
        self._until = asyncio.get_running_loop().time() + LONGEST

    async def messages(self) -> AsyncIterator[InboundMessage]:
        """
        Yield the missed messages, oldest first. Raises GapRemains at the end if some were not read.
        """
        conversations = await self._catch_up_chats()
        oldest = _oldest_threads(conversations)
        threads = dict[Thread, str]()

        for chat in await self._chats(conversations):
            if self._is_late():
                break
            with suppress(*_UNREADABLE):
                found = await self._read_chat(chat, self._newer_than_in(chat, oldest.get(chat)))
                threads |= dict.fromkeys(found, self._since)

        # Known after the chats were read, because they report the reply times.
        threads |= self._threads_without_reply_time(conversations)
        self._is_gap |= len(threads) > MOST_THREADS
        for (chat, thread), since in list(threads.items())[:MOST_THREADS]:
            if self._is_late():
                break
            with suppress(*_UNREADABLE):
                await self._read_thread(chat, thread, since)

        # Across chats and threads, in the order in which they were written.
        for (chat, _), message in sorted(self._found.items(), key=lambda item: float(item[0][1])):
            normalised = await self._events.of_history(message, chat)
            if normalised is not None:
                yield normalised

        if self._is_gap:
            raise GapRemains("Slack no longer has all missed messages, or there were too many")

    async def _chats(self, conversations: Sequence[SessionSource]) -> list[str]:
        """
        Return the chats to read: those with conversations first, then the others the bot is in.
        """
        known = dict.fromkeys(each.chat_id for each in conversations if each.chat_id)
        found = {chat async for chat in self._memberships()}
        chats = [*filter(None, known), *sorted(found - set(known))]
        self._is_gap |= len(chats) > MOST_CHATS
        return chats[:MOST_CHATS]

    async def _memberships(self) -> AsyncIterator[str]:
        """
        Yield the bot's chats type by type, so that a missing scope for one type does not affect the
        others.
        """
        for kind in _KINDS:
            with suppress(*_UNREADABLE):
                async for chat in self._memberships_of(kind):
                    yield chat

    async def _memberships_of(self, kind: str) -> AsyncIterator[str]:
        fetch = self._api.client.users_conversations
        pages = self._reader.pages(
            lambda cursor: fetch(types=kind, exclude_archived=True, limit=_PAGE, cursor=cursor)
        )
        async for page in pages:
            for each in objects_in(page, "channels"):
                if isinstance(each.get("id"), str):
                    self._directory.learn(each)
                    yield each["id"]

    def _threads_without_reply_time(
        self, conversations: Sequence[SessionSource]
    ) -> dict[Thread, str]:
        """
        Return conversations in threads for which no history reported a reply time, newest first,
        each with the time since which to read it.
        """
        unread = self._runs.unread
        known = [
            (each.chat_id, each.thread_id)
            for each in conversations
            if each.chat_id and each.thread_id
        ]
        threads = {
            thread: min(unread.get(thread, self._since), self._since, key=float)
            for thread in (*known, *unread)
            if thread not in self._with_reply_time or thread in unread
        }

        now = list(threads)
        if not self._runs.is_connected:
            now = now[:MOST_UNLISTED_THREADS]
        self._runs.unread = {
            thread: since for thread, since in threads.items() if thread not in now
        }
        return {thread: threads[thread] for thread in now}

    def _newer_than_in(self, chat: str, oldest_thread: str | None) -> str:
        """Return the time since which to read a chat, to learn of new replies in its threads."""
        newer_than = (
            self._newer_than_direct
            if self._directory.kind_of(chat) is Kind.IM
            else self._newer_than
        )
        if oldest_thread is None:
            return newer_than
        known = max(oldest_thread, self._newer_than_known, key=float)
        return min(newer_than, known, key=float)

    async def _read_chat(self, chat: str, newer_than: str) -> list[Thread]:
        """Read a chat and return its threads with new replies."""
        threads = list[Thread]()
        pages = 0

        async for page in self._reader.chat_pages(chat, newer_than):
            pages += 1
            # Free workspaces hide older messages.
            self._is_gap |= page.get("is_limited") is True

            for message in messages_of(page):
                self._keep(chat, message, self._since)
                if message.get("latest_reply"):
                    self._with_reply_time.add((chat, message["ts"]))
                # Only threads with replies since the gap are read.
                if not _is_before(str(message.get("latest_reply") or "0"), self._since):
                    threads.append((chat, message["ts"]))

            if self._is_full(page) or pages >= MOST_PAGES:
                self._is_gap |= next_cursor(page) is not None
                break

        return threads

    async def _read_thread(self, chat: str, thread: str, since: str) -> None:
        async for page in self._reader.thread_pages(chat, thread, since):
            for message in messages_of(page):
                self._keep(chat, message, since)
            if self._is_full(page):
                break

    def _keep(self, chat: str, message: Answer, since: str) -> None:
        if not _is_before(message["ts"], since):
            self._found[chat, message["ts"]] = message

    def _is_full(self, page: Answer) -> bool:
        is_full = len(self._found) >= MOST_MESSAGES or self._is_late()
        self._is_gap |= is_full and next_cursor(page) is not None
        return is_full

    def _is_late(self) -> bool:
        is_late = asyncio.get_running_loop().time() > self._until
        self._is_gap |= is_late
        return is_late


def _oldest_threads(conversations: Sequence[SessionSource]) -> dict[str, str]:
    """Return the oldest thread with a conversation of each chat."""
    oldest = dict[str, str]()
    for each in conversations:
        thread = each.thread_id or ""
        if each.chat_id and _TIMESTAMP.fullmatch(thread):
            oldest[each.chat_id] = min(oldest.get(each.chat_id, thread), thread, key=float)
    return oldest


def _is_before(ts: str, moment: str) -> bool:
    try:
        return float(ts) < float(moment)
    except ValueError:
        return True
