"""
A command's side of the control socket. Blocking: a command does one thing at a time, and Ctrl-C
ends it.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from turngate.gateway.daemon.control.address import address_of
from turngate.gateway.daemon.control.protocol import (
    PING,
    decode,
    encode,
    error_of,
)
from turngate.gateway.domain.errors import MalformedRecord, Unreachable
from turngate.gateway.domain.serialization import Json

_PIECE = 64 * 1024


class ControlClient:
    """A connection to the daemon."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._unread = bytearray()
        self._searched = 0

    @classmethod
    def connect(cls, path: Path) -> ControlClient:
        """Connect. Raises Unreachable if no daemon listens."""
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Not blocking: it would wait without end where the daemon takes no connections.
            connecting.setblocking(False)
            with address_of(path) as address:
                connecting.connect(address)
            connecting.setblocking(True)
        except OSError as exc:
            connecting.close()
            raise Unreachable(f"nothing answers at {path} ({exc.strerror or exc})") from exc
        return cls(connecting)

    def is_answered(self, timeout: float) -> bool:
        """
        Return whether the daemon answers within so many seconds. Raises its refusal if it has one.
        """
        self.send({"do": PING})
        answer = self.receive(timeout)
        if answer is not None:
            result_of(answer)
        return answer is not None

    def ask(self, do: str, args: Mapping[str, Json], on_item: Callable[[Json], None]) -> Json:
        """
        Return the result of one request; `on_item` gets its items as they come. Raises the daemon's
        error.
        """
        self.send({"do": do, "args": dict(args)})
        while True:
            answer = self.receive()
            if answer is None:
                continue
            if "item" in answer:
                on_item(answer["item"])
            else:
                return result_of(answer)

    def send(self, line: dict[str, Json]) -> None:
        """Send one line to the daemon."""
        try:
            self._socket.sendall(encode(line))
        except ConnectionError:
            # The daemon may have sent a reason before it closed the connection: `receive` reads it.
            return

    def receive(self, timeout: float | None = None) -> dict[str, Json] | None:
        """
        Return the next line; None if nothing arrived for `timeout` seconds. Raises Unreachable if
        the connection was closed.
        """
        while (end := self._unread.find(b"\n", self._searched)) < 0:
            # A line may have megabytes: searching it again with each piece would be quadratic.
            self._searched = len(self._unread)
            if timeout is not None and not select.select([self._socket], [], [], timeout)[0]:
                return None
            self._unread += self._piece()

        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        self._searched = 0

        try:
            return decode(line)
        except MalformedRecord as exc:
            raise Unreachable(
                "the daemon does not speak our language; it may be of another version"
            ) from exc

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def _piece(self) -> bytes:
        try:
            piece = self._socket.recv(_PIECE)
        except ConnectionError:
            piece = b""
        if not piece:
            raise Unreachable(
                "the daemon went away; see its log, start it again with `turngate run`"
            )
        return piece


def result_of(answer: Mapping[str, Json]) -> Json:
    """Return the result in the last line of a response, or raise the error in it."""
    if "error" in answer:
        raise error_of(answer["error"])
    return answer.get("done")
