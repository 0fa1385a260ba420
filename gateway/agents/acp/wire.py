"""
The line to the agent's program: one JSON object each, bounded in length.

The package behind it trusts what it is handed, so whatever is not a message of JSON-RPC is dropped
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

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class Wire:
    """
    Messages to and from a program. `room` is awaited before each is read: it may hold the program
    up.

    `is_open` until the program has closed its end.
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
        """
        Whether it arrived is for the reading side to find out: a program that is gone reads nothing
        more.
        """
        try:
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await self._writer.drain()
        except (ConnectionError, RuntimeError):  # it is gone, or its standard input was closed
            return

    async def receive(self) -> dict[str, Json] | None:
        """The next message; None when there will be none."""
        while True:
            await self._room()
            # A line that is there already is read without a pause, and whoever takes the messages
            # needs one.
            await asyncio.sleep(0)
            line = await self._line()
            if line is None:
                self.is_open = False
                return None

            message = parsed(line)
            if message is not None:
                return message

    async def close(self) -> None:
        """Say nothing more."""
        self._writer.close()

    async def _line(self) -> bytes | None:
        """Empty if it was too long: it is read to its end and dropped."""
        pieces: list[bytes] = []
        length = 0

        while True:
            try:
                piece = await self._reader.readuntil(b"\n")
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
    """
    The message in a line, or None if it is none. There are no half characters in it, which nobody
    could keep.
    """
    try:
        message = json.loads(line.decode("utf-8", "replace"), parse_constant=_no_number)
        if _HALF.search(line):
            message = _mended(message)
    except (ValueError, RecursionError):
        return None

    return message if isinstance(message, dict) and _is_sound(message) else None


def _no_number(name: str) -> None:
    """NaN and its like are no JSON, and nobody could be told of them."""


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
    """
    A request, a notification or a response, with an id and an error of the types that they must
    have.
    """
    has_id = isinstance(message.get("id"), int | str) and not isinstance(message.get("id"), bool)
    if "method" in message:
        return isinstance(message["method"], str) and (has_id or "id" not in message)
    return has_id and ("result" in message or isinstance(message.get("error"), dict))
