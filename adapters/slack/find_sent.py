"""
Search for a part whose outcome is unknown, to decide whether it has arrived.

A message carries the part's id in its metadata. A stream has no metadata until it ends: it is the
bot's own message without metadata, newer than the message it answers. A file is recognised by its
name and size.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from turngate.adapters.slack.api import (
    Answer,
    Api,
    ThreadGone,
)
from turngate.adapters.slack.history_reader import (
    HistoryReader,
    messages_of,
    timestamp_of,
)
from turngate.adapters.slack.identity import BotIdentity
from turngate.adapters.slack.part_metadata import (
    has_no_metadata,
    is_part,
    is_preview_of,
)
from turngate.adapters.slack.sending import chat_of
from turngate.adapters.slack.sources import Author
from turngate.adapters.slack.threads import Threads
from turngate.adapters.slack.uploads import is_upload_of
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.clock import Clock

# Slack's clock may differ from ours.
_OVERLAP = timedelta(minutes=2)
_LONGEST_TURN = timedelta(days=1)
_STAMP = re.compile(r"\d+\.\d{6}")


class Finder:
    """Finds sent parts of one bot."""

    def __init__(self, api: Api, me: BotIdentity, threads: Threads, clock: Clock) -> None:
        self._reader = HistoryReader(api)
        self._threads = threads
        self._me = me
        self._clock = clock

    async def find(self, part: Part, since: datetime) -> Sent | None:
        """
        Return the sent part, or None if it certainly was not sent. Raises if the search fails.
        """
        async for message in self._own(part, timestamp_of(since - _OVERLAP)):
            if (
                is_upload_of(part.file, message)
                if part.file is not None
                else is_part(message, part)
            ):
                return self._sent(message)

        return None

    async def find_preview(self, part: Part) -> Sent | None:
        """
        Return the message that previews the part's turn, or None.

        A message id is also its timestamp: the preview must be newer than the message it answers.
        """
        answered = part.reply_to or ""
        since = (
            answered
            if _STAMP.fullmatch(answered)
            else timestamp_of(self._clock.now() - _LONGEST_TURN)
        )

        async for message in self._own(part, since):
            if is_preview_of(message, part) or (_is_reply(message) and has_no_metadata(message)):
                return self._sent(message)

        return None

    async def _own(self, part: Part, since: str) -> AsyncIterator[Answer]:
        async for page in self._pages(part, since):
            for message in messages_of(page):
                if self._may_be_ours(message) and float(message["ts"]) >= float(since):
                    yield message

    def _may_be_ours(self, message: Answer) -> bool:
        """
        Whether the bot may have written the message. Some servers do not report the author; the
        metadata decides then.
        """
        author = Author.of(message)
        return author.is_self(self._me) or author.id is None

    async def _pages(self, part: Part, since: str) -> AsyncIterator[Answer]:
        """
        Yield pages of the thread, and of the chat if there is no thread or it was deleted.

        Of a direct chat both: an answer in its thread may have gone to the chat itself.
        """
        chat = chat_of(part.target)
        thread = await self._threads.of(part)

        if thread is not None:
            try:
                async for page in self._reader.thread_pages(chat, thread, since, metadata=True):
                    yield page
                if part.target.thread_id is not None:
                    return
            except ThreadGone:
                # The part was then sent to the chat itself.
                pass

        async for page in self._reader.chat_pages(chat, since, metadata=True):
            yield page

    def _sent(self, message: Answer) -> Sent:
        return Sent(message_id=str(message["ts"]), at=self._clock.now())


def _is_reply(message: Answer) -> bool:
    return message.get("thread_ts") not in (None, message["ts"])
