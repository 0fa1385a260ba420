"""
Socket Mode: connections, envelopes and acknowledgements
(https://docs.slack.dev/apis/events-api/using-socket-mode).

Slack gives each event to one of the app's connections, whichever. A connection that went silent
still counts as one: what is given to it is lost until it is tried again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from aiohttp import WSMsgType, web

from tests.simulators.common import Call, Refusal
from tests.simulators.faults import Fault
from tests.simulators.slack import rules
from tests.simulators.slack.delivery import EVENT_TYPES, Event, without_faults_of_events
from tests.simulators.slack.server import Server
from tests.simulators.slack.world import App

UPGRADE = 101
REASONS = ("refresh_requested", "warning", "link_disabled", "too_many_websockets")
_LAST_WORDS = {"link_disabled", "too_many_websockets"}
_BROKEN = {
    "html": "<!DOCTYPE html><title>Log in</title>",
    "garbage": '{"type": "events_api", \x00 garbage',
    "wrong types": '{"type": 7, "envelope_id": {"no": []}, "payload": "perhaps", '
    '"retry_attempt": "later"}',
}


@dataclass(eq=False, kw_only=True)
class Connection:
    """
    One socket. It is given events from its hello until it is `leaving`; once `silent` nothing goes
    through, either way.
    """

    app: App
    ws: web.WebSocketResponse
    transport: asyncio.Transport | None
    welcome: bool = False
    silent: bool = False
    leaving: bool = False
    held: list[str] = field(default_factory=list)

    def abort(self) -> None:
        """As when a cable is cut."""
        if self.transport is not None:
            self.transport.abort()


@dataclass(eq=False, kw_only=True)
class Envelope:
    """One attempt that waits for its acknowledgement."""

    event: Event
    connection: Connection
    acknowledged: asyncio.Future[bool]


class Sockets:
    """All connections of all apps."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tickets: dict[str, App] = {}
        self._connections: list[Connection] = []
        self._envelopes: dict[str, Envelope] = {}
        self._turn = 0
        self._waiting: list[tuple[App, asyncio.Future[Connection]]] = []

    def ticket(self, app: App) -> str:
        """The address of a connection to be."""
        word = secrets.token_urlsafe(12)
        self._tickets[word] = app
        return f"{self._server.url.replace('http', 'ws', 1)}/link/?ticket={word}&app_id={app.id}"

    def app_of(self, ticket: str) -> App | None:
        """Whose address that is."""
        return self._tickets.get(ticket)

    async def admit(self, call: Call) -> web.StreamResponse:
        """Whether somebody may connect: an address is good for one connection."""
        without_faults_of_events(self._server.running, call.fault)
        if self._tickets.get(str(call.parameters["ticket"])) is None:
            raise rules.No("invalid_ticket", rules.SOCKET_URL, status=403)
        return web.Response(status=UPGRADE)

    async def connected(self, request: web.Request) -> web.StreamResponse:
        """A connection, for as long as it lasts."""
        app = self._tickets.pop(request.query["ticket"])
        ws = web.WebSocketResponse(autoping=False, timeout=1.0)
        await ws.prepare(request)
        connection = Connection(app=app, ws=ws, transport=request.transport)  # type: ignore[arg-type]
        self._connections.append(connection)
        background = asyncio.create_task(self._keep_alive(connection))
        try:
            if await self._welcome(connection):
                await self._listen(connection)
        finally:
            background.cancel()
            self._leave(connection)
        return ws

    async def attempt(self, event: Event, attempt: int, reason: str) -> str | None:
        """To one of the connections; they take turns."""
        connection = self._next(event.bot.app) or await self._first_to_open(event.bot.app)
        if connection is None:
            return "connection_failed"
        call = self._frame(event.type, event.facts(attempt), event)
        kind = call.fault.kind if call.fault else None
        acknowledged: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        for _ in range(2 if kind == "duplicate" else 1):
            envelope_id = str(uuid4())
            self._envelopes[envelope_id] = Envelope(
                event=event, connection=connection, acknowledged=acknowledged
            )
            text = _envelope(event, envelope_id, attempt, reason)
            if kind == "reorder" and not connection.held:
                connection.held.append(text)  # until the next one has gone
            else:
                await self._transmit(connection, call.fault, text)
        await asyncio.wait({acknowledged}, timeout=self._server.settings.ack_within)
        if not acknowledged.done():
            acknowledged.cancel()  # whatever is acknowledged later is acknowledged too late
            return "timeout"
        return None if acknowledged.result() else "connection_failed"

    async def disconnect(self, app: App, reason: str) -> int:
        """A disconnect frame on every connection of an app; returns how many there were."""
        mine = [each for each in self._connections if each.app is app and not each.leaving]
        for connection in mine:
            await self._disconnect(connection, reason)
        return len(mine)

    def break_all(self, app: App, *, silently: bool) -> int:
        """All connections are cut, or stay open and carry nothing any more."""
        mine = [each for each in self._connections if each.app is app]
        for connection in mine:
            connection.silent = True
            if not silently:
                connection.abort()
        return len(mine)

    def count(self, app: App) -> int:
        """How many are open."""
        return len([each for each in self._connections if each.app is app])

    async def _first_to_open(self, app: App) -> Connection | None:
        """Whoever waits longest goes first."""
        opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiting.append((app, opened))
        try:
            async with asyncio.timeout(self._server.settings.waits):
                return await opened
        except TimeoutError:
            return None

    def _let_in(self, connection: Connection) -> None:
        """From now on it is given events, and first those that wait for it."""
        connection.welcome = True
        for _, opened in [
            each for each in self._waiting if each[0] is connection.app and not each[1].done()
        ]:
            opened.set_result(connection)
        self._waiting = [each for each in self._waiting if not each[1].done()]

    def _next(self, app: App) -> Connection | None:
        mine = [
            each
            for each in self._connections
            if each.app is app and each.welcome and not each.leaving
        ]
        self._turn += 1
        return mine[self._turn % len(mine)] if mine else None

    async def _welcome(self, connection: Connection) -> bool:
        app, settings = connection.app, self._server.settings
        if not app.socket_mode:
            await self._disconnect(connection, "link_disabled")
            return False
        if self.count(app) > settings.connections:
            await self._disconnect(connection, "too_many_websockets")
            return False
        call = self._frame("hello", {"num_connections": self.count(app)}, app=app)
        hello = {
            "type": "hello",
            "num_connections": self.count(app),
            "debug_info": {
                "host": "simulated",
                "build_number": 1,
                "approximate_connection_time": 18060,
            },
            "connection_info": {"app_id": app.id},
        }
        await self._transmit(connection, call.fault, json.dumps(hello))
        self._let_in(connection)
        return True

    async def _listen(self, connection: Connection) -> None:
        async for frame in connection.ws:
            if connection.silent:
                continue
            if frame.type is WSMsgType.PING:
                call = self._frame("pong", {}, app=connection.app)
                await self._transmit(connection, call.fault, None, pong=frame.data)
            elif frame.type is WSMsgType.TEXT:
                await self._acknowledged(connection, frame.data)

    async def _acknowledged(self, connection: Connection, said: str) -> None:
        answer = _parsed(said)
        envelope = self._envelopes.get(str(answer.get("envelope_id")))
        event = envelope.event if envelope else None
        try:
            call = self._frame("ack", answer, event, app=connection.app)
        except Refusal:
            return  # recorded, with what is wrong with it
        if envelope is None:
            self._server.running.note_violation("nobody sent that envelope_id", rules.ACKS, call)
            return
        if self._interrupted(connection, call.fault, before=True):
            return
        if "payload" in answer and envelope.event.type == "events_api":
            self._server.running.note_violation("an event takes no payload", rules.ACKS, call)
        if envelope.acknowledged.done():
            call.answered = "too late" if envelope.acknowledged.cancelled() else "once more"
        else:
            envelope.event.answer = answer.get("payload")
            envelope.acknowledged.set_result(True)
        self._interrupted(connection, call.fault, before=False)

    def _interrupted(self, connection: Connection, fault: Fault | None, *, before: bool) -> bool:
        """Whether an acknowledgement gets lost, or the connection after it."""
        if fault is None or bool(fault.after) is before:
            return False
        connection.silent = True
        if fault.kind != "half-open":
            connection.abort()
        return True

    async def _keep_alive(self, connection: Connection) -> None:
        """Pings of Slack's own, and the end of a connection that is old."""
        settings, born = self._server.settings, time.monotonic()
        while True:
            left = (
                None
                if settings.lifetime is None
                else max(0.0, born + settings.lifetime - time.monotonic())
            )
            await asyncio.sleep(
                settings.ping_every if left is None else min(left, settings.ping_every)
            )
            if settings.lifetime is not None and time.monotonic() >= born + settings.lifetime:
                await self._disconnect(connection, "refresh_requested")
                return
            call = self._frame("ping", {}, app=connection.app)
            await self._transmit(connection, call.fault, None, ping=b"Ping from the simulator")

    async def _disconnect(self, connection: Connection, reason: str) -> None:
        connection.leaving = reason != "warning"
        call = self._frame("disconnect", {"reason": reason}, app=connection.app)
        said = {"type": "disconnect", "reason": reason, "debug_info": {"host": "simulated"}}
        await self._transmit(connection, call.fault, json.dumps(said))
        if reason in _LAST_WORDS:
            await connection.ws.close()
        else:
            asyncio.get_running_loop().call_later(self._server.settings.grace, _part, connection)

    async def _transmit(
        self,
        connection: Connection,
        fault: Fault | None,
        text: str | None,
        *,
        ping: bytes | None = None,
        pong: bytes | None = None,
    ) -> None:
        """One frame, or what is to happen instead of it."""
        kind = fault.kind if fault else None
        if kind == "half-open":
            connection.silent = True
        if connection.silent:
            return
        if kind == "slow" and fault is not None:
            await asyncio.sleep(fault.seconds)
        with suppress(
            ConnectionError, RuntimeError
        ):  # the bot hung up: that is found out where it listens
            if kind in (None, "slow", "duplicate", "reorder", "unparsable", "lost answer"):
                await _send(connection, text, ping, pong)
            elif kind in _BROKEN or kind == "truncated":
                await connection.ws.send_str(
                    _BROKEN.get(kind, (text or "{}")[: len(text or "{}") // 2])
                )
            elif kind != "reset":
                await connection.ws.close(code=1011)
        if kind in ("reset", "lost answer"):
            connection.abort()

    def _leave(self, connection: Connection) -> None:
        """What waits for an acknowledgement from there need not wait any longer."""
        self._connections.remove(connection)
        for envelope in self._envelopes.values():
            if envelope.connection is connection and not envelope.acknowledged.done():
                envelope.acknowledged.set_result(False)

    def _frame(
        self,
        name: str,
        parameters: dict[str, Any],
        event: Event | None = None,
        *,
        app: App | None = None,
    ) -> Call:
        app = event.bot.app if event else app
        owner = next(bot.name for bot in self._server.bots.values() if bot.app is app)
        account = event.bot.name if event else owner
        call = self._server.running.frame(
            f"socket.{name}", parameters, account=account, chat=event.chat if event else None
        )
        if name not in EVENT_TYPES:
            call.fault = without_faults_of_events(self._server.running, call.fault)
        return call


async def _send(
    connection: Connection, text: str | None, ping: bytes | None, pong: bytes | None
) -> None:
    if ping is not None:
        await connection.ws.ping(ping)
    elif pong is not None:
        await connection.ws.pong(pong)
    elif text is not None:
        await connection.ws.send_str(text)
        while connection.held:
            await connection.ws.send_str(connection.held.pop(0))


def _part(connection: Connection) -> None:
    """Slack ends what was told to go."""
    if not connection.ws.closed:
        connection.abort()


def _envelope(event: Event, envelope_id: str, attempt: int, reason: str) -> str:
    envelope = {
        "envelope_id": envelope_id,
        "payload": event.payload,
        "type": event.type,
        "accepts_response_payload": event.type != "events_api",
    }
    if event.type == "events_api":
        envelope |= {"retry_attempt": attempt, "retry_reason": reason}
    return json.dumps(envelope)


def _parsed(said: str) -> dict[str, Any]:
    try:
        answer = json.loads(said)
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {"a frame that is no object": said}
