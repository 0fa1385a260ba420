"""
What was said while nobody listened: Slack tries an event three times within minutes, and then it is gone.

Read are the chats that the bot is in, those of their newer threads that somebody has answered in since, and those of
the gateway's last conversations that no history tells of, because they are older, or because the server does not say
so: a thread is asked for only if there is a reason, because there may be thousands. Everything is put into one order
before anything of it is handed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from turngate.adapters.slack.api import Answer, Api, MissingScope
from turngate.adapters.slack.directory import Directory
from turngate.adapters.slack.history_reader import (
    HistoryReader,
    messages_of,
    next_cursor,
    stamp_of,
    things_of,
)
from turngate.adapters.slack.identity import Me
from turngate.adapters.slack.lookup_keys import about_message
from turngate.adapters.slack.normalise import from_history
from turngate.gateway.domain.errors import GapRemains, Undeliverable
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.ports.adapter import Places

MOST_CHATS = 1000
MOST_THREADS = 500
MOST_UNTOLD_THREADS = 50
MOST_PAGES = 50
MOST_MESSAGES = 10_000
LONGEST = 300.0
"""Seconds. Slack lets itself be asked for some fifty pages a minute, and until all is read nobody listens."""

_KINDS = ("im", "mpim", "public_channel", "private_channel")
_PAGE = 200
# A history tells of the threads that were begun in it when somebody last answered there, and of no others.
_NEWER = timedelta(days=2)
# The bot was removed from there, or the chat is gone, or it may not read such chats at all.
_UNREADABLE = (Undeliverable, MissingScope)


class CatchUp:
    """Once through everything, for one bot."""

    def __init__(
        self, api: Api, lookups: Directory, places: Places, me: Me, since: datetime
    ) -> None:
        self._api = api
        self._histories = HistoryReader(api)
        self._lookups = lookups
        self._places = places
        self._me = me
        self._since = stamp_of(since)
        self._newer_than = stamp_of(since - _NEWER)
        self._found: dict[tuple[str, str], Answer] = {}
        self._told: set[tuple[str, str]] = set()
        self._is_gap = False
        self._until = asyncio.get_running_loop().time() + LONGEST

    async def messages(self) -> AsyncIterator[InboundMessage]:
        """Oldest first. Raises GapRemains at the end if there was more."""
        places = await self._places()
        threads = dict[tuple[str, str], None]()
        for chat in await self._chats(places):
            if self._is_late():
                break
            with suppress(*_UNREADABLE):
                threads |= dict.fromkeys(await self._read_chat(chat))
        threads |= dict.fromkeys(self._untold_threads(places))
        self._is_gap |= len(threads) > MOST_THREADS
        for chat, thread in list(threads)[:MOST_THREADS]:
            if self._is_late():
                break
            with suppress(*_UNREADABLE):
                await self._read_thread(chat, thread)
        for (chat, _), message in sorted(self._found.items(), key=lambda item: float(item[0][1])):
            understood = await self._understood(chat, message)
            if understood is not None:
                yield understood
        if self._is_gap:
            raise GapRemains(
                "Slack no longer has everything that was said, or there was too much of it"
            )

    async def _chats(self, places: Sequence[SessionSource]) -> list[str]:
        """Those with conversations first, and then all others that the bot is in."""
        known = dict.fromkeys(each.chat_id for each in places if each.chat_id)
        found = {chat async for chat in self._memberships()}
        chats = [*filter(None, known), *sorted(found - set(known))]
        self._is_gap |= len(chats) > MOST_CHATS
        return chats[:MOST_CHATS]

    async def _memberships(self) -> AsyncIterator[str]:
        """Kind by kind: a bot that may not read one kind of chats still reads the others."""
        for kind in _KINDS:
            with suppress(*_UNREADABLE):
                async for chat in self._memberships_of(kind):
                    yield chat

    async def _memberships_of(self, kind: str) -> AsyncIterator[str]:
        ask = self._api.client.users_conversations
        pages = self._histories.pages(
            lambda cursor: ask(types=kind, exclude_archived=True, limit=_PAGE, cursor=cursor)
        )
        async for page in pages:
            for each in things_of(page, "channels"):
                if isinstance(each.get("id"), str):
                    self._lookups.learn(each)
                    yield each["id"]

    def _untold_threads(self, places: Sequence[SessionSource]) -> list[tuple[str, str]]:
        """Conversations of which no history tells when somebody last answered there. The newest come first."""
        threads = (
            (each.chat_id, each.thread_id) for each in places if each.chat_id and each.thread_id
        )
        return [thread for thread in threads if thread not in self._told][:MOST_UNTOLD_THREADS]

    async def _read_chat(self, chat: str) -> list[tuple[str, str]]:
        """Returns the threads in which something was answered since."""
        threads, pages = list[tuple[str, str]](), 0
        async for page in self._histories.said_in(chat, self._newer_than):
            pages += 1
            self._is_gap |= page.get("is_limited") is True
            for message in messages_of(page):
                self._keep(chat, message)
                if message.get("latest_reply"):
                    self._told.add((chat, message["ts"]))
                if not _is_before(str(message.get("latest_reply") or "0"), self._since):
                    threads.append((chat, message["ts"]))
            if self._is_full(page) or pages >= MOST_PAGES:
                self._is_gap |= next_cursor(page) is not None
                break
        return threads

    async def _read_thread(self, chat: str, thread: str) -> None:
        async for page in self._histories.said_below(chat, thread, self._since):
            for message in messages_of(page):
                self._keep(chat, message)
            if self._is_full(page):
                break

    def _keep(self, chat: str, message: Answer) -> None:
        if not _is_before(message["ts"], self._since):
            self._found[chat, message["ts"]] = message

    def _is_full(self, page: Answer) -> bool:
        is_full = len(self._found) >= MOST_MESSAGES or self._is_late()
        self._is_gap |= is_full and next_cursor(page) is not None
        return is_full

    def _is_late(self) -> bool:
        is_late = asyncio.get_running_loop().time() > self._until
        self._is_gap |= is_late
        return is_late

    async def _understood(self, chat: str, message: Answer) -> InboundMessage | None:
        about = about_message(message, chat)
        if about is None:
            return None
        return from_history(message, chat, self._me, await self._lookups.known(about, self._me))


def _is_before(ts: str, moment: str) -> bool:
    try:
        return float(ts) < float(moment)
    except ValueError:
        return True
