"""
The connection to the agent's program: one JSON object per line, of limited length.

The acp package does not check what it receives, so lines that are no JSON-RPC messages are dropped
here.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable

from turngate.gateway.agents.chunk_assembly import mended
from turngate.gateway.domain.serialization import Json

LONGEST_LINE = 32_000_000
"""In bytes: a picture fits, and a program that never ends its line does not fill memory."""

# Escapes of surrogates. Bytes that are no UTF-8 are replaced, so only escapes can produce halves.
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class Wire:
    """
    The transport of `acp.connection.Connection`. `room` is awaited before each read, so it can
    pause the program. `is_open` until the program has closed its stdout.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._room = room
        self.is_open = True

    async def send(self, message: dict[str, Json]) -> None:
        """Send one message. Does not report that the program is gone: `receive` finds that out."""
        try:
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await self._writer.drain()
        except (ConnectionError, RuntimeError):  # the program is gone, or its stdin was closed
            return

    async def receive(self) -> dict[str, Json] | None:
        """Return the next message; None at the end."""
        while True:
            await self._room()
            # Reading a buffered line does not yield to the event loop, and the tasks that handle
            # messages have to run in between.
            await asyncio.sleep(0)
            line = await self._line()
            if line is None:
                self.is_open = False
                return None

            message = parsed(line)
            if message is not None:
                return message

    async def close(self) -> None:
        self._writer.close()

    async def _line(self) -> bytes | None:
        """Read one line; None at the end, empty for a line that is too long."""
        pieces: list[bytes] = []
        length = 0

        while True:
            try:
                piece = await self._reader.readuntil(b"\n")
            # The line exceeds the reader's buffer limit, and stays in the buffer until it is taken.
            except asyncio.LimitOverrunError as exc:
                piece = await self._reader.readexactly(exc.consumed)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            length += len(piece)
            if length <= LONGEST_LINE:
                pieces.append(piece)
            if piece.endswith(b"\n"):
                return b"".join(pieces) if length <= LONGEST_LINE else b""


def parsed(line: bytes) -> dict[str, Json] | None:
    """Return the message in a line, without unpaired surrogates; None if it is no message."""
    try:
        message = json.loads(line.decode("utf-8", "replace"), parse_constant=_no_number)
        if _HALF.search(line):
            message = _mended(message)
    except (ValueError, RecursionError):
        return None

    return message if isinstance(message, dict) and _is_sound(message) else None


def _no_number(name: str) -> None:
    """Read NaN and Infinity as null: they are no JSON, but Python's parser accepts them."""


def _mended(value: Json) -> Json:
    match value:
        case str():
            return mended(value)
        case list():
            return [_mended(each) for each in value]
        case dict():
            return {mended(name): _mended(each) for name, each in value.items()}
        case _:
            return value


def _is_sound(message: dict[str, Json]) -> bool:
    """Return whether it is a request, a notification or a response with fields of valid types."""
    has_id = isinstance(message.get("id"), int | str) and not isinstance(message.get("id"), bool)
    if "method" in message:
        return isinstance(message["method"], str) and (has_id or "id" not in message)
    return has_id and ("result" in message or isinstance(message.get("error"), dict))
