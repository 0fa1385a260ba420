"""
The service manager's side door: what systemd is told of us, over the socket it gives to those it starts.

Written by hand because it is a datagram of a few words. Where there is no manager, nobody is told.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from datetime import timedelta

_MICROSECOND = timedelta(microseconds=1)


class Systemd:
    """Whoever started us. `address` is None if nobody wants to know; an `@` stands for an abstract socket."""

    def __init__(self, address: str | None) -> None:
        self._address = f"\0{address[1:]}" if address and address.startswith("@") else address
        self._status: str | None = None

    @property
    def listens(self) -> bool:
        """Whether anybody started us as a service."""
        return self._address is not None

    def ready(self) -> None:
        """Everything is open; or, after `reloading`, it was read."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """The config is being read again. `ready` ends it."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, longest: timedelta) -> None:
        """The end has begun, and takes at most so long."""
        self._tell("STOPPING=1", f"EXTEND_TIMEOUT_USEC={longest // _MICROSECOND}")

    def alive(self) -> None:
        """To be said from the event loop itself, so that its silence means that the loop is stuck."""
        self._tell("WATCHDOG=1")

    def status(self, line: str) -> None:
        """One line for people, told when it has changed."""
        if line != self._status:
            self._status = line
            self._tell(f"STATUS={line}")

    def _tell(self, *words: str) -> None:
        if self._address is None:
            return
        # A manager that cannot listen now is no reason to fail: it notices by itself that it hears nothing.
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line,
        ):
            line.setblocking(False)
            line.sendto("\n".join(words).encode(), self._address)


def is_journal(descriptor: int, named: str | None) -> bool:
    """Whether a stream leads to the journal: systemd names it by device and inode, in $JOURNAL_STREAM."""
    found = os.fstat(descriptor)
    return named == f"{found.st_dev}:{found.st_ino}"
