"""
One socket of the gateway, from Discord's end: frames go out in order, each with whatever goes wrong
with it.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import deque
from collections.abc import Callable, Mapping

from aiohttp import web

from tests.simulators.common import Call
from tests.simulators.discord.sessions import Frame, Session

HEARD = {
    0: "dispatch",
    1: "ask_heartbeat",
    7: "reconnect",
    9: "invalid_session",
    10: "hello",
    11: "heartbeat_ack",
}
"""What bots hear, by its opcode."""

MOST_FRAMES = 120
CLOSED_FOR = {"401": 4004, "403": 4000, "404": 4000, "409": 4000, "429": 4008, "500": 4000}
"""The codes that stand for statuses."""


class Connection:
    """
    `noted` records a frame and says what goes wrong with it: method, facts, account, chat.
    `compared` compares an event with what Discord says of it.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        transport: asyncio.BaseTransport | None,
        *,
        noted: Callable[[str, Mapping[str, object], str | None, str | None], Call],
        compared: Callable[[str, Mapping[str, object]], None],
        compressed: bool,
    ) -> None:
        self.silent = asyncio.Event()
        self.session: Session | None = None
        self._noted = noted
        self._compared = compared
        self._compressed = compressed
        self._socket = socket
        self._transport = transport
        self._waiting: asyncio.Queue[Frame | int] = asyncio.Queue()
        self._held_back: Frame | None = None
        self._deflate = zlib.compressobj()
        self.heard_at: deque[float] = deque(maxlen=MOST_FRAMES)

    def put(self, frame: Frame) -> None:
        """To be sent after all that was put before."""
        self._waiting.put_nowait(frame)

    def end(self, code: int | None) -> None:
        """Close it, after all that was put before; with None the line is cut at once."""
        if code is None:
            self._cut()
        else:
            self._waiting.put_nowait(code)

    def fall_silent(self) -> None:
        """It stays open, and nothing comes or is read any more."""
        self.silent.set()

    async def write(self) -> int:
        """Send what there is, until the socket is to be closed; returns the code for that."""
        while True:
            next_ = await self._waiting.get()
            code = await self._send(next_) if isinstance(next_, Frame) else next_
            if code is not None and not self.silent.is_set():
                return code

    async def _send(self, frame: Frame) -> int | None:
        if self.silent.is_set() or self._socket.closed:
            return None
        facts: dict[str, object] = {"op": frame.op}
        if frame.event is not None:
            facts |= {"event": frame.event, "seq": frame.seq}
            if isinstance(frame.data, Mapping) and not frame.is_given:
                self._compared(frame.event, frame.data)
        account = self.session.bot.account if self.session else None
        call = self._noted(HEARD[frame.op], facts, account, frame.chat)
        try:
            return await self._send_with(call, frame)
        except (ConnectionError, RuntimeError):
            call.answered = "the socket is gone"
            return None

    async def _send_with(self, call: Call, frame: Frame) -> int | None:
        fault = call.fault
        if fault is None:
            await self._write(frame)
            if self._held_back is not None:
                held_back, self._held_back = self._held_back, None
                await self._write(held_back)
            return None
        call.answered = fault.kind
        match fault.kind:
            case "half-open":
                self.silent.set()
            case "reset" | "502 html":
                self._cut()
            case "lost answer":
                await self._write(frame)
                self._cut()
            case "deaf":
                if self.session is not None and frame in self.session.told:
                    self.session.told.remove(frame)
            case "duplicate":
                await self._write(frame)
                await self._write(frame)
            case "reorder":
                self._held_back = frame
            case "slow":
                await asyncio.sleep(fault.seconds)
                await self._write(frame)
            case "garbage":
                await self._socket.send_bytes(b"\xff\xfe\x00garbage\x80\x00\x00\xff\xff")
            case "html":
                await self._socket.send_str("<!DOCTYPE html><title>Log in</title>")
            case "wrong types":
                await self._write_text(
                    '{"op": 0, "t": "MESSAGE_CREATE", "s": "many", "d": {"id": {"no": [null]}}}'
                )
            case "truncated":
                text = _text(frame)
                await self._write_text(text[: len(text) // 2])
            case kind:
                return CLOSED_FOR.get(kind, 4000)
        return None

    async def _write(self, frame: Frame) -> None:
        await self._write_text(_text(frame))

    async def _write_text(self, text: str) -> None:
        if not self._compressed:
            await self._socket.send_str(text)
            return
        packed = self._deflate.compress(text.encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        await self._socket.send_bytes(packed)

    def _cut(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()


def _text(frame: Frame) -> str:
    return json.dumps({"op": frame.op, "d": frame.data, "s": frame.seq, "t": frame.event})
