"""
The HTTP Events API: Slack calls, at an address that a reverse proxy leads here.

bolt checks the signature over the raw body and its age. The same request twice is harmless: it carries the same event,
and that is known. 200 means stored; everything else makes Slack call again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.async_app import AsyncApp

from turngate.adapters.slack.account import Http, Patience
from turngate.adapters.slack.api import Api
from turngate.gateway.domain.errors import AddressTaken

_SIGNED_AT, _SIGNATURE = "X-Slack-Request-Timestamp", "X-Slack-Signature"
_MOMENT = re.compile(r"[0-9]{1,12}")
_LARGEST_REQUEST = 4 * 1024 * 1024
_TO_END = 1.0


async def listen_by_http(
    http: Http, api: Api, app: AsyncApp, patience: Patience, progress: Callable[[], None]
) -> None:
    """
    Until cancelled. `progress` is called with every request that Slack signed, and when Slack says who we are: it tells
    nobody whether it reaches him.

    Raises Unauthorized, Retryable, and AddressTaken if another program listens there.
    """
    async with _open_door(http, app, progress):
        while True:
            await api.answer(api.client.auth_test())
            progress()
            await asyncio.sleep(patience.look)


@asynccontextmanager
async def _open_door(
    http: Http, app: AsyncApp, progress: Callable[[], None]
) -> AsyncIterator[None]:
    async def called(request: web.Request) -> web.Response:
        if not _can_be_checked(request):
            return web.Response(status=401)
        try:
            asked = await to_bolt_request(request)
        except (
            ValueError,
            TypeError,
            AttributeError,
        ):  # signed or not, it is neither an object nor a form
            return web.Response(status=400)
        answer = await app.async_dispatch(asked)
        if answer.status == 200:
            progress()
        return await to_aiohttp_response(answer)

    rooms = web.Application(client_max_size=_LARGEST_REQUEST)
    rooms.router.add_post(http.path, called)
    runner = web.AppRunner(rooms, access_log=None, shutdown_timeout=_TO_END)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, http.host, http.port).start()
        except OSError as exc:
            raise AddressTaken(
                f"Slack's requests cannot arrive at {http.host}:{http.port}: {exc.strerror}"
            ) from exc
        yield
    finally:
        await runner.cleanup()


def _can_be_checked(request: web.Request) -> bool:
    """slack_sdk counts with the time and compares the signature, and breaks down over what is no number or no ASCII."""
    at, signature = request.headers.get(_SIGNED_AT, ""), request.headers.get(_SIGNATURE, "")
    return _MOMENT.fullmatch(at) is not None and signature.isascii()
