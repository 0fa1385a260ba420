"""What is shown of a turn that is still running, in words: one message's worth of them."""

from __future__ import annotations

from turngate.gateway.domain.messages import AgentEvent, Text, Tool, ToolStatus
from turngate.gateway.domain.ports.adapter import Limits
from turngate.gateway.outbound.rendering import beginning

MARK = " …"
"""Behind what is not finished."""
STILL_WORKING = "Still working on it…"
"""When nothing was said for long, and nothing else shows it."""


class Words:
    """
    What a preview says: the agent's words so far, or the tool it uses as long as there are none; with a mark behind.

    One message is all there is room for, and its beginning does not change any more: what comes after it is not kept.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[str] = []
        self._tool = ""
        self._pauses = self._is_full = self._takes_long = False
        self._cut = ""

    @property
    def has_text(self) -> bool:
        """Whether these are the agent's own words."""
        return any(piece.strip() for piece in self._pieces)

    def hear(self, event: AgentEvent) -> None:
        """Add one event."""
        match event:
            case Text(text=text) if not self._is_full:
                self._pieces += ["\n\n", text] if self._pauses else [text]
                self._pauses = False
            case Tool(status=ToolStatus.STARTED, name=name):
                self._pauses = True
                self._tool = " ".join(name.split())
            case _:
                pass

    def wait(self) -> None:
        """There is nothing to say yet, and it takes long."""
        self._takes_long = True

    def so_far(self) -> str:
        """Empty if there is nothing to say yet."""
        if self._is_full:
            return self._cut
        text = "".join(self._pieces).strip()
        if not text and self._tool:
            return self._beginning(f"Using {self._tool}")[0]
        if not text:
            return STILL_WORKING if self._takes_long else ""
        self._cut, shown = self._beginning(text)
        self._is_full = shown < len(text)
        return self._cut

    def _beginning(self, text: str) -> tuple[str, int]:
        return beginning(text, self._limits.largest_part, self._limits.measure, MARK)


class PreviewText:
    """
    What a stream says: the agent's words so far without any mark, and beside them the tools, each as it is now.

    What was said stays, so nothing is cut off in the middle of it: what no longer fits is not said.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[str] = []
        self._tools: dict[str, Tool] = {}
        self._told: dict[str, Tool] = {}
        self._pauses = self._is_full = False
        self._says = ""

    @property
    def has_text(self) -> bool:
        """Whether there are words of the agent's own."""
        return bool(self._says)

    @property
    def untold(self) -> tuple[Tool, ...]:
        """The tools that have changed since they were last told, in the order in which they were begun."""
        return tuple(tool for name, tool in self._tools.items() if self._told.get(name) != tool)

    def tell(self, tools: tuple[Tool, ...]) -> None:
        """These were told as they are here."""
        self._told |= {tool.id: tool for tool in tools}

    def hear(self, event: AgentEvent) -> None:
        """Add one event."""
        match event:
            case Text(text=text):
                self._pieces += ["\n\n", text] if self._pauses else [text]
                self._pauses = False
            case Tool():
                self._pauses = self._pauses or event.status is ToolStatus.STARTED
                self._tools[event.id] = _newer(self._tools.get(event.id), event)
            case _:
                pass

    def so_far(self) -> str:
        """Empty if there are no words yet."""
        text = "".join(self._pieces).strip()
        if not self._is_full and self._limits.measure(text) <= self._limits.largest_part:
            self._says = text
        else:
            self._is_full = True
            self._pieces.clear()
        return self._says


def _newer(before: Tool | None, now: Tool) -> Tool:
    """A tool keeps the title it began with, and what it was given and gave back is nobody's business here."""
    title = now.title or (before.title if before is not None else None)
    return Tool(id=now.id, name=now.name, status=now.status, title=title)
