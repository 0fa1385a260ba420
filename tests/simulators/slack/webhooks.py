"""
The HTTP Events API: signed requests to the address of the app
(https://docs.slack.dev/apis/events-api).

The signature is over the raw body and the time
(https://docs.slack.dev/authentication/verifying-requests-from-slack).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp

from tests.simulators.common import Call
from tests.simulators.slack import rules
from tests.simulators.slack.delivery import NO_MORE, Event
from tests.simulators.slack.server import Server
from tests.simulators.slack.world import App

_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the app answered."""

    status: int
    body: str
    no_retry: bool


class Webhooks:
    """Requests to apps."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http: aiohttp.ClientSession | None = None
        self._waiting = False
        self._passed = asyncio.Event()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """While there is a way out."""
        async with aiohttp.ClientSession() as self._http:
            yield

    async def verify(self, app: App, url: str) -> None:
        """Raises No unless what answers there knows what Slack wants."""
        challenge = secrets.token_hex(16)
        body = json.dumps(
            {"token": "verification", "challenge": challenge, "type": "url_verification"}
        ).encode()
        try:
            reply = await self._post(url, body, self._signed(app, body))
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise rules.No("url_not_reached", rules.EVENTS_URL) from exc
        echoed = reply.body.strip()
        if reply.status != 200 or challenge not in (
            echoed,
            (_parsed(echoed) or {}).get("challenge"),
        ):
            raise rules.No("challenge_failed", rules.EVENTS_URL)

    async def attempt(self, event: Event, attempt: int, reason: str) -> str | None:
        """A request, and its answer within the time."""
        call = self._frame("request", event.facts(attempt), event)
        kind = call.fault.kind if call.fault else None
        if kind == "reorder" and not self._waiting:
            await self._let_another_pass()
        if kind in ("reset", "half-open"):
            return "connection_failed" if kind == "reset" else "http_timeout"
        for _ in range(2 if kind == "duplicate" else 1):
            failed = await self._sent(event, attempt, reason)
        self._passed.set()
        answer = self._frame("answer", {}, event)
        lost = kind == "lost answer" or answer.fault is not None
        return "http_timeout" if lost else failed

    async def _let_another_pass(self) -> None:
        self._passed.clear()
        self._waiting = True
        await self._passed.wait()
        self._waiting = False

    async def _sent(self, event: Event, attempt: int, reason: str) -> str | None:
        body, mime = _body(event)
        headers = self._signed(event.bot.app, body) | {"Content-Type": mime}
        if attempt:
            headers |= {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason}
        try:
            reply = await self._post(str(event.bot.app.url), body, headers)
        except TimeoutError:
            return "http_timeout"
        except aiohttp.ClientError:
            return "connection_failed"
        event.answer = _parsed(reply.body) or ({"text": reply.body} if reply.body else None)
        if 200 <= reply.status < 300:
            return None
        return NO_MORE if reply.no_retry else "http_error"

    async def _post(self, url: str, body: bytes, headers: dict[str, str]) -> Reply:
        assert self._http is not None
        async with (
            asyncio.timeout(self._server.settings.ack_within),
            self._http.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            said = await response.text(errors="replace")
            return Reply(
                status=response.status, body=said, no_retry="X-Slack-No-Retry" in response.headers
            )

    def _signed(self, app: App, body: bytes) -> dict[str, str]:
        at = str(int(self._server.clock.now() + app.skew))
        digest = hmac.new(
            app.secret.encode(), b"v0:" + at.encode() + b":" + body, hashlib.sha256
        ).hexdigest()
        return {
            "Content-Type": "application/json",
            "User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            "X-Slack-Request-Timestamp": at,
            "X-Slack-Signature": f"v0={digest}",
        }

    def _frame(self, name: str, parameters: dict[str, object], event: Event) -> Call:
        return self._server.running.frame(
            f"http.{name}", parameters, account=event.bot.name, chat=event.chat
        )


def _body(event: Event) -> tuple[bytes, str]:
    if event.type == "interactive":
        return urlencode({"payload": json.dumps(event.payload)}).encode(), _FORM
    if event.type == "slash_commands":
        return urlencode(event.payload).encode(), _FORM
    return json.dumps(event.payload).encode(), "application/json"


def _parsed(said: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(said)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None
