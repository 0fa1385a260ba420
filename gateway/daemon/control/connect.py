"""
Reach the state: through the daemon that holds it, or without one by taking the lock for one
request.

Two commands at once do not conflict: the second waits until the first has released the lock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from turngate.gateway.daemon.control.client import ControlClient
from turngate.gateway.daemon.control.requests import Requests, carry_out
from turngate.gateway.daemon.state_dir import (
    Lock,
    StateDir,
    take_lock,
)
from turngate.gateway.domain.errors import CommandRuns, StateInUse, Unreachable
from turngate.gateway.domain.serialization import Json

TIMEOUT = 5.0

_PAUSE = 0.05

OpenRequests = Callable[[StateDir], AbstractAsyncContextManager[Requests]]


def reach(folder: Path, *, timeout: float = TIMEOUT) -> Lock | ControlClient:
    """
    Return a connection to the daemon that holds the folder, or the lock if there is none.

    A daemon that is starting or stopping holds the lock and has no socket: StateInUse after
    `timeout` seconds. Unreachable if its socket takes the connection and nobody answers in that
    time.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return take_lock(folder, command=True)
        except StateInUse as exc:
            held = exc

        # The holder is a daemon, or a short command that releases the lock soon: try both again.
        socket = StateDir(folder.absolute()).control_socket
        try:
            client = ControlClient.connect(socket)
        except Unreachable as exc:
            if time.monotonic() >= deadline:
                raise _no_socket(folder, held) from exc
        else:
            return _answering(client, folder, held.pid, timeout)

        time.sleep(_PAUSE)


def _answering(
    client: ControlClient, folder: Path, pid: int | None, timeout: float
) -> ControlClient:
    """Return the client once the daemon has answered it: one that hangs takes connections too."""
    try:
        if client.is_answered(timeout):
            return client
    except BaseException:
        client.close()
        raise

    client.close()
    raise Unreachable(f"{_who(pid)} holds {folder} and does not answer; see its log, or restart it")


def ask(
    folder: Path,
    do: str,
    args: Mapping[str, Json],
    *,
    alone: OpenRequests,
    on_item: Callable[[Json], None],
    timeout: float = TIMEOUT,
) -> Json:
    """
    Return the result of one request, from the daemon or in this process; `alone` opens what the
    latter needs.
    """
    with reach(folder, timeout=timeout) as reached:
        if isinstance(reached, ControlClient):
            return reached.ask(do, args, on_item)

        return asyncio.run(
            _ask_alone(alone(reached.state), {"do": do, "args": dict(args)}, on_item)
        )


async def _ask_alone(
    opening: AbstractAsyncContextManager[Requests],
    request: Mapping[str, Json],
    on_item: Callable[[Json], None],
) -> Json:
    async with opening as requests:
        return await carry_out(requests, request, _OwnLine(on_item))


class _OwnLine:
    """The connection of a request that runs in this process."""

    def __init__(self, on_item: Callable[[Json], None]) -> None:
        self._on_item = on_item

    async def item(self, value: Json) -> None:
        self._on_item(value)

    async def next(self) -> dict[str, Json] | None:
        return None


def _no_socket(folder: Path, held: StateInUse) -> StateInUse:
    if isinstance(held, CommandRuns):
        return held
    return StateInUse(
        f"{_who(held.pid)} holds {folder} but does not answer; it may be starting or stopping: try "
        "again, or stop it",
        pid=held.pid,
    )


def _who(pid: int | None) -> str:
    return f"process {pid}" if pid else "another process"
