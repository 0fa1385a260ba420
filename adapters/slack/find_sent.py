"""
Whether a part whose outcome is unknown has arrived.

A message carries its part's name unseen. A stream carries none until it ends: it is our own message without a name,
after what is being answered. A file is known by its name and size.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from turngate.adapters.slack.api import Answer, Api, ThreadGone
from turngate.adapters.slack.history_reader import HistoryReader, messages_of, stamp_of
from turngate.adapters.slack.identity import Me
from turngate.adapters.slack.part_metadata import carries, is_unnamed, shows
from turngate.adapters.slack.sending import chat_of
from turngate.adapters.slack.sources import Author
from turngate.adapters.slack.uploads import is_upload_of
from turngate.gateway.domain.messages import Part, Sent
from turngate.gateway.domain.ports.adapter import Clock

# Slack's clock is not ours.
_OVERLAP = timedelta(minutes=2)
_LONGEST_TURN = timedelta(days=1)
_STAMP = re.compile(r"\d+\.\d{6}")


class Finder:
    """Of one bot."""

    def __init__(self, api: Api, me: Me, clock: Clock) -> None:
        self._histories = HistoryReader(api)
        self._me = me
        self._clock = clock

    async def find(self, part: Part, since: datetime) -> Sent | None:
        """None if there is certainly none. Raises what Slack says if it cannot be known."""
        async for message in self._own(part, stamp_of(since - _OVERLAP)):
            if (
                is_upload_of(part.file, message)
                if part.file is not None
                else carries(message, part)
            ):
                return self._sent(message)
        return None

    async def find_preview(self, part: Part) -> Sent | None:
        """The same of what shows a turn. Slack's name of what is answered is also its time, which it must be after."""
        answered = part.reply_to or ""
        since = (
            answered if _STAMP.fullmatch(answered) else stamp_of(self._clock.now() - _LONGEST_TURN)
        )
        async for message in self._own(part, since):
            if shows(message, part) or (part.target.thread_id is not None and is_unnamed(message)):
                return self._sent(message)
        return None

    async def _own(self, part: Part, since: str) -> AsyncIterator[Answer]:
        async for page in self._pages(part, since):
            for message in messages_of(page):
                if self._may_be_ours(message) and float(message["ts"]) >= float(since):
                    yield message

    def _may_be_ours(self, message: Answer) -> bool:
        """A server that does not say who wrote it says at least what it carries."""
        author = Author.of(message)
        return author.is_(self._me) or author.id is None

    async def _pages(self, part: Part, since: str) -> AsyncIterator[Answer]:
        """Where it was sent, and where it goes if the thread is gone."""
        chat, thread = chat_of(part.target), part.target.thread_id
        if thread is not None:
            try:
                async for page in self._histories.said_below(chat, thread, since, metadata=True):
                    yield page
                return
            except ThreadGone:
                pass
        async for page in self._histories.said_in(chat, since, metadata=True):
            yield page

    def _sent(self, message: Answer) -> Sent:
        return Sent(message_id=str(message["ts"]), at=self._clock.now())
