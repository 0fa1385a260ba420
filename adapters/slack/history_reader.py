"""Paged reading of chat histories and threads, with pauses when Slack asks for them."""

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

PageRequest = Callable[[str | None], Awaitable[AsyncSlackResponse]]


class HistoryReader:
    """Reads histories with one bot's token."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def chat_pages(self, chat: str, since: str, *, metadata: bool = False) -> AsyncIterator[Answer]:
        """
        Yield pages of top-level messages, newest first. `is_limited` is set if Slack has dropped
        older ones.
        """
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

    def thread_pages(
        self, chat: str, thread: str, since: str, *, metadata: bool = False
    ) -> AsyncIterator[Answer]:
        """Yield pages of a thread, oldest first. The parent message is always included."""
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

    async def pages(self, fetch: PageRequest) -> AsyncIterator[Answer]:
        """Yield all pages. Waits on rate limits, within bounds."""
        cursor: str | None = None
        while True:
            page = await self._page(fetch, cursor)
            yield page
            cursor = next_cursor(page)
            if cursor is None:
                return

    async def _page(self, fetch: PageRequest, cursor: str | None) -> Answer:
        for _ in range(_MOST_PAUSES):
            try:
                return await self._api.answer(fetch(cursor))
            except Throttled as exc:
                # A longer pause is left to the caller's retry.
                if exc.retry_after > _LONGEST_PAUSE:
                    raise
                await asyncio.sleep(exc.retry_after)
        return await self._api.answer(fetch(cursor))


def messages_of(page: Answer) -> list[Answer]:
    """Return the messages of a page that have a timestamp."""
    return [each for each in objects_in(page, "messages") if isinstance(each.get("ts"), str)]


def objects_in(page: Answer, name: str) -> list[Answer]:
    """
    Return the objects that a page lists under `name`.

    An answer `{"ok": true}` is an empty page; any other answer without the list raises Unreachable.
    """
    found = page.get(name, [] if page == {"ok": True} else None)
    if not isinstance(found, list):
        raise Unreachable("Slack sent an answer that cannot be parsed")
    return [each for each in found if isinstance(each, dict)]


def next_cursor(page: Answer) -> str | None:
    """Return the cursor of the next page, or None."""
    more = page.get("response_metadata")
    cursor = more.get("next_cursor") if isinstance(more, dict) else None
    return cursor if isinstance(cursor, str) and cursor else None


def timestamp_of(moment: datetime) -> str:
    """Return the time in Slack's format."""
    return f"{moment.timestamp():.6f}"
