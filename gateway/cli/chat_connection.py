"""
The connection of a chat: always the control socket.

If no daemon runs, a gateway is started inside this process, on its own thread and with the control
socket only. The main thread keeps the terminal, where Ctrl-C arrives.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from turngate.config.schema import Config
from turngate.gateway.daemon.control.chat_events import (
    ChatCommand,
    ChatEvent,
    Hello,
    event_of,
)
from turngate.gateway.daemon.control.client import ControlClient, result_of
from turngate.gateway.daemon.control.connect import reach
from turngate.gateway.daemon.process_access import close_to_others
from turngate.gateway.daemon.state_dir import Lock
from turngate.gateway.domain.errors import Unreachable
from turngate.gateway.domain.serialization import Json

if TYPE_CHECKING:
    from turngate.gateway.daemon.gateway import Gateway


class ChatConnection:
    """A conversation with the gateway: sends messages, receives events."""

    def __init__(self, client: ControlClient, session: str | None, *, in_process: bool) -> None:
        self.session = session
        self.in_process = in_process
        self.commands: tuple[ChatCommand, ...] = ()
        self._client = client
        args: dict[str, Json] = {} if session is None else {"session": session}
        client.send({"do": "chat", "args": args})

    def read_hello(self) -> None:
        """Read the available commands."""
        event = self.next()
        if isinstance(event, Hello):
            self.commands = event.commands

    def say(self, text: str) -> str:
        """Send a message; returns its id."""
        message = secrets.token_hex(8)
        self._client.send({"say": {"id": message, "text": text}})
        return message

    def next(self, timeout: float | None = None) -> ChatEvent | None:
        """
        Return the next event; None on timeout or for an event that this version does not know.
        """
        answer = self._client.receive(timeout)
        if answer is None:
            return None
        if "item" not in answer:
            # Raises the error of the daemon, if the last line has one.
            result_of(answer)
            raise Unreachable("the daemon has closed the connection; the conversation is kept")
        return event_of(answer["item"])


@contextmanager
def open_chat(
    state_dir: Path, load: Callable[[], Config], session: str | None
) -> Iterator[ChatConnection]:
    """
    Connect to the daemon, or to a gateway that runs as long as this block.

    `load` reads the config with its secrets. Only an in-process gateway needs them; a service's
    secrets may be unreadable here.
    """
    with reach(state_dir) as reached:
        if isinstance(reached, ControlClient):
            yield _connected(reached, session, in_process=False)
            return
        with (
            _in_process_gateway(load(), reached),
            ControlClient.connect(reached.state.control_socket) as client,
        ):
            yield _connected(client, session, in_process=True)


def _connected(client: ControlClient, session: str | None, *, in_process: bool) -> ChatConnection:
    line = ChatConnection(client, session, in_process=in_process)
    line.read_hello()
    return line


@dataclass(frozen=True, slots=True)
class _InProcessGateway:
    """A gateway on another thread, and how to stop it."""

    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event
    gateway: Gateway


@contextmanager
def _in_process_gateway(config: Config, lock: Lock) -> Iterator[None]:
    from turngate.gateway.observability.logs import configure_logging

    # The terminal shows the chat, so only errors are logged there.
    configure_logging("error", sys.stderr)
    started: Future[_InProcessGateway] = Future()
    ended: Future[None] = Future()

    # A daemon thread: when the main thread is interrupted once more while it waits below, the
    # interpreter exits without joining it.
    thread = threading.Thread(
        target=_run_thread,
        args=(config, lock, started, ended),
        name="turngate-gateway",
        daemon=True,
    )
    thread.start()
    # Raises here what failed during the start.
    inside = started.result()

    try:
        yield
    finally:
        # RuntimeError: its loop is closed. It has ended by itself, and `ended` has the reason.
        # The event belongs to the other thread's loop and must be set there.
        with suppress(RuntimeError):
            inside.loop.call_soon_threadsafe(inside.stop.set)
        try:
            ended.result()
        except KeyboardInterrupt:
            # A second Ctrl-C: stop without waiting for running turns.
            inside.loop.call_soon_threadsafe(inside.gateway.hurry.set)
            ended.result()


def _run_thread(
    config: Config, lock: Lock, started: Future[_InProcessGateway], ended: Future[None]
) -> None:
    try:
        asyncio.run(_run_gateway(config, lock, started))
    except BaseException as exc:  # noqa: BLE001 - re-raised on the main thread
        # The main thread waits for the start first, and without this it would wait for ever.
        if not started.done():
            started.set_exception(exc)
        ended.set_exception(exc)
    else:
        ended.set_result(None)


async def _run_gateway(config: Config, lock: Lock, started: Future[_InProcessGateway]) -> None:
    from turngate.gateway.daemon.app import running

    close_to_others()

    stop = asyncio.Event()
    async with running(config, lock, doors=False) as gateway:
        started.set_result(_InProcessGateway(asyncio.get_running_loop(), stop, gateway))
        await stop.wait()
