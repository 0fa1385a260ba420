"""
Reassembly of what model servers send in pieces: surrogate pairs and tool calls. Without I/O, for
both model protocols.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import AgentError

_LONGEST_CALL = 1_000_000
_HIGH, _LOW = "\ud800", "\udc00"


class TextAssembler:
    """Joins surrogate pairs that a server has split between two JSON strings."""

    def __init__(self) -> None:
        self._half = ""

    def mend(self, piece: str) -> str:
        """Return the text that is complete by now; half a pair at its end is held back."""
        if piece.isascii() and not self._half:
            return piece
        text, self._half = self._half + piece, ""
        if text and _HIGH <= text[-1] < _LOW:
            text, self._half = text[:-1], text[-1]
        return mended(text)


def mended(text: str) -> str:
    """Join surrogate pairs, and replace unpaired surrogates, which cannot be stored as UTF-8."""
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
        # At the start the arguments have not arrived yet.
        known = (mended(self.input) or None) if status is not ToolStatus.STARTED else None
        return Tool(id=self.id, name=self.name, status=status, input=known, output=output)


class Calls:
    """
    The open tool calls of an answer, by the index that the server gives each. A call ends with its
    result, if the server sends one, else when the model writes again, or with the answer.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Call] = {}
        self._count = 0

    def begin(self, index: int, id: str | None, name: str | None) -> list[Tool]:  # noqa: A002
        """Open a call, unless it is the one that is already open at that index."""
        known = self._open.get(index)
        named = mended(id or "")
        # Some servers give all calls the same index: then a new id means a new call.
        if known is not None and named in ("", known.id):
            return []

        self._count += 1
        call = _Call(id=named or f"call_{self._count}", name=mended(name or "") or "tool")
        over = self.finish(ToolStatus.DONE, index=index)
        self._open[index] = call

        return [*over, call.tool(ToolStatus.STARTED)]

    def add(self, index: int, more: str) -> None:
        """Append to the arguments of a call. Raises AgentError if they are too long."""
        call = self._open.get(index)
        if call is None or not more:
            return
        if len(call.input) + len(more) > _LONGEST_CALL:
            raise AgentError(f"it called a tool with more than {_LONGEST_CALL:,} characters")
        self._open[index] = replace(call, input=call.input + more)

    def finish(
        self, status: ToolStatus, *, index: int | None = None, output: str | None = None
    ) -> list[Tool]:
        """Close the call at that index, or all of them."""
        indexes = list(self._open) if index is None else [at for at in self._open if at == index]
        return [self._open.pop(at).tool(status, output) for at in indexes]

    def finish_named(self, id: str, output: str) -> list[Tool]:  # noqa: A002
        """Close the call with this id, with its output."""
        index = next((at for at, call in self._open.items() if call.id == id), None)
        return (
            []
            if index is None
            else self.finish(ToolStatus.DONE, index=index, output=mended(output))
        )
