"""
A Discord that somebody else wrote: the calls that no bot can do without, the fields that each must
have, no more.

It tells of no servers and no channels, compresses nothing, does not tell a bot of its own messages,
and calls its JSON by its full name, with a charset, as most servers do.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import WSMsgType, web

BOT, GUILD, CHANNEL, THREAD, DM, PERSON = "7001", "9001", "9101", "9102", "8101", "8001"
TOKEN = "plain.discord.token"  # noqa: S105 - of nobody

_EPOCH_MS = 1_420_070_400_000
_Answer = dict[str, Any]


class PlainDiscord:
    """
    `said` is what is in each channel, `calls` what was asked of it, `lacks` what it cannot be
    asked.

    `counts`: it numbers its messages, so that their ids tell no time.
    """

    def __init__(self, *lacks: str, counts: bool = False) -> None:
        self.url = ""
        self.said: dict[str, list[_Answer]] = {}
        self.calls: list[tuple[str, str]] = []
        self.bodies: list[_Answer] = []
        self.sessions = 0
        self.resumed = 0
        self._lacks = lacks
        self._counts = counts
        self._lines: list[web.WebSocketResponse] = []
        self._told: list[_Answer] = []
        self._numbers = itertools.count(1)

    def write(self, text: str, channel: str, author: str = PERSON, **more: Any) -> _Answer:
        """A message that nobody is told of."""
        beginning = 0 if self._counts else int(time.time() * 1000) - _EPOCH_MS << 22
        id_ = str(beginning + next(self._numbers))
        message = {
            "id": id_,
            "channel_id": channel,
            "content": text,
            "author": {"id": author},
            **more,
        }
        if self._counts:
            message = {"timestamp": datetime.now(UTC).isoformat(), **message}
        self.said.setdefault(channel, []).append(message)
        return message

    async def say(self, text: str, channel: str, **more: Any) -> _Answer:
        """A message, and every line hears of it."""
        message = self.write(text, channel, **more)
        await self.tell("MESSAGE_CREATE", message)
        return message

    async def tell(self, event: str, payload: Mapping[str, Any]) -> None:
        """Every line, now or after a resume."""
        frame = {"op": 0, "t": event, "s": len(self._told) + 2, "d": payload}
        self._told.append(frame)
        for line in self._lines:
            await line.send_json(frame)

    async def hang_up(self) -> None:
        """On everybody; their sessions go on."""
        lines, self._lines = self._lines, []
        for line in lines:
            await line.close(code=4000)

    def routes(self) -> list[web.RouteDef]:
        """All but those that it lacks."""
        channel = "/api/v10/channels/{channel}/messages"
        known = [
            web.get("/api/v10/users/@me", self._me),
            web.get("/api/v10/gateway/bot", self._gateway),
            web.get("/socket", self._line),
            web.get(channel, self._history),
            web.post(channel, self._post),
            web.patch(channel + "/{message}", self._edit),
            web.post("/api/v10/interactions/{interaction}/{token}/callback", self._note),
        ]
        return [route for route in known if f"{route.method} {route.path}" not in self._lacks]

    @web.middleware
    async def note(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """What is asked."""
        self.calls.append((request.method, request.path))
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _me(self, _: web.Request) -> web.Response:
        return web.json_response({"id": BOT, "username": "plain"})

    async def _gateway(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"url": self.url.replace("http", "ws", 1) + "/socket", "shards": 1}
        )

    async def _history(self, request: web.Request) -> web.Response:
        after = int(request.query.get("after", 0))
        page = [
            each
            for each in self.said.get(request.match_info["channel"], [])
            if not str(each["id"]).isdecimal() or int(each["id"]) > after
        ]
        limit = int(request.query.get("limit", 50))
        some = page[:limit] if after else page[-limit:]
        return web.json_response(some[::-1])

    async def _post(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        message = self.write(body["content"], request.match_info["channel"], BOT)
        return web.json_response({"id": message["id"]})

    async def _edit(self, request: web.Request) -> web.Response:
        for message in self.said.get(request.match_info["channel"], []):
            if message["id"] == request.match_info["message"]:
                message["content"] = (await request.json())["content"]
                return web.json_response({})
        return web.json_response({"message": "Unknown Message", "code": 10008}, status=404)

    async def _note(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        return web.Response(status=204)

    async def _line(self, request: web.Request) -> web.WebSocketResponse:
        line = web.WebSocketResponse()
        await line.prepare(request)
        await line.send_json({"op": 10, "d": {"heartbeat_interval": 500}})
        async for frame in line:
            if frame.type is WSMsgType.TEXT:
                await self._hear(line, json.loads(frame.data))
        return line

    async def _hear(self, line: web.WebSocketResponse, told: Mapping[str, Any]) -> None:
        match told["op"]:
            case 1:
                await line.send_json({"op": 11})
            case 2:
                self.sessions += 1
                await line.send_json({"op": 0, "t": "READY", "s": 1, "d": {"session_id": "1"}})
                self._lines.append(line)
            case 6:
                self.resumed += 1
                for frame in self._told[told["d"]["seq"] - 1 :]:
                    await line.send_json(frame)
                await line.send_json({"op": 0, "t": "RESUMED", "s": len(self._told) + 1, "d": None})
                self._lines.append(line)


@asynccontextmanager
async def plain_discord(*lacks: str, counts: bool = False) -> AsyncIterator[PlainDiscord]:
    """At work below `url`."""
    discord = PlainDiscord(*lacks, counts=counts)
    app = web.Application(middlewares=[discord.note])
    app.add_routes(discord.routes())
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        discord.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield discord
    finally:
        await runner.cleanup()
