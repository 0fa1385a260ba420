"""
Finding R10: clients that connect and say nothing, at the server that the web chat, Telegram's
webhook and Slack's requests share. Real sockets; times are scaled.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket as socket_module
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from aiohttp import ClientSession, WSMsgType, web

from tests.commands import PATIENCE, daemon, turngate
from tests.full_length import is_full_length
from tests.ports import free_port
from turngate.adapters.http_server import ConnectionLimits, listening_socket, serving
from turngate.gateway.domain.errors import AddressTaken

SCALED = ConnectionLimits(connections=4, first_request=0.3, body=0.3, idle=0.5)
LONGER = 3 * SCALED.first_request
HEADERS = b"GET /hello HTTP/1.1\r\nHost: here\r\n"
GET = HEADERS + b"\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: here\r\n"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Here:
    """A server that runs, and what connects to it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._open: list[asyncio.StreamWriter] = []

    async def connect(self, said: bytes = b"") -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._open.append(writer)
        writer.write(said)
        return reader, writer

    async def status(self, said: bytes = GET) -> str:
        """The first line of the answer, or nothing."""
        reader, _ = await self.connect(said)
        with suppress(ConnectionError):
            return (await reader.readline()).decode().strip()
        return ""

    async def close(self) -> None:
        for writer in self._open:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def hello(request: web.Request) -> web.Response:
    return web.Response(text="hello")


async def body(request: web.Request) -> web.Response:
    return web.Response(text=str(len(await request.read())))


async def slow(request: web.Request) -> web.Response:
    await request.read()
    await asyncio.sleep(LONGER)
    return web.Response(text="at last")


async def unread(request: web.Request) -> web.Response:
    return web.Response(status=403)


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        while True:
            await response.write(bytes(2**20))
    ENDED.set()
    return response


ENDED = asyncio.Event()


async def socket(request: web.Request) -> web.WebSocketResponse:
    echoing = web.WebSocketResponse()
    await echoing.prepare(request)
    async for message in echoing:
        await echoing.send_str(message.data)
    return echoing


@asynccontextmanager
async def served(limits: ConnectionLimits = SCALED) -> AsyncIterator[Here]:
    app = web.Application(client_max_size=2**20)
    app.add_routes(
        [
            web.get("/hello", hello),
            web.post("/body", body),
            web.post("/slow", slow),
            web.post("/unread", unread),
            web.get("/endless", endless),
            web.get("/socket", socket),
        ]
    )
    listening = listening_socket("127.0.0.1", 0, "the test cannot listen")
    here = Here(listening.getsockname()[1])
    try:
        async with serving(app, listening, shutdown_timeout=1.0, limits=limits):
            yield here
    finally:
        await here.close()


@pytest.fixture
async def here() -> AsyncIterator[Here]:
    async with served() as running:
        yield running


@pytest.fixture
def complaints(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What was logged as a warning or worse. Nothing in these tests is worth one."""
    said = list[str]()
    with caplog.at_level(logging.WARNING):
        yield said
    said += [record.getMessage() for record in caplog.records]
    assert said == []


@pytest.mark.parametrize("said", [b"", b"GET /he", HEADERS, HEADERS + b"X: y\r\n"])
async def test_whoever_does_not_finish_the_headers_is_hung_up(here: Here, said: bytes) -> None:
    reader, _ = await here.connect(said)

    async with asyncio.timeout(LONGER):
        assert await reader.read() == b""


async def test_headers_that_trickle_in_are_no_reason_to_wait_longer(here: Here) -> None:
    reader, writer = await here.connect(HEADERS)

    async def trickle() -> None:
        with suppress(ConnectionError):
            for number in range(1000):
                writer.write(b"X-%d: y\r\n" % number)
                await writer.drain()
                await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    with suppress(ConnectionError):
        async with asyncio.timeout(LONGER):
            assert await reader.read() == b""
    trickling.cancel()


@pytest.mark.parametrize("path", ["body", "slow", "unread"])
async def test_whoever_does_not_finish_the_body_is_hung_up(
    path: str, complaints: list[str]
) -> None:
    async with served() as here:
        said = b"POST /%b HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nhalf"
        reader, _ = await here.connect(said % path.encode())
        status = (await reader.readline()).split()[1]

        assert status == (b"403" if path == "unread" else b"408")
        async with asyncio.timeout(10):
            await reader.read()


async def test_whoever_leaves_in_the_middle_of_a_body_is_no_error(complaints: list[str]) -> None:
    """Finding R23."""
    async with served() as here:
        _, writer = await here.connect(POST + b"Content-Length: 100\r\n\r\nhalf")
        writer.close()
        await writer.wait_closed()
        assert "200" in await here.status()


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        HEADERS + b"bad header\r\n\r\n",
        HEADERS + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        POST + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nhalf",
        POST + b"Content-Length: 9999999\r\n\r\n" + bytes(2**21),
    ],
)
async def test_a_malformed_request_is_the_client_s_fault_and_no_complaint(
    said: bytes, complaints: list[str]
) -> None:
    """Finding R23."""
    async with served() as here:
        status = await here.status(said)

    assert status == "" or status.split()[1][0] == "4", status


async def test_a_long_answer_takes_its_time(here: Here) -> None:
    address = f"http://127.0.0.1:{here.port}/slow"
    async with ClientSession() as client, client.post(address, data=b"x") as response:
        assert await response.text() == "at last"


async def test_a_web_socket_lives_on_however_little_it_says(here: Here) -> None:
    address = f"http://127.0.0.1:{here.port}/socket"
    async with ClientSession() as client, client.ws_connect(address) as line:
        await asyncio.sleep(LONGER)
        await line.send_str("still here")
        message = await line.receive()

    assert (message.type, message.data) == (WSMsgType.TEXT, "still here")


async def test_between_two_requests_there_is_a_longer_time(here: Here) -> None:
    reader, writer = await here.connect(GET)
    await reader.readuntil(b"hello")
    await asyncio.sleep(SCALED.first_request * 1.3)
    writer.write(GET)
    assert b"200" in await reader.readline()

    async with asyncio.timeout(LONGER):
        await reader.read()


async def test_a_crowd_that_says_nothing_keeps_nobody_out(here: Here) -> None:
    silent = [await here.connect() for _ in range(5 * SCALED.connections)]

    assert "200" in await here.status()
    # Whoever waited longest was hung up to make room.
    assert await silent[0][0].read() == b""


async def test_there_is_no_room_beyond_those_that_are_being_answered(here: Here) -> None:
    async with ClientSession() as client:
        address = f"http://127.0.0.1:{here.port}/socket"
        lines = [await client.ws_connect(address) for _ in range(SCALED.connections)]

        assert await here.status() == ""
        await lines.pop().close()
        assert "200" in await here.status()
        for line in lines:
            await line.send_str("still here")
            assert (await line.receive()).data == "still here"
            await line.close()


async def test_the_last_descriptors_are_left_to_the_rest_of_the_process() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served() as few, served(ConnectionLimits(spare_descriptors=soft)) as none_to_spare:
        assert "200" in await few.status()
        assert await none_to_spare.status() == ""
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


async def test_whoever_never_reads_an_answer_is_hung_up(here: Here) -> None:
    ENDED.clear()
    await here.connect(b"GET /endless HTTP/1.1\r\nHost: here\r\n\r\n")

    async with asyncio.timeout(20):
        await ENDED.wait()


async def test_closing_the_server_hangs_up_everybody() -> None:
    async with served(ConnectionLimits()) as here:
        reader, _ = await here.connect()
        await here.status()

    assert await reader.read() == b""


def test_an_address_in_use_is_said_so() -> None:
    with listening_socket("localhost", 0, "x") as first:
        port = first.getsockname()[1]
        with pytest.raises(AddressTaken, match=f"^x at localhost:{port}: Address already in use"):
            listening_socket("localhost", port, "x")


def test_the_daemon_answers_while_many_connect_and_say_nothing(tmp_path: Path) -> None:
    """`/healthz`, the command line and whatever else needs a descriptor, as it was found."""
    crowd, descriptors = (1_100, 1024) if is_full_length() else (300, 256)
    state = tmp_path / "state"
    port = free_port()
    web = f"127.0.0.1:{port}"
    with room_for(crowd), ExitStack() as clients, daemon(state, web=web) as running:
        hard = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (descriptors, hard))
        for _ in range(crowd):
            clients.enter_context(socket_module.create_connection(("127.0.0.1", port)))

        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE) as response:
            assert response.read() == b"ok"
        assert turngate(state, "status").returncode == 0
        used = len(list(Path(f"/proc/{running.pid}/fd").iterdir()))

    assert used <= descriptors - 60


@contextmanager
def room_for(crowd: int) -> Iterator[None]:
    """Let this process have so many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, crowd + 200), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
