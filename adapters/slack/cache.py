"""
State that a bot keeps in memory while it runs. It is lost on restart and can be requested from
Slack again.

Response URLs cannot be requested again, but they are only needed in chats that the bot cannot write
to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from turngate.gateway.domain.agent_events import Tool, ToolStatus

Value = TypeVar("Value")

_MAX_ENTRIES = 10_000


class BoundedCache(Generic[Value]):
    """A mapping that keeps only the most recently written entries."""

    def __init__(self, most: int = _MAX_ENTRIES) -> None:
        self._most = most
        self._entries: OrderedDict[object, Value] = OrderedDict()

    def put(self, name: object, value: Value) -> None:
        self._entries[name] = value
        # A rewritten entry counts as new and is evicted last.
        self._entries.move_to_end(name)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def get(self, name: object) -> Value | None:
        return self._entries.get(name)

    def take(self, name: object) -> Value | None:
        """Remove and return the value."""
        return self._entries.pop(name, None)


@dataclass(slots=True)
class OpenStream:
    """
    A stream started by this process: the text and tools that were sent to Slack so far.

    `in_sync` is False after a call without an answer: what Slack shows is then unknown.
    """

    text: str = ""
    in_sync: bool = True
    tools: dict[str, Tool] = field(default_factory=dict)

    def add_tools(self, tools: Sequence[Tool]) -> OpenStream:
        """Record tools that were sent."""
        self.tools |= {tool.id: tool for tool in tools}
        return self

    @property
    def finished_tools(self) -> list[Tool]:
        """The tools still shown as running, marked as done for the end of the stream."""
        return [
            replace(each, status=ToolStatus.DONE)
            for each in self.tools.values()
            if each.status is ToolStatus.STARTED
        ]


class Cache:
    """Caches of one bot."""

    def __init__(self) -> None:
        self.takes_part: BoundedCache[bool] = BoundedCache()
        """By chat and thread: whether the bot wrote there or was mentioned."""
        self.assistants: BoundedCache[bool] = BoundedCache()
        """By chat and thread: whether it belongs to the assistant pane."""
        self.untitled: BoundedCache[bool] = BoundedCache()
        """By chat and thread: assistant threads that have no title yet."""
        self.threads: BoundedCache[str] = BoundedCache()
        """By chat and message id, in direct chats: the thread; empty if the message is gone."""
        self.newest_threads: BoundedCache[str] = BoundedCache()
        """By direct chat: the thread of the newest message."""
        self.statuses: BoundedCache[str] = BoundedCache()
        """By direct chat: the thread in which a status was shown last."""
        self.commands: BoundedCache[str] = BoundedCache(1000)
        """By message id of a slash command: its name."""
        self.response_urls: BoundedCache[str] = BoundedCache(1000)
        """By message id of the command."""
        self.streams: BoundedCache[OpenStream] = BoundedCache(1000)
        """By chat and message id."""
        self.without_streams: BoundedCache[bool] = BoundedCache()
        """Chats in which Slack does not support streams."""

    def join(self, chat: str | None, thread: str | None) -> None:
        """Record that the bot wrote in the thread or was mentioned there."""
        if thread is not None:
            self.takes_part.put((chat, thread), True)
