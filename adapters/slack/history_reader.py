"""Reading what was said: a chat's history, a thread's replies, page by page, each page asked for politely."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime

from slack_sdk.web.async_slack_response import AsyncSlackResponse

from turngate.adapters.slack.api import Answer, Api
from turngate.gateway.domain.errors import Throttled, Unreachable

PAGE = 200

_LONGEST_PAUSE = 60.0
_MOST_PAUSES = 5

Asking = Callable[[str | None], Awaitable[AsyncSlackResponse]]


class HistoryReader:
    """Of one bot."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def said_in(self, chat: str, since: str, *, metadata: bool = False) -> AsyncIterator[Answer]:
        """Pages of what stands in the chat itself, newest first, with `is_limited` if Slack no longer has all of it."""
        return self.pages(
            lambda cursor: self._api.client.conversations_history(
                channel=chat,
                oldest=since,
                inclusive=True,
                limit=PAGE,
                cursor=cursor,
                include_all_metadata=metadata or None,
            )
        )

    def said_below(
        self, chat: str, thread: str, since: str, *, metadata: bool = False
    ) -> AsyncIterator[Answer]:
        """Pages of a thread, oldest first. What it hangs on is always there."""
        return self.pages(
            lambda cursor: self._api.client.conversations_replies(
                channel=chat,
                ts=thread,
                oldest=since,
                inclusive=True,
                limit=PAGE,
                cursor=cursor,
                include_all_metadata=metadata or None,
            )
        )

    async def pages(self, ask: Asking) -> AsyncIterator[Answer]:
        """Until there are no more. Slack may ask for pauses, within reason."""
        cursor: str | None = None
        while True:
            page = await self._page(ask, cursor)
            yield page
            cursor = next_cursor(page)
            if cursor is None:
                return

    async def _page(self, ask: Asking, cursor: str | None) -> Answer:
        for _ in range(_MOST_PAUSES):
            try:
                return await self._api.answer(ask(cursor))
            except Throttled as exc:
                if exc.retry_after > _LONGEST_PAUSE:
                    raise
                await asyncio.sleep(exc.retry_after)
        return await self._api.answer(ask(cursor))


def messages_of(page: Answer) -> list[Answer]:
    """Those of a page, as far as they have a name."""
    return [each for each in things_of(page, "messages") if isinstance(each.get("ts"), str)]


def things_of(page: Answer, name: str) -> list[Answer]:
    """What a page lists. One that says that all is well and not a word more has nothing; any other is no page."""
    found = page.get(name, [] if page == {"ok": True} else None)
    if not isinstance(found, list):
        raise Unreachable("Slack answered in words that nobody understands")
    return [each for each in found if isinstance(each, dict)]


def next_cursor(page: Answer) -> str | None:
    """Where the next page begins."""
    more = page.get("response_metadata")
    cursor = more.get("next_cursor") if isinstance(more, dict) else None
    return cursor if isinstance(cursor, str) and cursor else None


def stamp_of(moment: datetime) -> str:
    """As Slack writes a time."""
    return f"{moment.timestamp():.6f}"
