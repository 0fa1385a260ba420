"""
What comes in pieces and must be whole before it goes on: characters that a server cut in two, and
calls of tools.

Pure. Both protocols need both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import AgentError

_LONGEST_CALL = 1_000_000
_HIGH, _LOW = "\ud800", "\udc00"


class TextAssembler:
    """JSON may hold half a character; the other half comes with the next piece, or never."""

    def __init__(self) -> None:
        self._half = ""

    def mend(self, piece: str) -> str:
        """The text that is whole by now."""
        if piece.isascii() and not self._half:
            return piece
        text, self._half = self._half + piece, ""
        if text and _HIGH <= text[-1] < _LOW:
            text, self._half = text[:-1], text[-1]
        return mended(text)


def mended(text: str) -> str:
    """Halves that belong together are one character; what is left of others is replaced."""
    return (
        text
        if text.isascii()
        else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    id: str
    name: str
    input: str = ""

    def tool(self, status: ToolStatus, output: str | None = None) -> Tool:
        known = (mended(self.input) or None) if status is not ToolStatus.STARTED else None
        return Tool(id=self.id, name=self.name, status=status, input=known, output=output)


class Calls:
    """
    The calls that a server tells of, by the place it gives each. They are over when it talks again,
    or has ended.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Call] = {}
        self._count = 0

    def begin(self, place: int, id: str | None, name: str | None) -> list[Tool]:  # noqa: A002
        """
        A call, unless it is the one that is known there. Some servers give all of them one place.
        """
        known = self._open.get(place)
        named = mended(id or "")
        if known is not None and named in ("", known.id):
            return []

        self._count += 1
        call = _Call(id=named or f"call_{self._count}", name=mended(name or "") or "tool")
        over = self.finish(ToolStatus.DONE, place=place)
        self._open[place] = call

        return [*over, call.tool(ToolStatus.STARTED)]

    def add(self, place: int, more: str) -> None:
        """Another piece of what it is called with. Raises AgentError if that never ends."""
        call = self._open.get(place)
        if call is None or not more:
            return
        if len(call.input) + len(more) > _LONGEST_CALL:
            raise AgentError(f"it called a tool with more than {_LONGEST_CALL:,} characters")
        self._open[place] = replace(call, input=call.input + more)

    def finish(
        self, status: ToolStatus, *, place: int | None = None, output: str | None = None
    ) -> list[Tool]:
        """The one at that place is over, or all of them."""
        places = list(self._open) if place is None else [at for at in self._open if at == place]
        return [self._open.pop(at).tool(status, output) for at in places]

    def finish_named(self, id: str, output: str) -> list[Tool]:  # noqa: A002
        """The one with this id has given this."""
        place = next((at for at, call in self._open.items() if call.id == id), None)
        return (
            []
            if place is None
            else self.finish(ToolStatus.DONE, place=place, output=mended(output))
        )
