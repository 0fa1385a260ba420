"""What counts as a message on the line to a program, and what is passed over."""

from __future__ import annotations

import asyncio

import pytest

from turngate.gateway.agents.acp import wire
from turngate.gateway.agents.acp.wire import Wire, parsed


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"a","params":{}}',
        b'{"id":"x","method":"a"}',
        b'{"method":"a"}',
        b'{"id":0,"result":null}',
        b'{"id":0,"error":{"code":1,"message":"no"}}',
    ],
)
def test_requests_notifications_and_responses_are_messages(line: bytes) -> None:
    assert parsed(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"words",
        b"\xff",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b'{"id":1}',
        b'{"id":true,"result":1}',
        b'{"id":[],"result":1}',
        b'{"id":{},"method":"a"}',
        b'{"method":5}',
        b'{"id":1,"error":"no"}',
        b'{"result":1}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_everything_else_is_none(line: bytes) -> None:
    assert parsed(line) is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"method":"\\ud83e\\udd8a"}', "🦊"),
        (b'{"method":"half \\ud83e"}', "half \ufffd"),
        (b'{"method":"half \\uDD8A"}', "half \ufffd"),
        (b'{"method":"half \xed\xa0\xbe"}', "half \ufffd\ufffd\ufffd"),
        (b'{"method":"broken \xff"}', "broken \ufffd"),
    ],
)
def test_no_half_of_a_character_comes_in(line: bytes, text: str) -> None:
    assert parsed(line) == {"method": text}


def test_whatever_is_no_json_number_is_none() -> None:
    assert parsed(b'{"method":"a","params":[NaN,-Infinity]}') == {
        "method": "a",
        "params": [None, None],
    }


class _Nowhere(asyncio.Transport):
    """Takes what is written, or breaks."""

    def __init__(self, *, is_broken: bool = False) -> None:
        super().__init__()
        self.written = b""
        self._is_broken = is_broken

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_broken:
            raise ConnectionResetError
        self.written += bytes(data)

    def is_closing(self) -> bool:
        """There is nothing that would have to be closed."""
        return True


async def _always() -> None:
    """There is room."""


def line_to(*received: bytes, transport: _Nowhere | None = None) -> Wire:
    reader = asyncio.StreamReader(limit=16)
    for piece in received:
        reader.feed_data(piece)
    reader.feed_eof()
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    return Wire(
        reader, asyncio.StreamWriter(transport or _Nowhere(), protocol, None, loop), _always
    )


async def test_messages_come_one_by_one_whatever_stands_between_them() -> None:
    line = line_to(b'\n{"method":"a"}\nnoise\n{"meth', b'od":"b"}\n')

    assert [await line.receive() for _ in range(3)] == [{"method": "a"}, {"method": "b"}, None]
    assert not line.is_open


async def test_a_line_without_an_end_is_the_end() -> None:
    assert await line_to(b'{"method":"a"}').receive() is None


async def test_a_line_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    # A line of many megabytes would show the same.
    monkeypatch.setattr(wire, "LONGEST_LINE", 50)
    line = line_to(b'{"method":"' + b"a" * 100 + b'"}\n{"method":"b"}\n')

    assert await line.receive() == {"method": "b"}


async def test_what_is_said_is_one_line() -> None:
    transport = _Nowhere()
    await line_to(transport=transport).send({"method": "a", "params": {"text": "two\nlines é"}})

    assert transport.written == b'{"method":"a","params":{"text":"two\\nlines \\u00e9"}}\n'


async def test_a_program_that_is_gone_is_no_error_of_whoever_talks() -> None:
    await line_to(transport=_Nowhere(is_broken=True)).send({"method": "a"})
