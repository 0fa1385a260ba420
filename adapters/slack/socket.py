"""
Socket Mode: one connection after the other, each for a few hours.

An envelope is acknowledged when what it carries is stored, and not at all if it could not be: then Slack sends it
again. A socket that is open and carries nothing is found out by pings. Slack's own wish for a new connection is
followed at once; whatever else ends one ends this life of the account, and the next begins by reading what was missed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
from aiohttp import ClientWebSocketResponse, WSMessage, WSMsgType
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app
from slack_bolt.async_app import AsyncApp
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from turngate.adapters.slack.account import Account, Patience
from turngate.adapters.slack.api import Api, our_errors, word
from turngate.gateway.domain.errors import Retryable, Throttled, Undeliverable, Unreachable

Progress = Callable[[], None]

_SWITCHED_ON = "is Socket Mode switched on in the app's settings, and has the app token the scope connections:write?"
_LARGEST_FRAME = 16 * 1024 * 1024
_TO_FINISH = 2.0
_LONGEST_PAUSE = 30.0
_WHY_NOT = {
    "link_disabled": f"Slack has ended the connection; {_SWITCHED_ON}",
    "too_many_websockets": "the app has too many connections; stop other programs that use its app token",
}

_log = logging.getLogger(__name__)


async def listen_by_socket(
    account: Account, api: Api, app: AsyncApp, patience: Patience, progress: Progress
) -> None:
    """
    Until cancelled. `progress` is called with everything that comes over the socket.

    Raises Unauthorized, and Retryable when a connection could not be made or ended without being asked to.
    """
    while True:
        url = await _address(account, api)
        async with _connected(api, url, patience) as socket:
            try:
                await _Connection(socket, app, patience, progress).last()
            except Unreachable:
                await _check_welcome(api)
                raise


async def _address(account: Account, api: Api) -> str:
    """Of the next connection. It is good for one."""
    try:
        answer = await api.answer(
            api.client.apps_connections_open(app_token=account.app_token or "")
        )
    except Throttled as exc:
        await asyncio.sleep(min(exc.retry_after, _LONGEST_PAUSE))
        raise
    return word(answer, "url")


async def _check_welcome(api: Api) -> None:
    """Of a bot that was removed nothing but its connections is ended; raises Unauthorized if that is why."""
    with suppress(Retryable, Undeliverable):
        await api.answer(api.client.auth_test())


@asynccontextmanager
async def _connected(
    api: Api, url: str, patience: Patience
) -> AsyncIterator[ClientWebSocketResponse]:
    """The old connection is gone before there is a new one: Slack gives each event to any one of them."""
    try:
        async with asyncio.timeout(patience.connect):
            with our_errors():
                socket = await api.session.ws_connect(
                    url, autoping=False, max_msg_size=_LARGEST_FRAME, proxy=api.client.proxy
                )
    except TimeoutError as exc:
        raise Unreachable(f"Slack let nobody connect; {_SWITCHED_ON}") from exc
    try:
        yield socket
    finally:
        await _hang_up(socket)


async def _hang_up(socket: ClientWebSocketResponse) -> None:
    """A socket that went silent does not say good-bye either."""
    with suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(_TO_FINISH):
            await socket.close()


class _Connection:
    """One socket from its hello to its end."""

    def __init__(
        self, socket: ClientWebSocketResponse, app: AsyncApp, patience: Patience, progress: Progress
    ) -> None:
        self._socket = socket
        self._app = app
        self._patience = patience
        self._progress = progress
        self._under_way: set[asyncio.Task[None]] = set()
        self._leaves = False

    async def last(self) -> None:
        """Until Slack asks for another one. Raises Retryable if it ends in any other way."""
        pings = asyncio.create_task(self._ping())
        try:
            await self._hear_hello()
            while not self._leaves:
                await self._handle(await self._next(self._patience.ping + self._patience.answer))
            await self._finish()
        finally:
            for task in (pings, *self._under_way):
                task.cancel()
            await asyncio.wait({pings, *self._under_way})

    async def _hear_hello(self) -> None:
        try:
            async with asyncio.timeout(self._patience.connect):
                while not await self._is_hello(await self._next(self._patience.connect)):
                    pass
        except TimeoutError as exc:
            raise Unreachable(
                f"Slack took the connection and said nothing; {_SWITCHED_ON}"
            ) from exc

    async def _is_hello(self, frame: WSMessage) -> bool:
        if frame.type is WSMsgType.PING:
            await self._send(self._socket.pong(frame.data))
        if frame.type is not WSMsgType.TEXT:
            return False  # a line on which only pings are heard is no line
        said = _parsed(frame.data)
        if said.get("type") == "disconnect":
            self._leave(said)
            raise Retryable("Slack wants another connection")
        request = _request(said)
        if request is None and said.get("type") != "hello":
            return False
        self._progress()
        if request is not None:
            self._take(request)
        return True

    async def _next(self, patience: float) -> WSMessage:
        try:
            async with asyncio.timeout(patience):
                frame = await self._socket.receive()
        except TimeoutError as exc:
            raise Unreachable("the socket went silent") from exc
        if frame.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
            raise Unreachable("Slack ended the connection")
        return frame

    async def _handle(self, frame: WSMessage) -> None:
        if frame.type is WSMsgType.PONG:
            self._progress()
        elif frame.type is WSMsgType.PING:
            self._progress()
            await self._send(self._socket.pong(frame.data))
        elif frame.type is WSMsgType.TEXT:
            said = _parsed(frame.data)
            if said.get("type") == "disconnect":
                self._leave(said)
            elif (request := _request(said)) is not None:
                self._progress()
                self._take(request)

    def _leave(self, said: dict[str, Any]) -> None:
        reason = str(said.get("reason"))
        if reason in _WHY_NOT:
            raise Retryable(_WHY_NOT[reason])
        self._leaves = True

    def _take(self, request: SocketModeRequest) -> None:
        """Tasks begin in the order in which they are made, so each takes its place in the line of its chat."""
        task = asyncio.create_task(self._taken(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _taken(self, request: SocketModeRequest) -> None:
        if await self._is_over(request):
            acknowledgement = SocketModeResponse(envelope_id=request.envelope_id)
            await self._send(self._socket.send_str(json.dumps(acknowledgement.to_dict())))

    async def _is_over(self, request: SocketModeRequest) -> bool:
        """Whether it is stored, or never will be: what bolt cannot even read would come again and again."""
        try:
            response = await run_async_bolt_app(self._app, request)
        except (AttributeError, KeyError, TypeError, ValueError):
            _log.warning("an event was left out: nobody understands it")
            return True
        return bool(response.status == 200)

    async def _send(self, sending: Awaitable[object]) -> None:
        """What cannot be told any more is found out where the socket is read, and comes again."""
        with suppress(ConnectionError, aiohttp.ClientError, RuntimeError):
            await sending

    async def _ping(self) -> None:
        while True:
            await self._send(self._socket.ping(b"turngate"))
            await asyncio.sleep(self._patience.ping)

    async def _finish(self) -> None:
        """What is being stored now is still acknowledged where it came from."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_TO_FINISH)


def _parsed(text: str) -> dict[str, Any]:
    """A frame that nobody can read carries something that comes again."""
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _request(said: dict[str, Any]) -> SocketModeRequest | None:
    is_whole = isinstance(said.get("envelope_id"), str) and isinstance(said.get("payload"), dict)
    return (
        SocketModeRequest.from_dict(said)
        if is_whole and isinstance(said.get("type"), str)
        else None
    )
