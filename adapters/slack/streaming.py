"""
Slack's own way of showing an answer while it grows, with the tools at work as tasks. It needs a thread to grow in.

What was added stays, so nothing is added that the next word could still change. The end of a stream brings the rest and
the name by which the answer is known; where what was shown is not how the answer begins, the answer replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from turngate.adapters.slack.api import Api, NotOffered, word
from turngate.adapters.slack.cache import Memory, OpenStream
from turngate.adapters.slack.markup import marked, unfinished
from turngate.adapters.slack.sending import Sender, chat_of
from turngate.gateway.domain.errors import Undeliverable, Unreachable
from turngate.gateway.domain.messages import ChatType, Part, Sent, SessionSource, Tool, ToolStatus
from turngate.gateway.domain.ports.adapter import Clock

_STATUSES = {
    ToolStatus.STARTED: "in_progress",
    ToolStatus.DONE: "complete",
    ToolStatus.FAILED: "error",
}
_LONGEST_TITLE = 200


class Streams:
    """Of one bot."""

    def __init__(self, api: Api, memory: Memory, sender: Sender, clock: Clock) -> None:
        self._api = api
        self._memory = memory
        self._sender = sender
        self._clock = clock

    def can_stream(self, target: SessionSource) -> bool:
        """In threads, as far as is known; outside of direct chats it must be clear for whom."""
        is_for_somebody = target.chat_type is ChatType.DM or bool(target.scope and target.user_id)
        return (
            bool(target.thread_id)
            and is_for_somebody
            and not self._memory.without_streams.get(target.chat_id)
        )

    async def begin(self, part: Part, tools: Sequence[Tool]) -> Sent:
        """A new message, and the first words of it."""
        target, text = part.target, _sure(part.text)
        asking = self._api.client.chat_startStream(
            channel=chat_of(target),
            thread_ts=target.thread_id or "",
            **_recipient(target),
            **_chunks(text, tools),
        )
        try:
            answer = await self._api.answer(asking)
        except NotOffered:
            self._memory.without_streams.put(target.chat_id, True)
            raise
        ts = word(answer, "ts")
        self._memory.streams.put((target.chat_id, ts), OpenStream(text=text).with_tools(tools))
        self._memory.join(target.chat_id, target.thread_id)
        return Sent(message_id=ts, at=self._clock.now())

    async def grow(self, part: Part, message_id: str, tools: Sequence[Tool]) -> None:
        """What it says now begins with what it said before; else it stays as it is until the answer replaces it."""
        growing, text = (
            self._memory.streams.get((part.target.chat_id, message_id)),
            _sure(part.text),
        )
        if growing is None or not growing.sure:
            raise Undeliverable("this stream cannot go on")
        added = text[len(growing.text) :] if text.startswith(growing.text) else ""
        if not added and not tools:
            return
        asking = self._api.client.chat_appendStream(
            channel=chat_of(part.target), ts=message_id, **_chunks(added, tools)
        )
        try:
            await self._api.answer(asking)
        except Unreachable:
            growing.sure = False
            raise
        growing.text += added
        growing.with_tools(tools)

    async def end(self, part: Part, message_id: str) -> Sent | None:
        """The answer, in place of a stream that was begun here. None if it is none, or can no longer be ended so."""
        growing, text = (
            self._memory.streams.take((part.target.chat_id, message_id)),
            marked(part.text),
        )
        if growing is None:
            return None
        fits = growing.sure and text.startswith(growing.text) and not part.buttons
        with suppress(Undeliverable):  # Slack has ended it already
            rest = text[len(growing.text) :] if fits else ""
            await self._sender.stop(part, message_id, **_chunks(rest, growing.finished_tools))
            if fits:
                return Sent(message_id=message_id, at=self._clock.now())
        return None


def _sure(markdown: str) -> str:
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
