"""
Socket Mode: one connection after the other, each lasting a few hours.

An envelope is acknowledged once its event is stored; without acknowledgement Slack resends it. A
silent socket is detected by pings. When Slack asks for a new connection, it is opened at once,
unless the last ones did not live long; any other disconnect ends the run of the account, and the
next run starts with a catch-up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
from aiohttp import ClientWebSocketResponse, WSMessage, WSMsgType
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from turngate.adapters.slack.account import Account, Timeouts
from turngate.adapters.slack.api import (
    Api,
    required_text,
    translated_errors,
)
from turngate.adapters.slack.json_fields import Json
from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.errors import (
    Retryable,
    Throttled,
    TurngateError,
    Undeliverable,
    Unreachable,
)

Progress = Callable[[], None]
SetAside = Callable[[Json], Awaitable[None]]

_SOCKET_MODE_HINT = (
    "is Socket Mode switched on in the app's settings, and has the app token the "
    "scope connections:write?"
)
_LARGEST_FRAME = 16 * 1024 * 1024
_CLOSE_TIMEOUT = 2.0
_LONGEST_PAUSE = 30.0
_BACKOFF = Backoff(first=1.0, longest=60.0, jitter=0.5)
_DISCONNECT_REASONS = {
    "link_disabled": "Socket Mode is switched off for this app, and no event arrives until it is "
    "switched on again in the app's settings; the app token needs the scope connections:write",
    "too_many_websockets": "the app has too many connections; stop other programs that use its "
    "app token",
}


async def listen_by_socket(
    account: Account,
    api: Api,
    app: AsyncApp,
    timeouts: Timeouts,
    progress: Progress,
    set_aside: SetAside,
) -> None:
    """
    Receive events until cancelled. `progress` is called for every frame received, `set_aside` with
    events that cannot be dispatched.

    Raises Unauthorized, and Retryable when a connection fails or ends unexpectedly.
    """
    brief = 0
    while True:
        url = await _address(account, api)
        began = asyncio.get_running_loop().time()
        async with _connected(api, url, timeouts) as socket:
            try:
                connection = _Connection(socket, app, timeouts, progress, set_aside)
                await connection.run_until_replaced()
            except Unreachable:
                await _check_authorized(api)
                raise

        lasted = asyncio.get_running_loop().time() - began
        brief = 0 if lasted >= timeouts.good else brief + 1
        # One refresh may follow another; a series of them means that Slack sends us away.
        if brief > 1:
            await asyncio.sleep(_BACKOFF.pause(brief - 2))


async def _address(account: Account, api: Api) -> str:
    """Request the URL of the next connection. It can be used once."""
    try:
        answer = await api.answer(
            api.client.apps_connections_open(app_token=account.app_token or "")
        )
    except Throttled as exc:
        await asyncio.sleep(min(exc.retry_after, _LONGEST_PAUSE))
        raise
    return required_text(answer, "url")


async def _check_authorized(api: Api) -> None:
    """Raise Unauthorized if the bot was removed: Slack only closes its connections in that case."""
    with suppress(Retryable, Undeliverable):
        await api.answer(api.client.auth_test())


@asynccontextmanager
async def _connected(
    api: Api, url: str, timeouts: Timeouts
) -> AsyncIterator[ClientWebSocketResponse]:
    """
    Open a socket. The previous one is closed first, because Slack sends each event to any one of
    them.
    """
    try:
        async with asyncio.timeout(timeouts.connect):
            with translated_errors():
                socket = await api.session.ws_connect(
                    url, autoping=False, max_msg_size=_LARGEST_FRAME, proxy=api.client.proxy
                )
    except TimeoutError as exc:
        raise Unreachable(f"no connection to Slack could be opened; {_SOCKET_MODE_HINT}") from exc

    try:
        yield socket
    finally:
        await _close(socket)


async def _close(socket: ClientWebSocketResponse) -> None:
    """Close the socket without waiting long: a silent one does not answer."""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await socket.close()


class _Connection:
    """One socket from its hello to its end."""

    def __init__(
        self,
        socket: ClientWebSocketResponse,
        app: AsyncApp,
        timeouts: Timeouts,
        progress: Progress,
        set_aside: SetAside,
    ) -> None:
        self._socket = socket
        self._app = app
        self._timeouts = timeouts
        self._progress = progress
        self._set_aside = set_aside
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_replaced = False

    async def run_until_replaced(self) -> None:
        """
        Receive until Slack asks for a new connection. Raises Retryable if it ends in any other way.
        """
        pings = asyncio.create_task(self._ping())

        try:
            await self._await_hello()
            while not self._is_replaced:
                await self._handle(await self._next(self._timeouts.ping + self._timeouts.answer))
            # Slack keeps the old connection open for a moment for this.
            await self._finish()
        finally:
            for task in (pings, *self._tasks):
                task.cancel()
            await asyncio.wait({pings, *self._tasks})

    async def _await_hello(self) -> None:
        try:
            async with asyncio.timeout(self._timeouts.connect):
                while not await self._is_hello(await self._next(self._timeouts.connect)):
                    pass
        except TimeoutError as exc:
            raise Unreachable(
                f"Slack accepted the connection but sent no hello; {_SOCKET_MODE_HINT}"
            ) from exc

    async def _is_hello(self, frame: WSMessage) -> bool:
        if frame.type is WSMsgType.PING:
            await self._send(self._socket.pong(frame.data))

        if frame.type is not WSMsgType.TEXT:
            # Pings alone do not prove that events arrive.
            return False

        message = _parsed(frame.data)
        if message.get("type") == "disconnect":
            self._on_disconnect(message)
            raise Retryable("Slack asked for another connection")

        is_event = _is_envelope(message)
        if not is_event and message.get("type") != "hello":
            return False

        self._progress()
        if is_event:
            self._start(message)

        return True

    async def _next(self, seconds: float) -> WSMessage:
        try:
            async with asyncio.timeout(seconds):
                frame = await self._socket.receive()
        except TimeoutError as exc:
            raise Unreachable("the socket timed out") from exc
        if frame.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
            raise Unreachable("Slack closed the connection")
        return frame

    async def _handle(self, frame: WSMessage) -> None:
        if frame.type is WSMsgType.PONG:
            self._progress()
        elif frame.type is WSMsgType.PING:
            self._progress()
            await self._send(self._socket.pong(frame.data))
        elif frame.type is WSMsgType.TEXT:
            message = _parsed(frame.data)
            if message.get("type") == "disconnect":
                self._on_disconnect(message)
            elif _is_envelope(message):
                self._progress()
                self._start(message)

    def _on_disconnect(self, message: dict[str, Any]) -> None:
        reason = str(message.get("reason"))
        # A new connection would be closed for the same reason.
        if reason in _DISCONNECT_REASONS:
            raise Retryable(_DISCONNECT_REASONS[reason])
        self._is_replaced = True

    def _start(self, envelope: dict[str, Any]) -> None:
        """
        Handle an envelope in a task. Tasks start in creation order, so each enters its chat's queue
        in order of arrival.
        """
        task = asyncio.create_task(self._acknowledge_once_stored(envelope))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _acknowledge_once_stored(self, envelope: dict[str, Any]) -> None:
        if await self._is_settled(envelope):
            acknowledgement = SocketModeResponse(envelope_id=envelope["envelope_id"])
            await self._send(self._socket.send_str(json.dumps(acknowledgement.to_dict())))

    async def _is_settled(self, envelope: dict[str, Any]) -> bool:
        """Whether the event is stored or never will be."""
        payload = envelope.get("payload")
        if not isinstance(payload, dict):
            return await self._is_set_aside(envelope)

        request = SocketModeRequest(
            type=envelope["type"], envelope_id=envelope["envelope_id"], payload=payload
        )
        try:
            response = await run_async_bolt_app(self._app, request)
        except Exception:  # noqa: BLE001 - bolt reads some fields without looking at their type
            return await self._is_set_aside(payload)
        return bool(response.status == 200)

    async def _is_set_aside(self, event: dict[str, Any]) -> bool:
        try:
            await self._set_aside(event)
        except TurngateError:
            return False
        return True

    async def _send(self, sending: Awaitable[object]) -> None:
        """
        Send a frame and ignore a closed socket: the reader detects that, and unacknowledged events
        are resent.
        """
        with suppress(ConnectionError, aiohttp.ClientError, RuntimeError):
            await sending

    async def _ping(self) -> None:
        while True:
            await self._send(self._socket.ping(b"turngate"))
            await asyncio.sleep(self._timeouts.ping)

    async def _finish(self) -> None:
        """Let events that are being stored be acknowledged on this connection."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_TIMEOUT)


def _parsed(text: str) -> dict[str, Any]:
    """Parse a frame; empty if it is not a JSON object. Slack resends an event that was in it."""
    try:
        message = json.loads(text)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _is_envelope(message: dict[str, Any]) -> bool:
    """Whether the frame has an event, which can be acknowledged by the id of its envelope."""
    return isinstance(message.get("envelope_id"), str) and isinstance(message.get("type"), str)
