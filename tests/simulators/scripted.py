"""
A platform of our own making, in a process of its own, that can be as bad as real ones.

    python -m tests.simulators.scripted --port 0 [--lossy]

It prints its address and speaks plain HTTP on loopback. `/api/...` is what a bot uses, `/people/...` what its users do
and see, `/faults` what goes wrong next.

Updates are handed out again until they are acknowledged, as Telegram and Slack do. With `--lossy` each is handed out
once, as Discord does, and only `/api/history` has what was missed. A send is one of: done; done but the answer is lost
(nobody can know); refused before the effect with 429 or 500; a reset before the effect.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from dataclasses import asdict, dataclass, field

from aiohttp import web

LONGEST_POLL = 20.0


@dataclass
class Update:
    """Something a person did."""

    n: int
    message_id: str
    chat: str
    user: str
    text: str
    handed_out: int = 0
    acknowledged: bool = False


@dataclass
class Message:
    """Something the bot sent, with everything it ever said."""

    id: str
    chat: str
    text: str
    key: str | None
    reply_to: str | None
    at: float
    edits: list[str] = field(default_factory=list)


class Platform:
    """Chats, updates, messages and faults."""

    def __init__(self, *, lossy: bool) -> None:
        self._lossy = lossy
        self._updates: list[Update] = []
        self._messages: list[Message] = []
        self._faults: list[dict[str, object]] = []
        self._news = asyncio.Event()
        self._calls: Counter[str] = Counter()
        self._counted = 0

    def routes(self) -> list[web.RouteDef]:
        """Everything there is."""
        return [
            web.get("/api/updates", self._get_updates),
            web.post("/api/ack", self._ack),
            web.post("/api/send", self._send),
            web.post("/api/edit", self._edit),
            web.get("/api/sent", self._find_sent),
            web.get("/api/history", self._history),
            web.post("/people/say", self._say),
            web.get("/people/messages", self._show_messages),
            web.get("/people/updates", self._show_updates),
            web.post("/faults", self._add_faults),
            web.get("/calls", self._show_calls),
        ]

    async def _say(self, request: web.Request) -> web.Response:
        """A person writes; `repeat` hands the same message out under another number, as platforms sometimes do."""
        said = await request.json()
        for _ in range(1 + int(said.get("repeat", 0))):
            n = len(self._updates) + 1
            message_id = str(said.get("id") or n)
            update = Update(n=n, message_id=message_id, chat=said["chat"], user=said["user"], text=said["text"])
            self._updates.append(update)
        self._news.set()
        return web.json_response({"id": message_id})

    async def _get_updates(self, request: web.Request) -> web.Response:
        self._calls["updates"] += 1
        wait = min(float(request.query.get("wait", "0")), LONGEST_POLL)
        deadline = time.monotonic() + wait
        while not (pending := self._pending()) and time.monotonic() < deadline:
            self._news.clear()
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await self._news.wait()
            except TimeoutError:
                break
        for update in pending:
            update.handed_out += 1
        return web.json_response([asdict(update) for update in pending])

    def _pending(self) -> list[Update]:
        fresh = [update for update in self._updates if not update.acknowledged]
        return [update for update in fresh if not (self._lossy and update.handed_out)][:100]

    async def _ack(self, request: web.Request) -> web.Response:
        self._calls["ack"] += 1
        acknowledged = set((await request.json())["updates"])
        for update in self._updates:
            update.acknowledged = update.acknowledged or update.n in acknowledged
        return web.json_response({})

    async def _history(self, request: web.Request) -> web.Response:
        self._calls["history"] += 1
        after = int(request.query.get("after", "0"))
        return web.json_response([asdict(update) for update in self._updates if update.n > after])

    async def _send(self, request: web.Request) -> web.StreamResponse:
        self._calls["send"] += 1
        sent = await request.json()
        fault = self._fault("send", sent["chat"])
        if fault is not None and fault["do"] != "lost answer":
            return await self._go_wrong(request, fault)
        known = [message for message in self._messages if message.key == sent.get("key") and message.key]
        message = known[0] if known and request.query.get("idempotent") else self._add(sent)
        if fault is not None:
            return await self._go_wrong(request, fault)
        return web.json_response({"id": message.id})

    def _add(self, sent: dict[str, str]) -> Message:
        message = Message(
            id=f"b{len(self._messages) + 1}",
            chat=sent["chat"],
            text=sent["text"],
            key=sent.get("key"),
            reply_to=sent.get("reply_to"),
            at=time.time(),
        )
        self._messages.append(message)
        return message

    async def _edit(self, request: web.Request) -> web.StreamResponse:
        self._calls["edit"] += 1
        edit = await request.json()
        found = next((message for message in self._messages if message.id == edit["id"]), None)
        if found is None:
            return web.json_response({"error": "no such message"}, status=404)
        fault = self._fault("edit", found.chat)
        if fault is not None and fault["do"] != "lost answer":
            return await self._go_wrong(request, fault)
        found.edits.append(found.text)
        found.text = edit["text"]
        if fault is not None:
            return await self._go_wrong(request, fault)
        return web.json_response({"id": found.id})

    async def _find_sent(self, request: web.Request) -> web.Response:
        self._calls["find"] += 1
        found = [message.id for message in self._messages if message.key == request.query["key"]]
        return web.json_response({"id": found[0] if found else None})

    async def _add_faults(self, request: web.Request) -> web.Response:
        """`[{"on": "send", "do": "lost answer" | "reset" | "429" | "500" | "403", "times": 1, "chat": ...}]`."""
        self._faults += await request.json()
        return web.json_response({})

    def _fault(self, on: str, chat: str) -> dict[str, object] | None:
        for fault in self._faults:
            if fault["on"] == on and fault.get("chat") in (None, chat):
                left = int(str(fault.get("times", 1)))
                fault["times"] = left - 1
                if left <= 1:
                    self._faults.remove(fault)
                return fault
        return None

    async def _go_wrong(self, request: web.Request, fault: dict[str, object]) -> web.StreamResponse:
        match str(fault["do"]):
            case "429":
                after = str(fault.get("retry_after", 1))
                return web.json_response({"error": "slow down", "retry_after": float(after)}, status=429)
            case "500" | "502" | "403" as status:
                return web.json_response({"error": "no"}, status=int(status))
            case _:
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError

    async def _show_messages(self, _: web.Request) -> web.Response:
        return web.json_response([asdict(message) for message in self._messages])

    async def _show_updates(self, _: web.Request) -> web.Response:
        return web.json_response([asdict(update) for update in self._updates])

    async def _show_calls(self, _: web.Request) -> web.Response:
        return web.json_response(self._calls)


async def serve(port: int, *, lossy: bool) -> None:
    """Until the process is ended."""
    app = web.Application()
    app.add_routes(Platform(lossy=lossy).routes())
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, taken = runner.addresses[0][:2]
    print(f"http://{host}:{taken}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--lossy", action="store_true")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, lossy=arguments.lossy))
