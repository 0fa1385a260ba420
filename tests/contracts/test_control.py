"""
The control socket over a real socket: requests, answers, garbage, crowds, strangers, long paths.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from turngate.gateway.daemon.control.client import ControlClient
from turngate.gateway.daemon.control.protocol import (
    LARGEST_LINE,
    decode,
    encode,
)
from turngate.gateway.daemon.control.requests import Args, Line
from turngate.gateway.daemon.control.server import (
    MOST_CONNECTIONS,
    ControlServer,
    may_connect,
)
from turngate.gateway.domain.errors import (
    Refused,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
    TurngateError,
    Unreachable,
)
from turngate.gateway.domain.serialization import Json


async def echo(args: Args, line: Line) -> Json:
    return dict(args)


async def count(args: Args, line: Line) -> Json:
    for number in range(3):
        await line.item(number)
    return "counted"


async def converse(args: Args, line: Line) -> Json:
    said = 0
    while (heard := await line.next()) is not None and heard.get("say") != "bye":
        said += 1
        await line.item(heard.get("say"))
    return said


async def refuse(args: Args, line: Line) -> Json:
    raise Refused("not like that; do it otherwise")


async def break_the_store(args: Args, line: Line) -> Json:
    raise StoreDamaged("it is broken")


async def stumble(args: Args, line: Line) -> Json:
    raise KeyError("canary-bug")


async def answer_nonsense(args: Args, line: Line) -> Json:
    return float("nan")


REQUESTS = {
    "echo": echo,
    "count": count,
    "converse": converse,
    "refuse": refuse,
    "store": break_the_store,
    "stumble": stumble,
    "nonsense": answer_nonsense,
}


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    """Where a server listens."""
    path = tmp_path / "control.sock"
    async with ControlServer(path, REQUESTS):
        yield path


async def ask(path: Path, do: str, **args: Json) -> tuple[list[Json], Json]:
    """The items and the result, as a command gets them."""
    items: list[Json] = []

    def work() -> Json:
        with ControlClient.connect(path) as client:
            return client.ask(do, args, items.append)

    return items, await asyncio.to_thread(work)


@asynccontextmanager
async def raw(path: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(path, limit=2 * LARGEST_LINE)
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_a_request_is_answered(path: Path) -> None:
    assert await ask(path, "echo", word="ja", umlaut="\xfc\ud800") == (
        [],
        {"word": "ja", "umlaut": "\xfc\ud800"},
    )


async def test_items_come_before_the_result(path: Path) -> None:
    assert await ask(path, "count") == ([0, 1, 2], "counted")


async def test_one_connection_takes_one_request_after_the_other(path: Path) -> None:
    async with raw(path) as (reader, writer):
        writer.write(
            encode({"do": "echo", "args": {"n": 1}}) + encode({"do": "echo", "args": {"n": 2}})
        )

        assert [decode(await reader.readline()) for _ in range(2)] == [
            {"done": {"n": 1}},
            {"done": {"n": 2}},
        ]


async def test_a_verb_may_listen_while_it_answers(path: Path) -> None:
    async with raw(path) as (reader, writer):
        writer.write(encode({"do": "converse"}) + encode({"say": "a"}) + encode({"say": "bye"}))

        assert [decode(await reader.readline()) for _ in range(2)] == [{"item": "a"}, {"done": 1}]


@pytest.mark.parametrize(
    ("do", "error", "message"),
    [
        ("refuse", Refused, "not like that; do it otherwise"),
        ("store", StoreError, "it is broken"),
        ("stumble", TurngateError, "the gateway failed at this (KeyError); its log says more"),
        ("nonsense", TurngateError, "the gateway failed at this (ValueError); its log says more"),
        (
            "dance",
            Refused,
            "this daemon does not know 'dance'; it may be of another version: restart it",
        ),
    ],
)
async def test_an_error_is_the_same_error_on_the_other_side(
    path: Path, do: str, error: type[TurngateError], message: str
) -> None:
    with pytest.raises(error) as caught:
        await ask(path, do)

    assert type(caught.value) is error
    assert str(caught.value) == message


async def test_a_bug_in_a_verb_is_logged_and_the_next_request_is_served(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TurngateError):
        await ask(path, "stumble")

    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.ERROR, "a control request failed")
    ]
    assert await ask(path, "echo") == ([], {})


GARBAGE = [
    b"\n",
    b"not json\n",
    b"\xff\xfe\n",
    b"[]\n",
    b"null\n",
    b"{}\n",
    b'{"do": 1}\n',
    b'{"do": "echo", "args": []}\n',
    b'{"do": "echo", "args": {"x": NaN}}\n',
    b"[" * 100_000 + b"\n",
    b'{"do":' * 50_000 + b"\n",
    b"9" * 10_000 + b"\n",
]


@pytest.mark.parametrize("line", GARBAGE, ids=[repr(line[:12]) for line in GARBAGE])
async def test_garbage_gets_an_error_and_the_line_stays_usable(path: Path, line: bytes) -> None:
    async with raw(path) as (reader, writer):
        writer.write(line + encode({"do": "echo"}))

        assert set(decode(await reader.readline())) == {"error"}
        assert decode(await reader.readline()) == {"done": {}}


async def test_a_line_that_is_too_long_gets_an_error_and_ends_that_connection(path: Path) -> None:
    with pytest.raises(Refused, match=f"a line of more than {LARGEST_LINE} bytes"):
        await ask(path, "echo", text="x" * (LARGEST_LINE + 1_000_000))

    assert await ask(path, "echo") == ([], {})


async def test_after_a_line_that_is_too_long_the_daemon_hangs_up(path: Path) -> None:
    async with raw(path) as (reader, writer):
        writer.write(b"x" * (LARGEST_LINE + 1_000_000))

        assert set(decode(await reader.readline())) == {"error"}
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_a_long_line_that_fits_is_taken(path: Path) -> None:
    text = "x" * (LARGEST_LINE - 1000)

    assert await ask(path, "echo", text=text) == ([], {"text": text})


@pytest.mark.parametrize(
    "said", [b"", b'{"do": "echo"', encode({"do": "count"}), encode({"do": "converse"})]
)
async def test_a_client_that_goes_away_harms_nobody(
    path: Path, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(said)

    assert await ask(path, "echo") == ([], {})
    assert caplog.records == []


async def test_a_crowd_is_told_to_come_back_and_the_first_are_served(path: Path) -> None:
    guests = [await asyncio.open_unix_connection(path) for _ in range(100)]
    for _, writer in guests[:MOST_CONNECTIONS]:
        writer.write(encode({"do": "echo"}))

    answers = [decode(await reader.readline()) for reader, _ in guests]

    assert answers[:MOST_CONNECTIONS] == [{"done": {}}] * MOST_CONNECTIONS
    assert [str(answer.keys()) for answer in answers[MOST_CONNECTIONS:]] == [
        "dict_keys(['error'])"
    ] * 36
    with pytest.raises(Unreachable, match="64 connections; try again later"):
        await ask(path, "echo")
    for _, writer in guests:
        writer.close()


async def test_when_the_crowd_has_left_there_is_room_again(path: Path) -> None:
    for _ in range(3):
        guests = [await asyncio.open_unix_connection(path) for _ in range(MOST_CONNECTIONS)]
        for reader, writer in guests:
            writer.write(encode({"do": "echo"}))
            assert decode(await reader.readline()) == {"done": {}}
        for reader, writer in guests:
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

    assert await ask(path, "echo") == ([], {})


async def test_the_socket_is_for_its_owner_alone(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["control.sock"]


def test_oneself_and_root_may_connect() -> None:
    assert may_connect(1000, 1000)
    assert may_connect(0, 1000)
    assert not may_connect(1001, 1000)
    assert not may_connect(1000, 0)


STRANGER = """
import os, socket, sys
client = socket.socket(socket.AF_UNIX)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
client.connect(sys.argv[1])
print(client.recv(1000).decode(), end="")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_refused_even_if_the_file_would_let_him() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "control.sock")
        async with ControlServer(path, REQUESTS):
            path.chmod(0o666)
            told = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", STRANGER, str(path)],
                capture_output=True,
                text=True,
                check=False,
            )

    assert (
        told.stdout
        == '{"error":{"kind":"refused","message":"this daemon belongs to another user"}}\n'
    ), told.stderr


async def test_a_path_longer_than_an_address_works(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["deep" * 10] * 5)
    folder.mkdir(parents=True)
    path = folder / "control.sock"
    assert len(os.fsencode(path)) > 200

    async with ControlServer(path, REQUESTS):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await ask(path, "count") == ([0, 1, 2], "counted")

    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("length", [106, 107, 108, 109])
async def test_paths_around_the_longest_address_work(tmp_path: Path, length: int) -> None:
    folder = tmp_path / ("x" * (length - len(os.fsencode(tmp_path)) - len("//control.sock")))
    folder.mkdir()
    path = folder / "control.sock"
    assert len(os.fsencode(path)) == length

    async with ControlServer(path, REQUESTS):
        assert await ask(path, "echo") == ([], {})


async def test_what_a_killed_daemon_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    (tmp_path / "control.sock.new").touch()

    async with ControlServer(path, REQUESTS):
        assert await ask(path, "echo") == ([], {})

    assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"control\.sock cannot be made"):
        async with ControlServer(tmp_path / "gone" / "control.sock", REQUESTS):
            pass


async def test_closing_hangs_up_on_everybody(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with ControlServer(path, REQUESTS):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(encode({"do": "converse"}) + encode({"say": "hello"}))
        assert decode(await reader.readline()) == {"item": "hello"}

    assert await reader.read() == b""
    writer.close()
    with pytest.raises(Unreachable, match="nothing answers at"):
        await ask(path, "echo")


async def test_a_daemon_that_goes_away_in_the_middle_is_told(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with ControlServer(path, REQUESTS):
        client = await asyncio.to_thread(ControlClient.connect, path)
        client.send({"do": "converse"})

    with client, pytest.raises(Unreachable, match="the daemon went away"):
        await asyncio.to_thread(client.receive)
