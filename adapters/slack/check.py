"""Checks of an app against Slack before it is used, for `turngate check --online`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from aiohttp import ClientWebSocketResponse

from turngate.adapters.slack.account import (
    Account,
    Http,
    Timeouts,
)
from turngate.adapters.slack.api import (
    Api,
    required_text,
    translated_errors,
)
from turngate.adapters.slack.app.needs import SCOPES, reason_for
from turngate.adapters.slack.json_fields import (
    Json,
    dict_in,
    number_in,
    text_in,
)
from turngate.gateway.domain.errors import (
    TurngateError,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.ports.adapter import Finding

_MANIFEST = "`turngate slack manifest` prints what the app needs"
_AGAIN = "and install the app again"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bot:
    """The owner of the bot token. `scopes` is None if Slack did not report them."""

    answer: Json
    scopes: frozenset[str] | None


# The default is frozen.
async def examine(account: Account, timeouts: Timeouts = Timeouts()) -> list[Finding]:  # noqa: B008
    """Check everything that can be checked without sending a message or consuming events."""
    api = Api(account, timeouts)
    try:
        return [finding async for finding in _findings(api, account, timeouts)]
    finally:
        await api.close()


async def _findings(api: Api, account: Account, timeouts: Timeouts) -> AsyncIterator[Finding]:
    app = ""
    try:
        bot = await _bot(api, account)
        yield _identity_finding(bot.answer)
        for finding in _scope_findings(bot.scopes):
            yield finding
        app = await _app_of(api, bot)
    except TurngateError as exc:
        yield Finding(words=f"bot_token: {exc}", is_error=True)

    yield (
        await _socket_finding(api, account, timeouts, app)
        if account.http is None
        else _request_finding(account.http)
    )
    yield Finding(words=f"event subscriptions cannot be checked online; {_MANIFEST}")


async def _bot(api: Api, account: Account) -> _Bot:
    with translated_errors():
        response = await api.client.auth_test()

    answer = response.data
    if not isinstance(answer, Mapping):
        raise Unreachable("Slack sent an answer that cannot be parsed")

    required_text(answer, "user_id")
    # Some servers report no bot_id, so the prefix is checked as well.
    if not text_in(answer, "bot_id") and not account.bot_token.startswith("xoxb-"):
        raise Unauthorized("this is a user token; a bot token begins with xoxb-")

    header = next(
        (value for name, value in response.headers.items() if name.lower() == "x-oauth-scopes"),
        None,
    )
    scopes = (
        None
        if header is None
        else frozenset(filter(None, (each.strip() for each in str(header).split(","))))
    )

    return _Bot(answer=answer, scopes=scopes)


def _identity_finding(bot: Json) -> Finding:
    name = text_in(bot, "user")
    team = text_in(bot, "team_id", "team")
    who = f"@{name}, id {text_in(bot, 'user_id')}" if name else f"id {text_in(bot, 'user_id')}"
    where = f"in the workspace {team}" if team else "in an unnamed workspace"
    return Finding(words=f"the bot token is valid: this is {who}, {where}")


def _scope_findings(scopes: frozenset[str] | None) -> list[Finding]:
    if scopes is None:
        return [Finding(words="Slack did not report the scopes of the bot token")]

    findings = [
        Finding(
            words=f"the scope {scope} is missing, for {reason_for(scope)}; add it under OAuth & "
            f"Permissions {_AGAIN}",
            is_error=True,
        )
        for scope in SCOPES
        if scope not in scopes
    ]
    if more := sorted(scopes - set(SCOPES)):
        findings.append(Finding(words=f"unused scopes: {', '.join(more)}"))

    return findings


async def _app_of(api: Api, bot: _Bot) -> str:
    """
    Return the app id behind the bot; empty if the token may not ask or Slack does not report it.
    """
    if bot.scopes is not None and "users:read" not in bot.scopes:
        return ""
    try:
        answer = await api.answer(api.client.bots_info(bot=text_in(bot.answer, "bot_id")))
    except Undeliverable:
        return ""
    return text_in(dict_in(answer, "bot"), "app_id")


async def _socket_finding(api: Api, account: Account, timeouts: Timeouts, app: str) -> Finding:
    """
    Connect by Socket Mode for a moment. Events received meanwhile are not acknowledged, so Slack
    resends them.
    """
    try:
        hello = await _hello(api, account, timeouts)
    except TurngateError as exc:
        return Finding(words=f"app_token: {exc}", is_error=True)

    theirs = text_in(dict_in(hello, "connection_info"), "app_id")
    # Both ids may be missing; only a contradiction is an error.
    if app and theirs and app != theirs:
        words = (
            "app_token: it belongs to another app than bot_token; copy both from one app's settings"
        )
        return Finding(words=words, is_error=True)

    others = (number_in(hello, "num_connections") or 1) - 1
    if others:
        words = (
            f"{others} more connections are open with this app token; unless they are your "
            "gateway's, stop them"
        )
        return Finding(words=f"events can be received by Socket Mode; {words}")

    return Finding(words="the app token is valid, and events can be received by Socket Mode")


async def _hello(api: Api, account: Account, timeouts: Timeouts) -> Json:
    answer = await api.answer(api.client.apps_connections_open(app_token=account.app_token or ""))
    try:
        async with asyncio.timeout(timeouts.connect):
            with translated_errors():
                async with api.session.ws_connect(
                    required_text(answer, "url"), proxy=api.client.proxy
                ) as socket:
                    message = await _first_frame(socket)
    except TimeoutError as exc:
        raise Unreachable(
            "no connection to Slack could be opened; is Socket Mode switched on in the app's "
            "settings?"
        ) from exc

    if message.get("type") != "hello":
        reason = text_in(message, "reason") or "no reason"
        raise Unreachable(
            f"Slack ends its connections ({reason}); is Socket Mode switched on in the app's "
            "settings?"
        )

    return message


async def _first_frame(socket: ClientWebSocketResponse) -> Json:
    """Return the first frame as JSON; empty if it is not a JSON object."""
    frame = await socket.receive()
    message = json.loads(frame.data) if isinstance(frame.data, str) else {}
    return message if isinstance(message, dict) else {}


def _request_finding(http: Http) -> Finding:
    where = f"{http.host}:{http.port}{http.path}"
    return Finding(
        words=f"Slack's requests are awaited at {where}; whether they arrive "
        "cannot be checked from here"
    )
