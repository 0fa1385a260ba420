"""
The daemon's side of the control socket.

Access is checked twice: by the file's mode, and by the peer's uid as the kernel reports it. An
invalid line, a failing verb or a disconnected client ends that request or connection only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from pathlib import Path
from types import TracebackType

from turngate.gateway.daemon.control.address import address_of
from turngate.gateway.daemon.control.protocol import (
    BUSY,
    FAILED,
    LARGEST_LINE,
    PING,
    decode,
    encode,
    error_answer,
    refusal,
)
from turngate.gateway.daemon.control.requests import Args, Line, Requests, carry_out
from turngate.gateway.domain.errors import (
    MalformedRecord,
    StoreUnavailable,
    TurngateError,
)
from turngate.gateway.domain.serialization import Json

MOST_CONNECTIONS = 64

_BACKLOG = 128
_REST = 1.0  # after the system had no descriptor left
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid

log = logging.getLogger(__name__)


class ControlServer:
    """
    The listener, open inside its `async with` block. Only the holder of the state folder's lock may
    open one.
    """

    def __init__(self, path: Path, requests: Requests) -> None:
        self._path = path
        self._requests = {PING: _ping, **requests}
        self._listening: socket.socket | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ControlServer:
        self._listening = _listening_socket(self._path)
        self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """
        Stop listening, then disconnect: a new client finds no socket and waits for the next daemon.
        """
        self._path.unlink(missing_ok=True)
        if self._listening is not None:
            listening, self._listening = self._listening, None
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

        # A task that is cancelled before its first step never runs, and leaves its socket open.
        await asyncio.sleep(0)
        for connection in self._connections:
            connection.cancel()

        await asyncio.gather(*self._connections, return_exceptions=True)

    def _listen(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    def _accept(self, listening: socket.socket) -> None:
        """
        Accept one client. Not done by asyncio's server, which on closing forgets connections that
        it accepted but has not passed on, and leaves those clients waiting.
        """
        try:
            connected, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            log.exception("a control connection could not be taken")
            # Without a free descriptor the socket stays readable, and the loop would spin on it.
            asyncio.get_running_loop().remove_reader(listening)
            asyncio.get_running_loop().call_later(_REST, self._listen)
            return

        connected.setblocking(False)
        has_room = len(self._connections) < MOST_CONNECTIONS
        task = asyncio.get_running_loop().create_task(self._meet(connected, has_room=has_room))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _meet(self, connected: socket.socket, *, has_room: bool) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connected, limit=LARGEST_LINE)
        try:
            await self._serve(_Connection(reader, writer), has_room=has_room)
        except ConnectionError:
            pass  # the client has disconnected, so there is no one to report it to
        finally:
            writer.close()

    async def _serve(self, connection: _Connection, *, has_room: bool) -> None:
        if not may_connect(connection.peer_uid(), os.getuid()):
            await connection.write(refusal("refused", "this daemon belongs to another user"))
        elif not has_room:
            await connection.write(
                refusal(BUSY, f"the daemon has {MOST_CONNECTIONS} connections; try again later")
            )
        else:
            while await self._serve_one(connection):
                pass

    async def _serve_one(self, connection: _Connection) -> bool:
        """Serve one request; return whether another may follow."""
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
            # From writing an item: the client is gone, and no response can be sent.
            raise
        except TurngateError as exc:
            return encode(error_answer(exc))
        except Exception as exc:  # a border: a bug in one verb must not end the daemon
            log.exception("a control request failed")
            return encode(
                refusal(
                    FAILED, f"the gateway failed at this ({type(exc).__name__}); its log says more"
                )
            )


async def _ping(args: Args, line: Line) -> Json:
    return None


class _Connection:
    """One client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_over = False

    def peer_uid(self) -> int:
        """Return the uid of the client's process, as the kernel reports it."""
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
            # The rest of that line is still in the buffer and would be read as requests.
            self._is_over = True
            raise MalformedRecord(f"a line of more than {LARGEST_LINE} bytes") from None
        return decode(line)

    async def write(self, answer: dict[str, Json]) -> None:
        await self.write_raw(encode(answer))

    async def write_raw(self, line: bytes) -> None:
        self._writer.write(line)
        await self._writer.drain()


def may_connect(uid: int, own: int) -> bool:
    """
    Return whether that uid may connect: our own, and root, which can read the state folder anyway.
    """
    return uid in (own, 0)


def _listening_socket(path: Path) -> socket.socket:
    """
    Bind under a temporary name and rename, so that there is never a socket that cannot be used yet,
    and so that what a killed daemon left is replaced.
    """
    draft = path.with_name(path.name + ".new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    try:
        # On an unbound socket this is the mode that its file will have, so there is no moment in
        # which others can connect.
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
            f"{path} cannot be made ({exc.strerror or exc}); check the folder's owner and "
            "permissions"
        ) from exc

    return listening
