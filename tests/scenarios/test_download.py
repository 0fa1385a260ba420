"""
Fetching from servers that lie, stall, never end, and from addresses that nobody should reach: all
on loopback.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from turngate.adapters.download import Downloads, is_public
from turngate.gateway.domain.errors import (
    Refused,
    Throttled,
    TurngateError,
    Unreachable,
)

PATIENCE = 30.0
OK = b"HTTP/1.1 200 OK\r\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers every request with the same bytes, and remembers what it was asked."""

    def __init__(self, answer: bytes | Answer) -> None:
        self._answer = answer
        self.requests: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
        try:
            if isinstance(self._answer, bytes):
                writer.write(self._answer)
                await writer.drain()
            else:
                await self._answer(writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # whoever asked has had enough
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: bytes | Answer) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with asyncio.timeout(PATIENCE):
        yield server
    listening.close()


class Resolver(AbstractResolver):
    """Gives out the next address each time it is asked."""

    def __init__(self, *addresses: str, port: int = 443) -> None:
        self._addresses = list(addresses)
        self._port = port
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: int = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        address = self._addresses.pop(0)
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host, host=address, port=self._port, family=kind, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        """Holds nothing."""


def of(server: Server, **more: object) -> Downloads:
    """Whoever uses that server as the operator's own."""
    return Downloads(hosts=frozenset(), own_server=server.url, **more)  # type: ignore[arg-type]


async def fetched(downloads: Downloads, url: str, **more: object) -> bytes:
    return b"".join([piece async for piece in downloads.fetch(url, **more)])  # type: ignore[arg-type]


def with_body(body: bytes, *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = "".join(f"{line}\r\n" for line in (*headers, f"Content-Length: {size}"))
    return OK + lines.encode() + b"\r\n" + body


class TestWhatArrives:
    async def test_a_file_comes_byte_for_byte_with_the_headers_that_were_given_and_no_others_of_ours(  # noqa: E501
        self,
    ) -> None:
        async with serving(with_body(bytes(range(256)))) as server:
            body = await fetched(
                of(server), f"{server.url}/f?x=1", headers={"Authorization": "Bearer canary"}
            )

        assert body == bytes(range(256))
        assert "GET /f?x=1 HTTP/1.1\r\n" in server.requests[0]
        assert "Authorization: Bearer canary\r\n" in server.requests[0]
        assert "Accept-Encoding: identity\r\n" in server.requests[0]
        assert "Cookie" not in server.requests[0]

    async def test_a_cookie_is_not_brought_back(self) -> None:
        async with serving(with_body(b"x", "Set-Cookie: id=1; Path=/")) as server:
            downloads = of(server)
            await fetched(downloads, server.url)
            await fetched(downloads, server.url)

        assert "Cookie" not in server.requests[1]

    async def test_what_is_packed_stays_packed(self) -> None:
        bomb = gzip.compress(bytes(10_000_000))
        async with serving(with_body(bomb, "Content-Encoding: gzip")) as server:
            assert await fetched(of(server), server.url) == bomb

    async def test_an_endless_body_is_read_only_as_far_as_somebody_asks(self) -> None:
        ended = asyncio.Event()

        async def endless(writer: asyncio.StreamWriter) -> None:
            writer.write(OK + b"\r\n")
            try:
                while True:
                    writer.write(bytes(65_536))
                    await writer.drain()
            finally:
                ended.set()

        async with serving(endless) as server:
            size = 0
            async with aclosing(of(server).fetch(server.url)) as pieces:
                async for piece in pieces:
                    size += len(piece)
                    if size > 1_000_000:
                        break
            await ended.wait()

        assert size < 2_000_000

    async def test_no_proxy_of_the_environment_is_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with (
            serving(with_body(b"the proxy's")) as proxy,
            serving(with_body(b"its own")) as server,
        ):
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy.url)

            assert await fetched(of(server), server.url) == b"its own"


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"]
    )
    async def test_a_redirect_is_not_followed_not_even_to_the_same_server(
        self, status: str
    ) -> None:
        async with serving(b"") as server:
            server._answer = (
                f"HTTP/1.1 {status}\r\nLocation: {server.url}/x\r\nContent-Length: 0\r\n\r\n"
            ).encode()
            with pytest.raises(Refused):
                await fetched(of(server), server.url)

        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            ("204 No Content", Refused),
            ("206 Partial Content", Refused),
            ("401 Unauthorized", Refused),
            ("404 Not Found", Refused),
            ("429 Too Many", Throttled),
            ("500 Oops", Unreachable),
            ("503 Busy", Unreachable),
        ],
    )
    async def test_only_200_is_a_file(self, status: str, error: type[TurngateError]) -> None:
        async with serving(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()) as server:
            with pytest.raises(error):
                await fetched(of(server), server.url)

    @pytest.mark.parametrize(
        ("asked", "pause"), [("7", 7.0), ("99999999", 60.0), ("tomorrow", 5.0), ("", 5.0)]
    )
    async def test_a_pause_is_as_long_as_the_platform_asks_within_reason(
        self, asked: str, pause: float
    ) -> None:
        busy = f"HTTP/1.1 429 Busy\r\nRetry-After: {asked}\r\nContent-Length: 0\r\n\r\n".encode()
        async with serving(busy) as server:
            with pytest.raises(Throttled) as refusal:
                await fetched(of(server), server.url)

        assert refusal.value.retry_after == pause

    @pytest.mark.parametrize(
        "answer",
        [
            with_body(b"hello", "Content-Type: text/html; charset=utf-8"),
            with_body(b"\n <!DOCTYPE HTML><title>Sign in</title>", "Content-Type: image/png"),
            with_body(b"<html lang=en>"),
        ],
        ids=["by its type", "by its beginning", "without a type"],
    )
    async def test_a_login_page_is_no_file_where_the_adapter_says_so(self, answer: bytes) -> None:
        async with serving(answer) as server:
            with pytest.raises(Refused, match="page instead"):
                await fetched(of(server), server.url, pages_are_refusals=True)
            assert await fetched(of(server), server.url)

    @pytest.mark.parametrize(
        "answer",
        [
            with_body(b"half", length=1000),
            with_body(b"x" * 1000, length=12),
            OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
            OK + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n",
            OK + b"Content-Length: -5\r\n\r\nx",
            b"220 ftp here\r\n",
            b"",
            OK + b"X-Long: " + b"a" * 20_000 + b"\r\nContent-Length: 1\r\n\r\nx",
            OK
            + b"".join(b"X-%d: y\r\n" % each for each in range(5000))
            + b"Content-Length: 1\r\n\r\nx",
        ],
        ids=[
            "shorter than it says",
            "longer than it says",
            "chunks that end in the middle",
            "no chunks",
            "a negative length",
            "another protocol",
            "nothing",
            "a header that is too long",
            "too many headers",
        ],
    )
    async def test_what_is_not_whole_is_an_error_and_never_a_file(self, answer: bytes) -> None:
        async with serving(answer) as server:
            with pytest.raises(Unreachable):
                await fetched(of(server), server.url)

    async def test_a_reset_in_the_middle_is_an_error(self) -> None:
        async def reset(writer: asyncio.StreamWriter) -> None:
            writer.write(with_body(b"half", length=1000))
            await writer.drain()
            linger = (1).to_bytes(4, "little") + bytes(4)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

        async with serving(reset) as server:
            with pytest.raises(Unreachable):
                await fetched(of(server), server.url)

    async def test_a_server_that_falls_silent_is_given_up(self) -> None:
        async def silent(writer: asyncio.StreamWriter) -> None:
            writer.write(with_body(b"half", length=1000))
            await asyncio.sleep(PATIENCE)

        async with serving(silent) as server:
            with pytest.raises(Unreachable):
                await fetched(of(server, silence=0.05), server.url)

    async def test_a_server_that_drips_for_ever_is_given_up(self) -> None:
        async def drip(writer: asyncio.StreamWriter) -> None:
            writer.write(with_body(b"", length=10_000))
            while True:
                writer.write(b".")
                await writer.drain()
                await asyncio.sleep(0.01)

        async with serving(drip) as server:
            with pytest.raises(Unreachable):
                await fetched(of(server, longest=0.3), server.url)

    async def test_a_server_that_is_not_there_is_unreachable(self) -> None:
        async with serving(b"") as server:
            pass
        with pytest.raises(Unreachable):
            await fetched(of(server), server.url)


class TestWhichAddresses:
    @pytest.mark.parametrize(
        "url",
        [
            "https://evil.example/f",
            "http://files.example/f",
            "https://files.example:8443/f",
            "https://files.example.evil.example/f",
            "https://evil.example/files.example",
            "https://evil.example#files.example",
            "https://evil.example?https://files.example/f",
            "https://files.example@evil.example/f",
            "https://user@files.example/f",
            "https://user:password@files.example/f",
            "https://evil.example\\@files.example/f",
            "https://files.example./f",
            "https://filеs.example/f",
            "https://127.0.0.1/f",
            "https://2130706433/f",
            "https://0177.0.0.1/f",
            "https://0x7f.1/f",
            "https://[::1]/f",
            "https://[::ffff:127.0.0.1]/f",
            "https://169.254.169.254/latest/meta-data/",
            "file:///etc/passwd",
            "ftp://files.example/f",
            "//files.example/f",
            "/etc/passwd",
            "https://",
            "https:files.example",
            "https://files.example:port/f",
            "https://[files.example/f",
            "https://files.example\r\nHost: evil/f",
            "",
            "\x00",
        ],
    )
    async def test_only_the_platform_s_hosts_over_https_are_asked(self, url: str) -> None:
        resolver = Resolver()

        with pytest.raises(Refused):
            await fetched(Downloads(hosts=frozenset({"files.example"}), resolver=resolver), url)

        assert resolver.asked == 0

    @pytest.mark.parametrize(
        "other", ["http://127.0.0.1:1", "http://localhost:{port}", "https://127.0.0.1:{port}"]
    )
    async def test_the_operator_s_own_server_is_that_one_and_no_neighbour(self, other: str) -> None:
        async with serving(with_body(b"x")) as server:
            with pytest.raises(Refused):
                await fetched(of(server), other.format(port=server.url.rpartition(":")[2]))

        assert server.requests == []

    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1",
            "10.1.2.3",
            "169.254.169.254",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "oops",
        ],
    )
    async def test_a_name_of_the_platform_s_that_leads_inside_is_not_dialled(
        self, address: str
    ) -> None:
        async with serving(with_body(b"secret")) as server:
            port = int(server.url.rpartition(":")[2])
            downloads = Downloads(
                hosts=frozenset({"files.example"}), resolver=Resolver(address, port=port)
            )
            with pytest.raises(Refused, match="private network"):
                await fetched(downloads, "https://files.example/f")

        assert server.requests == []

    async def test_a_name_is_looked_up_once_for_each_time_that_it_is_dialled(self) -> None:
        async with serving(with_body(b"secret")) as server:
            resolver = Resolver("127.0.0.1", "127.0.0.1", port=int(server.url.rpartition(":")[2]))
            downloads = Downloads(hosts=frozenset({"files.example"}), resolver=resolver)
            for _ in range(2):
                with pytest.raises(Refused):
                    await fetched(downloads, "https://files.example/f")

        assert (resolver.asked, server.requests) == (2, [])

    async def test_the_real_resolver_s_answer_is_looked_at_too(self) -> None:
        with pytest.raises(Refused, match="private network"):
            await fetched(Downloads(hosts=frozenset({"localhost"})), "https://localhost/f")

    @pytest.mark.parametrize(
        "address",
        [
            "93.184.216.34",
            "2606:2800:220:1:248:1893:25c8:1946",
            "64:ff9b::5db8:d822",
            "::ffff:93.184.216.34",
        ],
    )
    def test_addresses_of_the_open_internet(self, address: str) -> None:
        assert is_public(address)

    @pytest.mark.parametrize(
        "address",
        [
            *(
                "127.0.0.1",
                "127.255.255.254",
                "0.0.0.0",  # noqa: S104
                "10.0.0.1",
                "172.16.0.1",
                "192.168.1.1",
                "169.254.169.254",
            ),
            *(
                "100.64.0.1",
                "192.0.2.1",
                "198.18.0.1",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
            ),
            *(
                "::",
                "::1",
                "fe80::1",
                "fe80::1%eth0",
                "fc00::1",
                "fd12::1",
                "fec0::1",
                "ff02::1",
                "2001:db8::1",
            ),
            *(
                "::ffff:10.0.0.1",
                "::127.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b:1::1",
                "2002:7f00:1::",
                "2001:0:7f00:1::",
            ),
            *("", "localhost", "2130706433", "0177.0.0.1", "127.1"),
        ],
    )
    def test_addresses_that_are_not(self, address: str) -> None:
        assert not is_public(address)


async def test_nothing_of_the_library_leaks_out() -> None:
    async with serving(b"garbage") as server:
        with pytest.raises(TurngateError) as failure:
            await fetched(of(server), server.url)

    assert server.url not in str(failure.value)
    assert isinstance(failure.value.__cause__, aiohttp.ClientError)
