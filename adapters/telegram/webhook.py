"""
Being called by Telegram, at an address that a reverse proxy leads here.

Whoever does not know the secret is not even listened to. 200 means stored; everything else makes Telegram call again.
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

from turngate.adapters.telegram.account import Patience, Webhook
from turngate.adapters.telegram.api import Api
from turngate.adapters.telegram.intake import Intake, number_of
from turngate.adapters.telegram.normalise import HANDLED
from turngate.gateway.domain.errors import AddressTaken, Retryable, TurngateError

_SECRET = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the name of a header
_LARGEST_UPDATE = 4 * 1024 * 1024
_TO_END = 1.0


async def listen(
    api: Api, intake: Intake, webhook: Webhook, patience: Patience, progress: Callable[[], None]
) -> None:
    """
    Until cancelled. `progress` is called whenever Telegram says that it reaches us.

    Raises Unauthorized, Retryable, and AddressTaken if another program listens there.
    """
    async with _open_door(intake, webhook):
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
            await asyncio.sleep(patience.look)
            if await _is_reached(api, webhook, patience):
                progress()


async def _is_reached(api: Api, webhook: Webhook, patience: Patience) -> bool:
    """Whether Telegram calls us, and nothing waits that it could not deliver."""
    info = await api.call(GetWebhookInfo())
    if info.url != webhook.url:
        raise Retryable(
            "another program has changed the webhook of this bot; stop it, or give this one its own bot"
        )
    return info.last_error_date is None or info.pending_update_count == 0


@asynccontextmanager
async def _open_door(intake: Intake, webhook: Webhook) -> AsyncIterator[None]:
    async def called(request: web.Request) -> web.Response:
        given = request.headers.get(_SECRET, "")
        if not hmac.compare_digest(given.encode(errors="replace"), webhook.secret.encode()):
            return web.Response(status=403)
        return await _take(intake, request)

    app = web.Application(client_max_size=_LARGEST_UPDATE)
    app.router.add_post(URL(webhook.url).path or "/", called)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_TO_END)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, webhook.host, webhook.port).start()
        except OSError as exc:
            raise AddressTaken(
                f"the webhook cannot listen at {webhook.host}:{webhook.port}: {exc.strerror}"
            ) from exc
        yield
    finally:
        await runner.cleanup()


async def _take(intake: Intake, request: web.Request) -> web.Response:
    try:
        update = json.loads(await request.read())
        number_of(update)
    except (ValueError, AttributeError, TurngateError):
        return web.Response(status=400)
    try:
        await intake.take([update])
    except TurngateError:
        return web.Response(status=503)
    return web.Response()
