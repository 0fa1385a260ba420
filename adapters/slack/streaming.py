"""
Slack's native streaming of answers, with tools shown as tasks. Works in threads only; in a direct
chat that is the thread of the message that is answered.

Appended text cannot be changed, so text is held back while later text could change its meaning.
Stopping a stream adds the rest and the metadata; if the final answer does not start with the
streamed text, the message is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from turngate.adapters.slack.api import (
    Api,
    Unsupported,
    required_text,
)
from turngate.adapters.slack.cache import Cache, OpenStream
from turngate.adapters.slack.markup import marked, unfinished
from turngate.adapters.slack.sending import Sender, chat_of
from turngate.adapters.slack.threads import Threads
from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import Undeliverable, Unreachable
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.clock import Clock

_STATUSES = {
    ToolStatus.STARTED: "in_progress",
    ToolStatus.DONE: "complete",
    ToolStatus.FAILED: "error",
}
_LONGEST_TITLE = 200


class Streams:
    """Open streams of one bot."""

    def __init__(
        self, api: Api, cache: Cache, threads: Threads, sender: Sender, clock: Clock
    ) -> None:
        self._api = api
        self._cache = cache
        self._threads = threads
        self._sender = sender
        self._clock = clock

    def can_stream(self, target: SessionSource) -> bool:
        """
        Whether a stream can be started: in threads, and outside of direct chats for a known user
        only.
        """
        is_direct = target.chat_type is ChatType.DM
        has_thread = is_direct or bool(target.thread_id)
        has_recipient = is_direct or bool(target.scope and target.user_id)
        return has_thread and has_recipient and not self._cache.without_streams.get(target.chat_id)

    def is_open(self, target: SessionSource, message_id: str | None) -> bool:
        """Whether the message is a stream that this process began and has not ended."""
        return self._cache.streams.get((target.chat_id, message_id)) is not None

    async def begin(self, part: Part, tools: Sequence[Tool]) -> Sent:
        """Start a stream with the first text."""
        target = part.target
        text = _stable(part.text)
        thread = await self._threads.of(part)
        if thread is None:
            raise Undeliverable("there is no thread for a stream")

        request = self._api.client.chat_startStream(
            channel=chat_of(target),
            thread_ts=thread,
            **_recipient(target),
            **_chunks(text, tools),
        )
        try:
            answer = await self._api.answer(request)
        except Unsupported:
            # Do not try again for every answer in this chat.
            self._cache.without_streams.put(target.chat_id, True)
            raise

        ts = required_text(answer, "ts")
        self._cache.streams.put((target.chat_id, ts), OpenStream(text=text).add_tools(tools))
        self._cache.join(target.chat_id, target.thread_id)
        sent = Sent(message_id=ts, at=self._clock.now())
        self._threads.note_sent(part, thread, sent)

        return sent

    async def grow(self, part: Part, message_id: str, tools: Sequence[Tool]) -> None:
        """
        Append new text. If the text no longer starts with what was sent, only tools are updated;
        the final answer replaces the message.
        """
        stream = self._cache.streams.get((part.target.chat_id, message_id))
        text = _stable(part.text)
        if stream is None or not stream.in_sync:
            raise Undeliverable("the stream is no longer open")

        added = text[len(stream.text) :] if text.startswith(stream.text) else ""
        if not added and not tools:
            return

        request = self._api.client.chat_appendStream(
            channel=chat_of(part.target), ts=message_id, **_chunks(added, tools)
        )
        try:
            await self._api.answer(request)
        except Unreachable:
            # Whether the text was appended is unknown, so the next append could repeat it.
            stream.in_sync = False
            raise

        stream.text += added
        stream.add_tools(tools)

    async def end(self, part: Part, message_id: str) -> Sent | None:
        """
        Finish a stream with the final answer. None if it is not open here or has to be replaced by
        an edit.
        """
        stream = self._cache.streams.take((part.target.chat_id, message_id))
        text = marked(part.text)
        if stream is None:
            return None

        # Otherwise the stream is stopped and the message replaced by an edit.
        fits = stream.in_sync and text.startswith(stream.text) and not part.buttons
        # Undeliverable: Slack has ended the stream already.
        with suppress(Undeliverable):
            rest = text[len(stream.text) :] if fits else ""
            await self._sender.stop(part, message_id, **_chunks(rest, stream.finished_tools))
            if fits:
                return Sent(message_id=message_id, at=self._clock.now())

        return None


def _stable(markdown: str) -> str:
    return marked(markdown[: len(markdown) - unfinished(markdown)])


def _recipient(target: SessionSource) -> Mapping[str, Any]:
    if target.chat_type is ChatType.DM:
        return {}
    return {"recipient_team_id": target.scope, "recipient_user_id": target.user_id}


def _chunks(text: str, tools: Sequence[Tool]) -> Mapping[str, Any]:
    if not tools:
        return {"markdown_text": text} if text else {}
    words = [{"type": "markdown_text", "text": text}] if text else []
    return {"chunks": [*words, *map(_task, tools)]}


def _task(tool: Tool) -> dict[str, str]:
    title = " ".join((tool.title or tool.name).split())[:_LONGEST_TITLE] or "tool"
    return {"type": "task_update", "id": tool.id, "title": title, "status": _STATUSES[tool.status]}
