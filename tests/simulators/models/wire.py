"""Events as bytes, in all the ways in which real servers send them, and broken on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

Event = tuple[str | None, str]

WAYS = {
    "bom": "a byte order mark before everything",
    "byte by byte": "the network cuts it as finely as it can",
    "comments": "keep-alives between the events",
    "crlf": "lines end with CRLF",
    "many lines": "data in several lines",
    "no blank at the end": "the stream ends with its last line",
    "no done": "nothing says that this was all",
    "no finish": "no reason for the end is given",
    "no usage": "nobody counts tokens",
    "parts": "content as a list of parts",
    "reasoning field": "thoughts are called `reasoning`",
    "role in every chunk": "who speaks is said again and again",
    "split characters": "half an emoji in each piece",
    "whole": "one JSON document instead of a stream",
}

_LONG = 1_000_000


def lines(event: Event, ways: Sequence[str]) -> bytes:
    """One event, without the blank line after it."""
    name, data = event
    end = "\r\n" if "crlf" in ways else "\n"
    parts = data.replace(", ", ",\n").split("\n") if "many lines" in ways else [data]
    head = f"event: {name}{end}" if name else ""
    return (head + end.join(f"data: {part}" for part in parts) + end).encode()


def pieces_of(events: Iterator[Event], ways: Sequence[str]) -> Iterator[bytes]:
    """A right answer."""
    end = b"\r\n" if "crlf" in ways else b"\n"
    before = b"\xef\xbb\xbf" if "bom" in ways else b""
    after = b""
    for event in events:
        comment = b": keep-alive" + end + end if "comments" in ways else b""
        whole = before + after + comment + lines(event, ways)
        before, after = b"", end
        if "byte by byte" in ways:
            yield from (whole[at : at + 1] for at in range(len(whole)))
        else:
            yield whole
    if "no blank at the end" not in ways:
        yield after


def split_characters(pieces: Sequence[str]) -> list[str]:
    """
    As servers do that cut their text before they write it as JSON: each half is half a character.
    """
    halves: list[str] = []
    for piece in pieces:
        units = piece.encode("utf-16-le")
        halves += [
            units[at : at + 2].decode("utf-16-le", "surrogatepass")
            for at in range(0, len(units), 2)
        ]
    return halves


async def broken(
    kind: str, right: Sequence[bytes], error: Event, ways: Sequence[str]
) -> AsyncIterator[bytes]:
    """Half of the right answer, then what is wrong with it."""
    for piece in right[: len(right) // 2]:
        yield piece
    end = b"\n"
    match kind:
        case "stall":
            await asyncio.Event().wait()
        case "error inside":
            yield end + lines(error, ways) + end
        case "garbage inside":
            yield end + b"data: {{{\n\n"
        case "long comment":
            yield end + b": " + b"x" * _LONG + b"\n\n"
            for piece in right[len(right) // 2 :]:
                yield piece
        case "endless line":
            yield end + b"data: "
            while True:
                yield b"x" * 65536
        case "endless":
            while True:
                for piece in right[2 : len(right) // 2 + 1]:
                    yield piece
                await asyncio.sleep(0)


class Streamed(web.StreamResponse):
    """
    A response that is written after it was returned; `counted` is told when it begins and when it
    is over.
    """

    def __init__(
        self, pieces: AsyncIterator[bytes], counted: Callable[[int], None], *, abort: bool = False
    ) -> None:
        super().__init__(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        self._pieces = pieces
        self._counted = counted
        self._abort = abort
        self._asked: BaseRequest | None = None

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """As aiohttp has it."""
        self._asked = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """All of it comes here."""
        self._counted(1)
        try:
            async for piece in self._pieces:
                if piece:
                    await self.write(piece)
        finally:
            self._counted(-1)
        if self._abort and self._asked is not None and self._asked.transport is not None:
            self._asked.transport.close()  # what was written still arrives
            return
        await super().write_eof(data)
