"""
The daemon's end of the control socket.

Who may connect is decided twice: by the file's mode, and by the kernel's word about the other end. A line that makes no
sense, a verb that fails and a client that goes away end that request or that connection, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from pathlib import Path
from types import TracebackType

from gateway.control.address import address_of
from gateway.control.lines import BUSY, FAILED, LARGEST_LINE, decode, encode, error_answer, refusal
from gateway.control.requests import Requests, carry_out
from gateway.dicts import Json
from gateway.errors import MalformedRecord, StoreUnavailable, TurngateError

MOST_CONNECTIONS = 64

_BACKLOG = 128
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid

log = logging.getLogger(__name__)


class ControlServer:
    """Listens inside its `async with` block. Only whoever holds the lock of the state folder may open one."""

    def __init__(self, path: Path, requests: Requests) -> None:
        self._path = path
        self._requests = requests
        self._server: asyncio.Server | None = None
        self._is_open = False
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ControlServer:
        listening = _listening_socket(self._path)
        self._is_open = True
        self._server = await asyncio.start_unix_server(self._meet, sock=listening, limit=LARGEST_LINE)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Stop listening, then hang up: whoever asks now finds no socket and waits for the next daemon."""
        self._is_open = False
        self._path.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - narrows the type for mypy; asyncio runs this in a task of its own
        self._connections.add(task)
        try:
            await self._serve(_Connection(reader, writer))
        except ConnectionError:
            pass  # the other end is gone, and with it whoever would want to know
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, connection: _Connection) -> None:
        if not self._is_open:
            return  # let in by the kernel while the door was being shut
        if not may_connect(connection.peer_uid(), os.getuid()):
            await connection.write(refusal("refused", "this daemon belongs to another user"))
        elif len(self._connections) > MOST_CONNECTIONS:
            await connection.write(refusal(BUSY, f"the daemon has {MOST_CONNECTIONS} connections; try again later"))
        else:
            while await self._serve_one(connection):
                pass

    async def _serve_one(self, connection: _Connection) -> bool:
        """Whether there may be more."""
        try:
            request = await connection.next()
        except MalformedRecord as exc:
            await connection.write(error_answer(exc))
            return True
        if request is None:
            return False
        await connection.write_raw(await self._answer(request, connection))
        return True

    async def _answer(self, request: dict[str, Json], connection: _Connection) -> bytes:
        try:
            return encode({"done": await carry_out(self._requests, request, connection)})
        except ConnectionError:
            raise
        except TurngateError as exc:
            return encode(error_answer(exc))
        except Exception as exc:  # a border: a bug in one verb must not end the daemon
            log.exception("a control request failed")
            return encode(refusal(FAILED, f"the gateway failed at this ({type(exc).__name__}); its log says more"))


class _Connection:
    """One client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_over = False

    def peer_uid(self) -> int:
        """Whose process the other end is, as the kernel knows it."""
        connected: socket.socket = self._writer.get_extra_info("socket")
        told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid: int = _CREDENTIALS.unpack(told)[1]
        return uid

    async def item(self, value: Json) -> None:
        await self.write({"item": value})

    async def next(self) -> dict[str, Json] | None:
        if self._is_over:
            return None
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None  # half a line is no request
        except asyncio.LimitOverrunError:
            self._is_over = True
            raise MalformedRecord(f"a line of more than {LARGEST_LINE} bytes") from None
        return decode(line)

    async def write(self, answer: dict[str, Json]) -> None:
        await self.write_raw(encode(answer))

    async def write_raw(self, line: bytes) -> None:
        self._writer.write(line)
        await self._writer.drain()


def may_connect(uid: int, own: int) -> bool:
    """Oneself, and root, who may read the state folder anyhow."""
    return uid in (own, 0)


def _listening_socket(path: Path) -> socket.socket:
    """
    Bound under another name and renamed, so that there is always a socket, or none, but never one that nobody may use
    yet, and so that what a killed daemon left behind is replaced.
    """
    draft = path.with_name(path.name + ".new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # On a socket without a name this is the mode its name will have: there is no moment in which it is open to all.
        os.fchmod(listening.fileno(), 0o600)
        draft.unlink(missing_ok=True)
        with address_of(draft) as address:
            listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        draft.replace(path)
    except OSError as exc:
        listening.close()
        raise StoreUnavailable(
            f"{path} cannot be made ({exc.strerror or exc}); check the folder's owner and permissions"
        ) from exc
    return listening
