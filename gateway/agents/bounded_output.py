"""Read the output of an agent, in pieces or lines, with limits for a line and for a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from turngate.gateway.domain.agent_events import LONGEST_ANSWER
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.text import written_size

LONGEST_LINE = 4 * LONGEST_ANSWER
"""In bytes. No event may say more than an answer may, and a character has four bytes at most."""

MOST_OUTPUT = 4 * LONGEST_LINE
"""In bytes, of one turn: what says nothing costs time and memory all the same."""

Read = Callable[[], Awaitable[bytes]]


class Output:
    """The output of one turn. `read` returns the available bytes, and none at the end."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._size = 0
        self._held = bytearray()
        self._looked_at = 0

    async def piece(self) -> bytes:
        """Return the next bytes; empty at the end. Raises AgentError."""
        # A read of buffered bytes does not yield to the event loop, and an agent that never stops
        # writing would block all other turns.
        await asyncio.sleep(0)
        piece = await self._read()
        self._size += len(piece)
        if self._size > MOST_OUTPUT:
            raise AgentError(f"the agent wrote more than {written_size(MOST_OUTPUT)}")
        return piece

    async def line(self) -> bytes | None:
        """
        Return the next line without its line break, which the last may lack; None at the end.
        Raises AgentError.
        """
        # Bytes that were searched are not searched again: long lines would take quadratic time.
        while (end := self._held.find(b"\n", self._looked_at)) < 0:
            self._looked_at = len(self._held)
            if self._looked_at > LONGEST_LINE:
                raise AgentError(
                    f"the agent wrote a line of more than {written_size(LONGEST_LINE)}"
                )
            piece = await self.piece()
            if not piece:
                return self._take(self._looked_at) if self._held else None
            self._held += piece

        return self._take(end)

    async def rest(self) -> bytes:
        """Return everything up to the end, within the limit of a line. Raises AgentError."""
        while piece := await self.piece():
            self._held += piece
            if len(self._held) > LONGEST_LINE:
                raise AgentError(f"the agent wrote more than {written_size(LONGEST_LINE)} at once")
        return self._take(len(self._held))

    def _take(self, end: int) -> bytes:
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        self._looked_at = 0
        return line
