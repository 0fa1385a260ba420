"""
The line a chat goes over: always the control socket, whoever listens there.

Where no daemon runs, the gateway is started inside this process, on a thread of its own, without any door but that
socket. The main thread stays with the terminal, where Ctrl-C arrives.
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
from turngate.gateway.daemon.control.chat_events import ChatCommand, ChatEvent, Hello, event_of
from turngate.gateway.daemon.control.client import ControlClient, result_of
from turngate.gateway.daemon.control.connect import reach
from turngate.gateway.daemon.state_dir import Lock
from turngate.gateway.domain.errors import Unreachable
from turngate.gateway.domain.serialization import Json

if TYPE_CHECKING:
    from turngate.gateway.daemon.app import Gateway


class ChatConnection:
    """A conversation with the gateway: what is said, and what happens."""

    def __init__(self, client: ControlClient, session: str | None, *, is_inside: bool) -> None:
        self.session = session
        self.is_inside = is_inside
        self.commands: tuple[ChatCommand, ...] = ()
        self._client = client
        args: dict[str, Json] = {} if session is None else {"session": session}
        client.send({"do": "chat", "args": args})

    def greet(self) -> None:
        """Hear which commands there are."""
        event = self.next()
        if isinstance(event, Hello):
            self.commands = event.commands

    def say(self, text: str) -> str:
        """Send a message; returns the id under which it will be spoken of."""
        message = secrets.token_hex(8)
        self._client.send({"say": {"id": message, "text": text}})
        return message

    def next(self, timeout: float | None = None) -> ChatEvent | None:
        """What happens next. None if nothing did in that time, or nothing that this version knows."""
        answer = self._client.receive(timeout)
        if answer is None:
            return None
        if "item" not in answer:
            result_of(answer)
            raise Unreachable("the daemon has ended the conversation; what was said is kept")
        return event_of(answer["item"])


@contextmanager
def chat_line(
    state_dir: Path, load: Callable[[], Config], session: str | None
) -> Iterator[ChatConnection]:
    """
    To the daemon, or to a gateway that lives as long as this block.

    `load` reads the config with its secrets, which only such a gateway needs: those of a service only it can read.
    """
    with reach(state_dir) as reached:
        if isinstance(reached, ControlClient):
            yield _greeted(reached, session, is_inside=False)
            return
        with (
            _gateway_inside(load(), reached),
            ControlClient.connect(reached.state.control_socket) as client,
        ):
            yield _greeted(client, session, is_inside=True)


def _greeted(client: ControlClient, session: str | None, *, is_inside: bool) -> ChatConnection:
    line = ChatConnection(client, session, is_inside=is_inside)
    line.greet()
    return line


@dataclass(frozen=True, slots=True)
class _InProcessGateway:
    """A gateway on another thread, and how to end it."""

    loop: asyncio.AbstractEventLoop
    leaving: asyncio.Event
    gateway: Gateway


@contextmanager
def _gateway_inside(config: Config, lock: Lock) -> Iterator[None]:
    from turngate.gateway.observability.logs import configure_logging

    configure_logging("error", sys.stderr)
    started: Future[_InProcessGateway] = Future()
    ended: Future[None] = Future()
    thread = threading.Thread(
        target=_work, args=(config, lock, started, ended), name="turngate-gateway", daemon=True
    )
    thread.start()
    inside = started.result()
    try:
        yield
    finally:
        with suppress(
            RuntimeError
        ):  # its loop is closed: it has ended by itself, and `ended` says why
            inside.loop.call_soon_threadsafe(inside.leaving.set)
        try:
            ended.result()
        except KeyboardInterrupt:
            inside.loop.call_soon_threadsafe(inside.gateway.hurry.set)
            ended.result()


def _work(
    config: Config, lock: Lock, started: Future[_InProcessGateway], ended: Future[None]
) -> None:
    try:
        asyncio.run(_live(config, lock, started))
    except BaseException as exc:  # noqa: BLE001 - goes on where it is waited for, on the main thread
        if not started.done():
            started.set_exception(exc)
        ended.set_exception(exc)
    else:
        ended.set_result(None)


async def _live(config: Config, lock: Lock, started: Future[_InProcessGateway]) -> None:
    from turngate.gateway.daemon.app import running

    leaving = asyncio.Event()
    async with running(config, lock, doors=False) as gateway:
        started.set_result(_InProcessGateway(asyncio.get_running_loop(), leaving, gateway))
        await leaving.wait()
