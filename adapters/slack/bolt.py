"""
The bolt app behind Socket Mode and HTTP: an event is stored before bolt acknowledges it.

bolt checks signatures and answers url_verification. It dispatches nothing: every kind of event is
accepted, because Slack resends events that are not acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from turngate.adapters.slack.account import Account
from turngate.adapters.slack.intake import Intake, OtherWorkspace

_STORED = 200
_NOT_STORED = 503

_log = logging.getLogger(f"{__name__}.library")
# bolt logs whole requests, and warns about handlers that are missing on purpose.
_log.setLevel(logging.CRITICAL)


def app_for(account: Account, intake: Intake) -> AsyncApp:
    """Create the bolt app. Status 200 means stored; any other status makes Slack retry."""

    async def store_event(
        req: AsyncBoltRequest,
        next: Callable[[], Awaitable[None]],  # noqa: A002 - Bolt passes it by this name
    ) -> BoltResponse | None:
        body = _body(req)
        if body.get("type") == "url_verification":
            await next()
            return None

        try:
            await intake.take(body)
        except OtherWorkspace:
            # A retry may reach another socket; over HTTP there is only this address.
            return BoltResponse(status=_STORED if account.http else _NOT_STORED)
        except Exception:  # noqa: BLE001 - the intake has reported it; what Bolt raises is its own
            return BoltResponse(status=_NOT_STORED)

        return BoltResponse(status=_STORED)

    return AsyncApp(
        # Also used as a logger name: it must not be a parent of our own loggers.
        name="slack-bolt",
        logger=_log,
        client=AsyncWebClient(token=account.bot_token, base_url=account.api_url, retry_handlers=[]),
        signing_secret=account.http.signing_secret if account.http else "",
        request_verification_enabled=account.http is not None,
        before_authorize=store_event,
        # The event is stored before the response is sent.
        process_before_response=True,
    )


def _body(request: AsyncBoltRequest) -> dict[str, Any]:
    """
    Return the parsed body. bolt yields an empty body for a form whose text contains "payload"
    without having such a field; parse that form again.
    """
    return request.body or dict(parse_qsl(request.raw_body, keep_blank_values=True))
