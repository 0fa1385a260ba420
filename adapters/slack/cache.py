"""
What a bot remembers while it runs. Forgotten with the process: what matters can be asked of Slack again.

Places to respond at are the exception, and they are an exception: where the bot may write it needs none.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from turngate.gateway.domain.messages import Tool, ToolStatus

Value = TypeVar("Value")

_MOST_REMEMBERED = 10_000
_AT_WORK = ToolStatus.STARTED


class BoundedCache(Generic[Value]):
    """The last so many, by name."""

    def __init__(self, most: int = _MOST_REMEMBERED) -> None:
        self._most = most
        self._notes: OrderedDict[object, Value] = OrderedDict()

    def put(self, name: object, value: Value) -> None:
        """Instead of what was noted there."""
        self._notes[name] = value
        self._notes.move_to_end(name)
        if len(self._notes) > self._most:
            self._notes.popitem(last=False)

    def get(self, name: object) -> Value | None:
        """What was noted last."""
        return self._notes.get(name)

    def take(self, name: object) -> Value | None:
        """The same, and it is forgotten."""
        return self._notes.pop(name, None)


@dataclass(slots=True)
class OpenStream:
    """A stream that was begun here: what Slack was told of it so far. Not `sure` after an answer that never came."""

    text: str = ""
    sure: bool = True
    tools: dict[str, Tool] = field(default_factory=dict)

    def with_tools(self, tools: Sequence[Tool]) -> OpenStream:
        """These were told, too."""
        self.tools |= {tool.id: tool for tool in tools}
        return self

    @property
    def finished_tools(self) -> list[Tool]:
        """Those that look as if they were still at work, as they are when the answer is there."""
        return [
            replace(each, status=ToolStatus.DONE)
            for each in self.tools.values()
            if each.status is _AT_WORK
        ]


class Memory:
    """Of one bot."""

    def __init__(self) -> None:
        self.takes_part: BoundedCache[bool] = BoundedCache()
        """By chat and thread: whether the bot has said something there, or was called."""
        self.assistants: BoundedCache[bool] = BoundedCache()
        """By chat and thread: whether it is one of the assistant's pane."""
        self.untitled: BoundedCache[bool] = BoundedCache()
        """The same of those that were opened lately and have no title."""
        self.response_urls: BoundedCache[str] = BoundedCache(1000)
        """By the id of the command."""
        self.streams: BoundedCache[OpenStream] = BoundedCache(1000)
        """By chat and message."""
        self.without_streams: BoundedCache[bool] = BoundedCache()
        """Chats where Slack has no streams."""

    def join(self, chat: str | None, thread: str | None) -> None:
        """The bot spoke there, or was called, and from now on it takes part."""
        if thread is not None:
            self.takes_part.put((chat, thread), True)
