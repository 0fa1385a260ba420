"""
Notify systemd of the daemon's state over the socket that it passes to services.

Implemented here because it is one datagram with a few words. Without a service manager, nothing is
sent.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from datetime import timedelta

_MICROSECOND = timedelta(microseconds=1)


class Systemd:
    """
    The service manager. `address` is None without one; a leading `@` means an abstract socket.
    """

    def __init__(self, address: str | None) -> None:
        # The kernel marks an abstract address by a NUL byte, which a variable cannot contain.
        self._address = f"\0{address[1:]}" if address and address.startswith("@") else address
        self._status: str | None = None

    @property
    def listens(self) -> bool:
        """Return whether the daemon was started as a service."""
        return self._address is not None

    def ready(self) -> None:
        """Report that the start, or a reload after `reloading`, is complete."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """Report that the config is being reloaded; `ready` ends it."""
        # systemd orders reloads by this time: CLOCK_MONOTONIC in microseconds.
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def starting(self, longest: timedelta) -> None:
        """Report that the start goes on, and may take this much longer."""
        self._tell(f"EXTEND_TIMEOUT_USEC={longest // _MICROSECOND}")

    def stopping(self, longest: timedelta) -> None:
        """Report that the shutdown has begun, and how long it may take."""
        self._tell("STOPPING=1", f"EXTEND_TIMEOUT_USEC={longest // _MICROSECOND}")

    def alive(self) -> None:
        """
        Send the watchdog signal. Call it from the event loop, so that silence means a blocked loop.
        """
        self._tell("WATCHDOG=1")

    def status(self, line: str) -> None:
        """Send the status line if it has changed."""
        if line != self._status:
            self._status = line
            self._tell(f"STATUS={line}")

    def _tell(self, *words: str) -> None:
        if self._address is None:
            return
        # A manager that cannot listen now is no reason to fail or, on the event loop, to wait.
        # Without watchdog signals systemd restarts the daemon by itself.
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line,
        ):
            line.setblocking(False)
            line.sendto("\n".join(words).encode(), self._address)
