"""
What has to be known of a chat, a thread and a person before something that was said there can be understood.

Asked of Slack once, and remembered. A name that cannot be had now is done without; whether a thread is one of the bot's
cannot be guessed, so then Slack keeps the message, and hands it out again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

from slack_sdk.web.async_slack_response import AsyncSlackResponse

from turngate.adapters.slack.account import Patience
from turngate.adapters.slack.api import Answer, Api, MissingScope
from turngate.adapters.slack.cache import BoundedCache, Memory
from turngate.adapters.slack.history_reader import messages_of, next_cursor
from turngate.adapters.slack.identity import EventContext, Kind, Me, Place
from turngate.adapters.slack.lookup_keys import LookupKeys
from turngate.adapters.slack.normalise import mentions
from turngate.adapters.slack.sources import Author
from turngate.gateway.domain.errors import Throttled, TurngateError, Undeliverable, Unreachable

_PAGE = 200
_MOST_PAGES = 5
_PANE = "assistant_app_thread"
_OF_ONE = ("D", "U", "W")
_NEVER = (Undeliverable, MissingScope)


class Directory:
    """Of one bot."""

    def __init__(self, api: Api, memory: Memory, patience: Patience) -> None:
        self._api = api
        self._memory = memory
        self._patience = patience
        self._places: BoundedCache[Place] = BoundedCache()
        self._names: BoundedCache[str] = BoundedCache()

    def kind_of(self, chat: str) -> Kind:
        """As far as it is known without asking: what was looked up, or what the id looks like. A person's is his DM."""
        known = self._places.get(chat)
        return known.kind if known is not None else Kind.IM if chat[:1] in _OF_ONE else Kind.CHANNEL

    def learn(self, channel: Answer) -> None:
        """What Slack says of a chat without being asked for it in particular."""
        if isinstance(channel.get("id"), str):
            self._places.put(channel["id"], Place.of(channel))

    async def known(self, about: LookupKeys, me: Me) -> EventContext:
        """Raises what Slack says if it cannot be found out whose thread this is, or what kind of chat."""
        until = asyncio.get_running_loop().time() + self._patience.ack
        place = await self._place(about, until)
        kind = place.kind if place is not None else about.kind
        name = await self._name(about.user, until)
        return EventContext(
            place=place,
            takes_part=kind is not Kind.IM and await self._takes_part(about, me),
            is_assistants=kind is Kind.IM and await self._is_assistants(about),
            names={about.user: name} if about.user and name else {},
        )

    async def _place(self, about: LookupKeys, until: float) -> Place | None:
        """A command may come from a chat that the bot is not in, and of which Slack tells it nothing."""
        if self._places.get(about.chat) is None:
            try:
                said = await self._soon(
                    self._api.client.conversations_info(channel=about.chat), until
                )
            except _NEVER:
                return None
            except TurngateError:
                if about.kind is None:
                    raise
                return None
            channel = said.get("channel")
            self.learn(channel if isinstance(channel, dict) else {})
        return self._places.get(about.chat)

    async def _name(self, user: str | None, until: float) -> str | None:
        """What people call him. One whom Slack does not know as a person has none, and is not asked for again."""
        if user is None:
            return None
        if self._names.get(user) is None:
            try:
                found = (await self._soon(self._api.client.users_info(user=user), until)).get(
                    "user"
                )
            except _NEVER:
                found = None
            except TurngateError:
                return None
            self._names.put(user, _display_name(found))
        return self._names.get(user) or None

    async def _soon(self, asking: Awaitable[AsyncSlackResponse], until: float) -> Answer:
        """Slack waits to hear that we have the message."""
        try:
            async with asyncio.timeout_at(until):
                return await self._api.answer(asking)
        except TimeoutError as exc:
            raise Unreachable("Slack did not answer in time") from exc

    async def _takes_part(self, about: LookupKeys, me: Me) -> bool:
        """Where others talk too much for Slack to tell, the gateway's own conversations are known all the same."""
        if about.thread is None:
            return False
        known = self._memory.takes_part.get((about.chat, about.thread))
        if known is None:
            try:
                said = [each async for each in self._thread(about.chat, about.thread)]
            except Throttled:
                return False
            known = any(Author.of(each).is_(me) or mentions(each, me) for each in said)
            self._memory.takes_part.put((about.chat, about.thread), known)
        return known

    async def _is_assistants(self, about: LookupKeys) -> bool:
        if about.thread is None:
            return False
        known = self._memory.assistants.get((about.chat, about.thread))
        if known is None:
            first = [
                each async for each in self._thread(about.chat, about.thread, limit=1, most_pages=1)
            ]
            known = any(each.get("subtype") == _PANE for each in first)
            self._memory.assistants.put((about.chat, about.thread), known)
        return known

    async def _thread(
        self, chat: str, thread: str, *, limit: int = _PAGE, most_pages: int = _MOST_PAGES
    ) -> AsyncIterator[Answer]:
        """From its beginning; nobody speaks up first after a thousand others."""
        cursor: str | None = None
        for _ in range(most_pages):
            asking = self._api.client.conversations_replies(
                channel=chat, ts=thread, limit=limit, cursor=cursor
            )
            try:
                answer = await self._api.answer(asking)
            except (
                _NEVER
            ):  # what the thread hung on is gone, or the bot is, or it may not read here
                return
            for message in messages_of(answer):
                yield message
            cursor = next_cursor(answer)
            if cursor is None:
                return


def _display_name(user: object) -> str:
    if not isinstance(user, dict):
        return ""
    profile = user.get("profile")
    names = (
        [profile.get("display_name"), profile.get("real_name")] if isinstance(profile, dict) else []
    )
    return next((name for name in (*names, user.get("real_name"), user.get("name")) if name), "")
