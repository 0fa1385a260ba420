"""
A model server for real agents: it takes whatever they ask, tools included, and answers as it was
told to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class ToolModel:
    """
    Serves OpenAI's chat completions, streamed. `asked` holds the messages of every request, as
    JSON.
    """

    def __init__(self) -> None:
        self._pieces: Sequence[str] = ("hello",)
        self._call: Mapping[str, object] | None = None
        self._pause = 0.0
        self.asked: list[str] = []
        self.url = ""

    def say(self, *pieces: str, pause: float = 0.0) -> None:
        """From now on."""
        self._pieces, self._pause, self._call = pieces, pause, None

    def call(self, tool: str, arguments: Mapping[str, str]) -> None:
        """Use a tool, from now on."""
        function = {"name": tool, "arguments": json.dumps(arguments)}
        self._call = {"index": 0, "id": "call_1", "type": "function", "function": function}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """On a port of this machine."""
        app = web.Application(client_max_size=64_000_000)
        app.router.add_post("/v1/chat/completions", self._answer)
        async with TestServer(app) as server:
            self.url = f"http://127.0.0.1:{server.port}/v1"
            yield

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if asked["model"] == "small":
            deltas: list[dict[str, Any]] = [{"content": "a title"}]
        else:
            self.asked.append(json.dumps(asked["messages"]))
            deltas = (
                [{"tool_calls": [self._call]}]
                if self._call
                else [{"content": each} for each in self._pieces]
            )
        for delta in deltas:
            await _send(response, {"delta": {"role": "assistant", **delta}})
            await asyncio.sleep(self._pause)
        await _send(
            response,
            {"delta": {}, "finish_reason": "tool_calls" if "tool_calls" in deltas[0] else "stop"},
        )
        await response.write(b"data: [DONE]\n\n")
        return response


async def _send(response: web.StreamResponse, choice: dict[str, object]) -> None:
    chunk = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "usage": _USAGE,
    }
    choices = [{"index": 0, "finish_reason": None, **choice}]
    try:
        await response.write(
            b"data: " + json.dumps({**chunk, "choices": choices}).encode() + b"\n\n"
        )
    except ConnectionError:
        raise asyncio.CancelledError from None  # whoever asked has hung up: that is what a stop looks like from here  # noqa: E501
