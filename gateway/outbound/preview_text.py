"""The text of a preview: what fits into one message."""

from __future__ import annotations

from turngate.gateway.domain.agent_events import (
    WAITING,
    AgentEvent,
    Tool,
    ToolStatus,
)
from turngate.gateway.domain.ports.adapter import Limits
from turngate.gateway.domain.transcript import Text
from turngate.gateway.outbound.rendering import beginning, last_part
from turngate.gateway.rules.outgoing_text import without_mentions

MARK = " …"
"""Behind what is not finished."""
STILL_WORKING = "Still working on it…"
"""When nothing was said for long, and nothing else shows it."""
_EARLIER = "…\n\n"
# An answer that grew by more than this many messages at once is shown from there on.
_MOST_MESSAGES_BACK = 4


class PreviewLabels:
    """
    The agent's text so far, or the tool it uses while there is none, with a mark at the end.

    An answer of several messages is shown from the beginning of the one that grows now. Only that
    much is kept.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[str] = []
        self._tool = ""
        self._waiting = ""
        self._pauses = self._takes_long = False
        self._before = ""

    @property
    def has_text(self) -> bool:
        """Whether there is text of the agent."""
        return any(piece.strip() for piece in self._pieces)

    def add(self, event: AgentEvent) -> None:
        """Add one event."""
        match event:
            case Text(text=text):
                self._pieces += ["\n\n", text] if self._pauses else [text]
                self._pauses = False
            case Tool(name=name, title=title) if name == WAITING:
                # What follows "Using" is a tool; a pause has words of its own.
                self._waiting = f"Waiting: {title}" if event.status is ToolStatus.STARTED else ""
            case Tool(status=ToolStatus.STARTED, name=name):
                self._pauses = True
                self._tool = without_mentions(" ".join(name.split()))
            case _:
                pass

    def wait(self) -> None:
        """Show that it takes long, if there is no text yet."""
        self._takes_long = True

    def so_far(self) -> str:
        """Return the text; empty if there is none yet."""
        text = "".join(self._pieces)
        if not self._before:
            text = text.strip()
        if not text and self._tool:
            return self._beginning(f"Using {self._tool}")[0]
        if not text:
            return self._waiting or (STILL_WORKING if self._takes_long else "")

        shown, length = self._beginning(self._before + text)
        if length < len(self._before + text):
            text = self._newest_message(text)
            self._pieces = [text]
            self._before = _EARLIER
            shown, _ = self._beginning(self._before + text)
        return shown

    def _newest_message(self, text: str) -> str:
        """Return the end of a text that is too long, as the message that would be sent last."""
        room = max(self._limits.largest_part - len(_EARLIER + MARK), 1)
        return last_part(text[-_MOST_MESSAGES_BACK * room :], room, self._limits.measure)

    def _beginning(self, text: str) -> tuple[str, int]:
        return beginning(text, self._limits.largest_part, self._limits.measure, MARK)


class PreviewText:
    """
    The text of a stream without any mark, and the tools beside it, each in its newest state.

    A stream cannot take text back, so text that no longer fits is left out.
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
        """Whether there is text of the agent."""
        return bool(self._says)

    @property
    def untold(self) -> tuple[Tool, ...]:
        """The tools that have changed since they were last shown, in the order of their start."""
        return tuple(tool for name, tool in self._tools.items() if self._told.get(name) != tool)

    def tell(self, tools: tuple[Tool, ...]) -> None:
        """Remember these tools as shown."""
        self._told |= {tool.id: tool for tool in tools}

    def add(self, event: AgentEvent) -> None:
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
        """Return the text; empty if there is none yet."""
        text = "".join(self._pieces).strip()
        if not self._is_full and self._limits.measure(text) <= self._limits.largest_part:
            self._says = text
        else:
            self._is_full = True
            self._pieces.clear()
        return self._says


def _newer(before: Tool | None, now: Tool) -> Tool:
    """Return the newer state of a tool, without input and output."""
    # Later events of a tool may come without its title.
    title = now.title or (before.title if before is not None else None)
    return Tool(
        id=now.id,
        name=without_mentions(now.name),
        status=now.status,
        title=title and without_mentions(title),
    )
