"""
The bolt app behind both ways in: what Slack sends is taken before bolt says that it was.

bolt checks signatures and answers url_verification. It dispatches nothing: every kind of event is taken, or Slack would
send those that nobody listens to again and again.
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
from turngate.gateway.domain.errors import TurngateError

_STORED, _NOT_STORED = 200, 503

_log = logging.getLogger(f"{__name__}.library")
# bolt tells whole requests, and warns of what it thinks is missing here.
_log.setLevel(logging.CRITICAL)


def app_for(account: Account, intake: Intake) -> AsyncApp:
    """200 means stored; everything else makes Slack try again."""

    async def take(
        req: AsyncBoltRequest, next: Callable[[], Awaitable[None]]
    ) -> BoltResponse | None:  # noqa: A002
        body = _body(req)
        if body.get("type") == "url_verification":
            await next()
            return None
        try:
            await intake.take(body)
        except OtherWorkspace:
            # Another connection may be the right one; another address there is not.
            return BoltResponse(status=_STORED if account.http else _NOT_STORED)
        except TurngateError:
            return BoltResponse(status=_NOT_STORED)
        return BoltResponse(status=_STORED)

    return AsyncApp(
        name="turngate",
        logger=_log,
        client=AsyncWebClient(token=account.bot_token, base_url=account.api_url, retry_handlers=[]),
        signing_secret=account.http.signing_secret if account.http else "",
        request_verification_enabled=account.http is not None,
        before_authorize=take,
        process_before_response=True,
    )


def _body(request: AsyncBoltRequest) -> dict[str, Any]:
    """bolt takes a form in which somebody wrote "payload" for one that has a payload, and finds nothing in it."""
    return request.body or dict(parse_qsl(request.raw_body, keep_blank_values=True))
