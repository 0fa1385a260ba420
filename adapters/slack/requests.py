"""
The HTTP Events API: Slack sends requests to an address that a reverse proxy forwards here.

The signature over the raw body and its age are checked before the body is parsed. A replayed
request is harmless: it carries the same event id and is deduped. Status 200 means stored; any other
makes Slack retry.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier

from turngate.adapters.http_server import listening_socket, serving
from turngate.adapters.slack.account import Http, Timeouts
from turngate.adapters.slack.api import Api

_SIGNED_AT = "X-Slack-Request-Timestamp"
_SIGNATURE = "X-Slack-Signature"
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_LARGEST_REQUEST = 4 * 1024 * 1024
_SHUTDOWN_TIMEOUT = 1.0


async def listen_by_http(
    http: Http, api: Api, app: AsyncApp, timeouts: Timeouts, progress: Callable[[], None]
) -> None:
    """
    Serve requests until cancelled.

    `progress` is called for every signed request and every successful auth.test: Slack does not
    report whether its requests get through.

    Raises Unauthorized, Retryable, or AddressTaken if the port is in use.
    """
    async with _serving(http, app, progress):
        while True:
            await api.answer(api.client.auth_test())
            progress()
            await asyncio.sleep(timeouts.look)


@asynccontextmanager
async def _serving(http: Http, app: AsyncApp, progress: Callable[[], None]) -> AsyncIterator[None]:
    verifier = SignatureVerifier(http.signing_secret)

    async def handle(request: web.Request) -> web.Response:
        if not _is_verifiable(request):
            return web.Response(status=401)

        try:
            # As UTF-8, whatever charset the header names: the signature is over UTF-8.
            body = (await request.read()).decode()
            # Before it is parsed: strangers get no further than the hash of what they sent.
            if not verifier.is_valid_request(body, dict(request.headers)):
                return web.Response(status=401)
            asked = AsyncBoltRequest(
                body=body, query=request.query_string, headers=dict(request.headers)
            )
        except (ValueError, RecursionError, TypeError, AttributeError):
            # The body is neither a JSON object nor a form.
            return web.Response(status=400)

        answer = await app.async_dispatch(asked)
        if answer.status == 200:
            progress()

        return await to_aiohttp_response(answer)

    application = web.Application(client_max_size=_LARGEST_REQUEST)
    application.router.add_post(http.path, handle)
    listening = listening_socket(http.host, http.port, "cannot listen for Slack's requests")
    async with serving(application, listening, shutdown_timeout=_SHUTDOWN_TIMEOUT):
        yield


def _is_verifiable(request: web.Request) -> bool:
    """
    Whether slack_sdk can check the headers: it raises on a timestamp that is not a number and on a
    signature that is not ASCII.
    """
    at = request.headers.get(_SIGNED_AT, "")
    signature = request.headers.get(_SIGNATURE, "")
    return _TIMESTAMP.fullmatch(at) is not None and signature.isascii()
