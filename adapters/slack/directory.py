"""
Lookup of chats, threads and users that an event refers to.

Results are cached. A name that cannot be looked up in time is left out. Whether the bot takes part
in a thread cannot be guessed: if that lookup fails, the event is not acknowledged and Slack resends
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

from slack_sdk.web.async_slack_response import AsyncSlackResponse

from turngate.adapters.slack.account import Timeouts
from turngate.adapters.slack.api import (
    Answer,
    Api,
    MissingScope,
)
from turngate.adapters.slack.cache import BoundedCache, Cache
from turngate.adapters.slack.history_reader import messages_of, next_cursor
from turngate.adapters.slack.identity import (
    BotIdentity,
    Chat,
    EventContext,
    Kind,
)
from turngate.adapters.slack.json_fields import dict_in, text_in
from turngate.adapters.slack.lookup_keys import LookupKeys
from turngate.adapters.slack.normalise import mentions
from turngate.adapters.slack.sources import Author
from turngate.gateway.domain.errors import (
    Throttled,
    TurngateError,
    Undeliverable,
    Unreachable,
)

_PAGE = 200
_MOST_PAGES = 5
_ASSISTANT_THREAD = "assistant_app_thread"
_DIRECT_PREFIXES = ("D", "U", "W")
_PERMANENT = (Undeliverable, MissingScope)


class Directory:
    """Cached lookups of one bot."""

    def __init__(self, api: Api, cache: Cache, timeouts: Timeouts) -> None:
        self._api = api
        self._cache = cache
        self._timeouts = timeouts
        self._chats: BoundedCache[Chat] = BoundedCache()
        self._names: BoundedCache[str] = BoundedCache()

    def kind_of(self, chat: str) -> Kind:
        """
        Return the chat type without a request: from the cache, or guessed from the id. A user id
        means the direct chat with that user.
        """
        known = self._chats.get(chat)

        return (
            known.kind
            if known is not None
            else Kind.IM
            if chat[:1] in _DIRECT_PREFIXES
            else Kind.CHANNEL
        )

    def learn(self, channel: Answer) -> None:
        """Cache a chat object that was part of another answer."""
        if isinstance(channel.get("id"), str):
            self._chats.put(channel["id"], Chat.of(channel))

    async def known(self, keys: LookupKeys, me: BotIdentity) -> EventContext:
        """
        Look up everything needed to normalise an event.

        Raises the error of the lookup if the thread's participants or the chat type cannot be
        determined.
        """
        until = asyncio.get_running_loop().time() + self._timeouts.ack
        chat = await self._chat(keys, until)
        kind = chat.kind if chat is not None else keys.kind
        name = await self._name(keys.user, until)

        return EventContext(
            chat=chat,
            takes_part=kind is not Kind.IM and await self._takes_part(keys, me),
            is_assistant=kind is Kind.IM and await self._is_assistant(keys, me),
            names={keys.user: name} if keys.user and name else {},
        )

    async def _chat(self, keys: LookupKeys, until: float) -> Chat | None:
        """
        Look up the chat. A command may come from a chat that the bot is not in and cannot look up.
        """
        if self._chats.get(keys.chat) is None:
            try:
                answer = await self._in_time(
                    self._api.client.conversations_info(channel=keys.chat), until
                )
            except _PERMANENT:
                return None
            except TurngateError:
                # Without the chat type the session cannot be determined.
                if keys.kind is None:
                    raise
                return None

            channel = answer.get("channel")
            self.learn(channel if isinstance(channel, dict) else {})

        return self._chats.get(keys.chat)

    async def _name(self, user: str | None, until: float) -> str | None:
        """Look up the user's display name. Ids unknown to Slack are cached as nameless."""
        if user is None:
            return None

        if self._names.get(user) is None:
            try:
                found = (await self._in_time(self._api.client.users_info(user=user), until)).get(
                    "user"
                )
            except _PERMANENT:
                found = None
            except TurngateError:
                return None
            self._names.put(user, _display_name(found))

        return self._names.get(user) or None

    async def _in_time(self, request: Awaitable[AsyncSlackResponse], until: float) -> Answer:
        """Await a lookup until the deadline, because Slack waits for the acknowledgement."""
        try:
            async with asyncio.timeout_at(until):
                return await self._api.answer(request)
        except TimeoutError as exc:
            raise Unreachable("Slack did not answer in time") from exc

    async def _takes_part(self, keys: LookupKeys, me: BotIdentity) -> bool:
        """
        Whether the bot wrote in the thread or was mentioned there.

        On a rate limit assume no: threads with a conversation of the gateway are cached anyway.
        """
        if keys.thread is None:
            return False

        known = self._cache.takes_part.get((keys.chat, keys.thread))
        if known is None:
            try:
                messages = [each async for each in self._thread(keys.chat, keys.thread)]
            except Throttled:
                return False
            known = any(Author.of(each).is_self(me) or mentions(each, me) for each in messages)
            self._cache.takes_part.put((keys.chat, keys.thread), known)

        return known

    async def _is_assistant(self, keys: LookupKeys, me: BotIdentity) -> bool:
        """Whether the thread belongs to the assistant pane, where each is begun by the app."""
        if keys.thread is None or keys.thread_by not in (None, me.user):
            return False
        known = self._cache.assistants.get((keys.chat, keys.thread))
        if known is None:
            first = [
                each async for each in self._thread(keys.chat, keys.thread, limit=1, most_pages=1)
            ]
            known = any(each.get("subtype") == _ASSISTANT_THREAD for each in first)
            self._cache.assistants.put((keys.chat, keys.thread), known)
        return known

    async def _thread(
        self, chat: str, thread: str, *, limit: int = _PAGE, most_pages: int = _MOST_PAGES
    ) -> AsyncIterator[Answer]:
        """Yield the first messages of a thread, at most a thousand by default."""
        cursor: str | None = None

        for _ in range(most_pages):
            request = self._api.client.conversations_replies(
                channel=chat, ts=thread, limit=limit, cursor=cursor
            )
            try:
                answer = await self._api.answer(request)
            except _PERMANENT:
                # The parent message was deleted, the bot was removed, or a scope is missing.
                return

            for message in messages_of(answer):
                yield message

            cursor = next_cursor(answer)
            if cursor is None:
                return


def _display_name(user: object) -> str:
    if not isinstance(user, dict):
        return ""
    profile = dict_in(user, "profile")
    return text_in(profile, "display_name", "real_name") or text_in(user, "real_name", "name")
