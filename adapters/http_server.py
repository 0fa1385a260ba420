"""
Serve HTTP on one local port, with limits for clients that connect and say nothing.

aiohttp bounds the size of a request but hardly its time, and accepts connections until the process
has no file descriptor left. Connections are accepted here, one at a time, so that a limit is
checked before aiohttp hears of one. What a handler does is not limited: long answers and web
sockets take their time.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from turngate.gateway.domain.errors import AddressTaken

_BACKLOG = 256
_REST = 1.0  # after the system had no descriptor left
_LOOKS = 10  # at silent connections, within the time that one may take
_LINGER = 2.0  # for the rest of a body that nobody read, so that the client sees the answer

_log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """
    Limits of one server; times in seconds.

    `connections`: open at once. `first_request`: from connecting to the end of the first request's
    headers. `body`: from there to the end of its body. `idle`: between two requests; longer than
    proxies keep their connections. `spare_descriptors`: left to the rest of the process.
    """

    connections: int = 128
    first_request: float = 10.0
    body: float = 30.0
    idle: float = 130.0
    spare_descriptors: int = 64


def listening_socket(host: str, port: int, purpose: str) -> socket.socket:
    """Return a socket that listens at a local address. Raises AddressTaken for any reason."""
    address = "127.0.0.1" if host == "localhost" else host
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as exc:
        raise AddressTaken(f"{purpose} at {host}:{port}: {exc.strerror}") from exc


@asynccontextmanager
async def serving(
    app: web.Application,
    listening: socket.socket,
    *,
    shutdown_timeout: float,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[None]:
    """Serve the application on that socket, and close it in the end."""
    limits = limits or ConnectionLimits()
    # No access log: it would name the codes of one-time links. Signals belong to the daemon.
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        logger=_server_log(),
        shutdown_timeout=shutdown_timeout,
        keepalive_timeout=limits.idle,
        lingering_time=_LINGER,
    )
    connections = _Connections(runner, limits)
    app.middlewares.insert(0, connections.limit_request)

    try:
        await runner.setup()
        async with connections.accepted(listening):
            yield
    finally:
        listening.close()
        await runner.cleanup()


class _Connections:
    """The connections of one server."""

    def __init__(self, runner: web.AppRunner, limits: ConnectionLimits) -> None:
        self._runner = runner
        self._limits = limits
        self._opening: dict[web.RequestHandler, asyncio.Task[None]] = {}
        # Those that have sent no whole request, and when they connected; oldest first.
        self._silent: dict[web.RequestHandler, float] = {}
        self._answering: set[web.RequestHandler] = set()
        self._reduced = 0
        self._reduced_until = 0.0

    @asynccontextmanager
    async def accepted(self, listening: socket.socket) -> AsyncIterator[None]:
        """Accept connections during this block, and close the socket at its end."""
        listening.setblocking(False)
        _hang_up_deaf_clients(listening, self._limits.body)
        sweeping = asyncio.create_task(self._hang_up_silent())
        self._listen(listening)

        try:
            yield
        finally:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
            tasks = (sweeping, *self._opening.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @web.middleware
    async def limit_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Run a handler, and end it if the request's body is not complete in time."""
        connection = request.protocol
        self._silent.pop(connection, None)
        self._answering.add(connection)
        loop = asyncio.get_running_loop()

        try:
            async with asyncio.timeout(None) as limit:
                timer = loop.call_later(self._limits.body, _end_unless_read, request, limit)
                try:
                    return await handler(request)
                finally:
                    timer.cancel()
        except TimeoutError:
            if not limit.expired():
                raise
            answer = web.Response(status=HTTPStatus.REQUEST_TIMEOUT)
            answer.force_close()
            return answer
        except web.RequestPayloadError:
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        except ConnectionError:
            # The client left in the middle of its body: nobody reads this answer.
            if request.transport is not None:
                raise
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        finally:
            self._answering.discard(connection)

    def _listen(self, listening: socket.socket) -> None:
        # During the rest after an error the server may have been closed.
        if listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connected, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as exc:
            _log.warning("a connection could not be accepted: %s", exc.strerror)
            # Without a free descriptor the socket stays readable, and the loop would spin on it.
            asyncio.get_running_loop().remove_reader(listening)
            asyncio.get_running_loop().call_later(_REST, self._listen, listening)
            return

        # Whoever has waited longest without a request makes room, so that a crowd of silent
        # clients keeps nobody else out.
        most = self._most(connected)
        while self._count() >= most:
            if not self._hang_up_idle():
                connected.close()
                return

        self._open(connected)

    def _open(self, connected: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        connected.setblocking(False)
        connection = self._server()
        self._silent[connection] = loop.time()

        task = loop.create_task(_connect(connection, connected))
        self._opening[connection] = task
        task.add_done_callback(lambda _: self._opening.pop(connection, None))

    def _count(self) -> int:
        return len(self._open_connections()) + len(self._opening)

    def _most(self, connected: socket.socket) -> int:
        """Return how many connections may be open, given the descriptor that this one got."""
        now = asyncio.get_running_loop().time()
        available, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The kernel gives out the lowest free number. A high one tells how many are in use; a low
        # one tells nothing, it may be that of a connection that was hung up: so remember for a
        # while how many connections were too many.
        missing = connected.fileno() + 1 + self._limits.spare_descriptors - available
        if missing > 0 and available != resource.RLIM_INFINITY:
            self._reduced = max(self._count() + 1 - missing, 0)
            self._reduced_until = now + self._limits.first_request

        most = self._limits.connections
        return min(self._reduced, most) if now < self._reduced_until else most

    def _hang_up_idle(self) -> bool:
        """Hang up one connection without a request, and return whether there was one."""
        for connection in (*self._silent, *self._open_connections()):
            if connection.transport is not None and connection not in self._answering:
                self._hang_up(connection)
                return True
        return False

    async def _hang_up_silent(self) -> None:
        longest = self._limits.first_request
        while True:
            await asyncio.sleep(longest / _LOOKS)
            now = asyncio.get_running_loop().time()
            for connection, since in list(self._silent.items()):
                is_gone = connection.transport is None and connection not in self._opening
                if is_gone or now - since >= longest:
                    self._hang_up(connection)

    def _hang_up(self, connection: web.RequestHandler) -> None:
        self._silent.pop(connection, None)
        connection.force_close()

    def _open_connections(self) -> list[web.RequestHandler]:
        return [each for each in self._server.connections if each.transport is not None]

    @property
    def _server(self) -> web.Server:
        # Made by the runner's setup, which comes before the first connection.
        return cast(web.Server, self._runner.server)


async def _connect(connection: web.RequestHandler, connected: socket.socket) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, connected)
    except OSError:
        connected.close()  # the client has left already


def _hang_up_deaf_clients(listening: socket.socket, longest: float) -> None:
    """Let the kernel end connections whose client takes no answer for so many seconds."""
    # Accepted sockets inherit it. Only Linux has it.
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listening.setsockopt(socket.IPPROTO_TCP, option, round(longest * 1000))


def _end_unless_read(request: web.Request, limit: asyncio.Timeout) -> None:
    if not request.content.is_eof():
        limit.reschedule(asyncio.get_running_loop().time())


def _server_log() -> logging.Logger:
    """Return aiohttp's log of failed handlers, without the malformed requests of strangers."""
    log = logging.getLogger(f"{__name__}.library")
    log.addFilter(_is_worth_telling)
    return log


def _is_worth_telling(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError)
