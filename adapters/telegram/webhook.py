"""
Receiving by webhook, at an address that a reverse proxy forwards here.

Requests without the secret are rejected unread. 200 means stored; Telegram repeats any other
request.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiogram.methods import GetWebhookInfo, SetWebhook
from aiohttp import web
from yarl import URL

from turngate.adapters.http_server import listening_socket, serving
from turngate.adapters.telegram.account import Timeouts, Webhook
from turngate.adapters.telegram.api import Api
from turngate.adapters.telegram.fields import number, text
from turngate.adapters.telegram.intake import Intake, number_of
from turngate.adapters.telegram.normalise import HANDLED
from turngate.gateway.domain.errors import Retryable, TurngateError

_SECRET = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the name of a header
_LARGEST_UPDATE = 4 * 1024 * 1024
_SHUTDOWN_TIMEOUT = 1.0


async def listen(
    api: Api, intake: Intake, webhook: Webhook, timeouts: Timeouts, progress: Callable[[], None]
) -> None:
    """
    Serve until cancelled. `progress` is called whenever Telegram reports successful delivery.

    Raises Unauthorized, Retryable, and AddressTaken if the port is in use.
    """
    async with _serving(intake, webhook):
        await api.call(
            SetWebhook(
                url=webhook.url,
                secret_token=webhook.secret,
                allowed_updates=list(HANDLED),
                drop_pending_updates=False,
            )
        )
        progress()
        intake.offer_commands()

        while True:
            await asyncio.sleep(timeouts.look)
            if await _is_delivering(api, webhook, timeouts):
                progress()


async def _is_delivering(api: Api, webhook: Webhook, timeouts: Timeouts) -> bool:
    """Check that the webhook is ours and Telegram has no undelivered updates."""
    info = await api.call(GetWebhookInfo())
    if text(info, "url") != webhook.url:
        raise Retryable(
            "another program has changed the webhook of this bot; stop it, or give this one its "
            "own bot"
        )
    is_troubled = number(info, "last_error_date") is not None
    return not (is_troubled and number(info, "pending_update_count"))


@asynccontextmanager
async def _serving(intake: Intake, webhook: Webhook) -> AsyncIterator[None]:
    async def handle(request: web.Request) -> web.Response:
        given = request.headers.get(_SECRET, "")
        if not hmac.compare_digest(given.encode(errors="replace"), webhook.secret.encode()):
            return web.Response(status=403)
        return await _take(intake, request)

    app = web.Application(client_max_size=_LARGEST_UPDATE)
    app.router.add_post(URL(webhook.url).path or "/", handle)
    listening = listening_socket(webhook.host, webhook.port, "the webhook cannot listen")
    async with serving(app, listening, shutdown_timeout=_SHUTDOWN_TIMEOUT):
        yield


async def _take(intake: Intake, request: web.Request) -> web.Response:
    try:
        update = json.loads(await request.read())
        number_of(update)
    except (ValueError, RecursionError, AttributeError, TurngateError):
        return web.Response(status=400)
    try:
        await intake.take([update])
    except TurngateError:
        return web.Response(status=503)
    return web.Response()
