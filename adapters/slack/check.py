"""What Slack says of an app before anything depends on it: for `turngate check --online`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from aiohttp import ClientWebSocketResponse

from turngate.adapters.slack.account import Account, Http, Patience
from turngate.adapters.slack.api import Api, our_errors, word
from turngate.adapters.slack.app.needs import SCOPES, reason_for
from turngate.adapters.slack.json_fields import Json, dict_in, number_in, text_in
from turngate.adapters.telling import Finding
from turngate.gateway.domain.errors import TurngateError, Unauthorized, Undeliverable, Unreachable

_MANIFEST = "`turngate slack manifest` prints what the app needs"
_AGAIN = "and install the app again"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bot:
    """Whose token it is. Nobody knows the scopes if Slack did not say them."""

    answer: Json
    scopes: frozenset[str] | None


async def examine(account: Account, patience: Patience = Patience()) -> list[Finding]:  # noqa: B008 - frozen
    """Everything that can be found out without sending anything, and without keeping what others are to receive."""
    api = Api(account, patience)
    try:
        return [finding async for finding in _findings(api, account, patience)]
    finally:
        await api.close()


async def _findings(api: Api, account: Account, patience: Patience) -> AsyncIterator[Finding]:
    app = ""
    try:
        bot = await _bot(api, account)
        yield _introduction(bot.answer)
        for finding in _about_scopes(bot.scopes):
            yield finding
        app = await _app_of(api, bot)
    except TurngateError as exc:
        yield Finding(words=f"bot_token: {exc}", is_error=True)
    yield (
        await _about_sockets(api, account, patience, app)
        if account.http is None
        else _about_requests(account.http)
    )
    yield Finding(words=f"which events it is subscribed to Slack tells nobody; {_MANIFEST}")


async def _bot(api: Api, account: Account) -> _Bot:
    with our_errors():
        response = await api.client.auth_test()
    answer = response.data
    if not isinstance(answer, Mapping):
        raise Unreachable("Slack answered in words that nobody understands")
    word(answer, "user_id")
    if not text_in(answer, "bot_id") and not account.bot_token.startswith("xoxb-"):
        raise Unauthorized("this is the token of a person; the bot's begins with xoxb-")
    said = next(
        (value for name, value in response.headers.items() if name.lower() == "x-oauth-scopes"),
        None,
    )
    scopes = (
        None
        if said is None
        else frozenset(filter(None, (each.strip() for each in str(said).split(","))))
    )
    return _Bot(answer=answer, scopes=scopes)


def _introduction(bot: Json) -> Finding:
    name, team = text_in(bot, "user"), text_in(bot, "team_id", "team")
    who = f"@{name}, id {text_in(bot, 'user_id')}" if name else f"id {text_in(bot, 'user_id')}"
    where = f"in the workspace {team}" if team else "in a workspace that Slack does not name"
    return Finding(words=f"the bot token is right: this is {who}, {where}")


def _about_scopes(scopes: frozenset[str] | None) -> list[Finding]:
    if scopes is None:
        return [Finding(words="Slack did not say which scopes the bot token has")]
    findings = [
        Finding(
            words=f"the scope {scope} is missing, for {reason_for(scope)}; add it under OAuth & Permissions {_AGAIN}",
            is_error=True,
        )
        for scope in SCOPES
        if scope not in scopes
    ]
    if more := sorted(scopes - set(SCOPES)):
        findings.append(Finding(words=f"scopes that nothing here uses: {', '.join(more)}"))
    return findings


async def _app_of(api: Api, bot: _Bot) -> str:
    """The app behind the bot; empty if the token may not ask, or if Slack does not tell."""
    if bot.scopes is not None and "users:read" not in bot.scopes:
        return ""
    try:
        answer = await api.answer(api.client.bots_info(bot=text_in(bot.answer, "bot_id")))
    except Undeliverable:
        return ""
    return text_in(dict_in(answer, "bot"), "app_id")


async def _about_sockets(api: Api, account: Account, patience: Patience, app: str) -> Finding:
    """By connecting for a moment. Whatever Slack sends meanwhile is not acknowledged, so that it comes again."""
    try:
        hello = await _hello(api, account, patience)
    except TurngateError as exc:
        return Finding(words=f"app_token: {exc}", is_error=True)
    theirs = text_in(dict_in(hello, "connection_info"), "app_id")
    if app and theirs and app != theirs:
        words = (
            "app_token: it belongs to another app than bot_token; copy both from one app's settings"
        )
        return Finding(words=words, is_error=True)
    others = (number_in(hello, "num_connections") or 1) - 1
    if others:
        words = f"{others} more connections are open with this app token; unless they are your gateway's, stop them"
        return Finding(words=f"events can be received by Socket Mode; {words}")
    return Finding(words="the app token is right, and events can be received by Socket Mode")


async def _hello(api: Api, account: Account, patience: Patience) -> Json:
    answer = await api.answer(api.client.apps_connections_open(app_token=account.app_token or ""))
    try:
        async with asyncio.timeout(patience.connect):
            with our_errors():
                async with api.session.ws_connect(
                    word(answer, "url"), proxy=api.client.proxy
                ) as socket:
                    said = await _first_words(socket)
    except TimeoutError as exc:
        raise Unreachable(
            "Slack let nobody connect; is Socket Mode switched on in the app's settings?"
        ) from exc
    if said.get("type") != "hello":
        reason = text_in(said, "reason") or "no reason"
        raise Unreachable(
            f"Slack ends its connections ({reason}); is Socket Mode switched on in the app's settings?"
        )
    return said


async def _first_words(socket: ClientWebSocketResponse) -> Json:
    """A frame that is no text ends the connection before it has begun."""
    frame = await socket.receive()
    said = json.loads(frame.data) if isinstance(frame.data, str) else {}
    return said if isinstance(said, dict) else {}


def _about_requests(http: Http) -> Finding:
    where = f"{http.host}:{http.port}{http.path}"
    return Finding(
        words=f"Slack's requests are awaited at {where}; whether they arrive there only Slack can try"
    )
