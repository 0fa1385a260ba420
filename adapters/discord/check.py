"""Checks of one bot for `turngate check --online`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp

from turngate.adapters.discord.account import Account, Timeouts
from turngate.adapters.discord.channels import (
    ANNOUNCEMENT,
    FORUM,
    MEDIA,
    TEXT,
    Channel,
    channel_from,
)
from turngate.adapters.discord.json_fields import Payload
from turngate.adapters.discord.permissions import (
    allowed_in,
    invitation,
    lacking,
)
from turngate.gateway.domain.errors import (
    Throttled,
    TurngateError,
    Unauthorized,
    Unreachable,
)
from turngate.gateway.domain.ports.adapter import Finding

_PORTAL = "https://discord.com/developers/applications"
# Discord rejects other user agents:
# https://docs.discord.com/developers/reference#user-agent
_AGENT = "DiscordBot (turngate, 1)"
# Of an application, for bots in many servers and in few:
# https://docs.discord.com/developers/resources/application
_MAY_READ = 1 << 18 | 1 << 19
_TEXT_CHANNELS = (TEXT, ANNOUNCEMENT, FORUM, MEDIA)
_FEW_STARTS = 20
_MOST_GUILDS = 20
_MOST_NAMED = 5
_TRIES = 3


# The default is frozen.
async def examine(account: Account, timeouts: Timeouts = Timeouts()) -> list[Finding]:  # noqa: B008
    """Check everything that needs neither receiving nor sending messages."""
    timeout = aiohttp.ClientTimeout(total=timeouts.answer)
    headers = {"Authorization": f"Bot {account.token}", "User-Agent": _AGENT}
    findings: list[Finding] = []

    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as http:
        try:
            async for finding in _findings(_Api(http, account, timeouts), account):
                # Findings before an error are kept.
                findings.append(finding)  # noqa: PERF401
        except TurngateError as exc:
            findings.append(Finding(words=str(exc), is_error=True))
        except (AttributeError, KeyError, TypeError, ValueError):
            # Answers are not validated first, so an incompatible server is detected here.
            findings.append(
                Finding(words=f"{account.api_url} answers, but not as Discord does", is_error=True)
            )

    return findings


class _NoSuchPage(Unreachable):
    """The server answered 404."""


class _Api:
    """Requests to Discord, retried after a 429."""

    def __init__(self, http: aiohttp.ClientSession, account: Account, timeouts: Timeouts) -> None:
        self._http = http
        self._base = account.api_url.rstrip("/")
        self._longest_pause = timeouts.answer

    async def ask(self, path: str) -> Any:
        for _ in range(_TRIES):
            try:
                return await self._once(path)
            except Throttled as exc:
                await asyncio.sleep(min(exc.retry_after, self._longest_pause))
        raise Unreachable("Discord wants fewer questions; try again in some minutes")

    async def ask_if_there(self, path: str) -> Any:
        """Request a page; None if it does not exist, as on servers with a smaller API."""
        try:
            return await self.ask(path)
        except _NoSuchPage:
            return None

    async def _once(self, path: str) -> Any:
        try:
            async with self._http.get(self._base + path) as response:
                if response.status == 429:
                    pause = float(response.headers.get("Retry-After", "1"))
                    raise Throttled("too many questions", retry_after=pause)
                if response.status == 401:
                    raise Unauthorized(
                        f"Discord refuses the token; make a new one at {_PORTAL}, on the page Bot"
                    )
                if response.status != 200:
                    kind = _NoSuchPage if response.status == 404 else Unreachable
                    raise kind(
                        f"Discord answers {response.status} to {path.partition('?')[0]}; is "
                        "api_url right?"
                    )
                return await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as exc:
            raise Unreachable(
                f"{self._base} gives no answer of Discord's; are the network and api_url right?"
            ) from exc


async def _findings(api: _Api, account: Account) -> AsyncIterator[Finding]:
    me = await api.ask("/users/@me")
    yield Finding(
        words=f"the token is right: this is {me.get('username') or 'a bot'}, id {me['id']}"
    )
    application = await api.ask_if_there("/applications/@me")
    if application is not None:
        for finding in _of_application(application):
            yield finding

    gateway = await (
        api.ask("/gateway/bot") if account.gateway_url is None else api.ask_if_there("/gateway/bot")
    )
    yield _of_starts(gateway or {})
    guilds = await api.ask_if_there("/users/@me/guilds?limit=200")
    if application is None or guilds is None:
        yield Finding(
            words=f"{account.api_url} tells nothing of the bot's intents or servers, so they "
            "were not looked at"
        )
        return

    link = invitation(str(application["id"]), threads=account.threads)
    if not guilds:
        yield Finding(words=f"it is in no server yet; invite it: {link}")
        return

    for guild in guilds[:_MOST_GUILDS]:
        for finding in await _of_guild(api, str(guild["id"]), str(me["id"]), account):
            yield finding

    if len(guilds) > _MOST_GUILDS:
        yield Finding(words=f"{len(guilds) - _MOST_GUILDS} more servers were not looked at")

    yield Finding(words=f"to invite it to another server: {link}")


def _of_application(application: Payload) -> Iterator[Finding]:
    page = f"{_PORTAL}/{int(application['id'])}/bot"
    if "flags" in application and not int(application["flags"] or 0) & _MAY_READ:
        words = (
            f"it may not read messages: switch on Message Content Intent at {page}, or "
            "Discord turns it away"
        )
        yield Finding(words=words, is_error=True)

    if application.get("bot_require_code_grant"):
        yield Finding(
            words=f"it cannot be invited: switch off Requires OAuth2 Code Grant at {page}",
            is_error=True,
        )


def _of_starts(gateway: Payload) -> Finding:
    """Report the remaining session starts: at zero Discord resets the token."""
    limit = gateway.get("session_start_limit")
    if limit is None:
        return Finding(words="events can be received; the number of connections is not limited")

    left = limit.get("remaining", 0)
    total = limit.get("total", 0)
    shards = gateway.get("shards") or 1
    if left < max(_FEW_STARTS, shards):
        hours = round(limit.get("reset_after", 0) / 3_600_000, 1)
        words = (
            f"only {left} of {total} connections are left for the next {hours} hours: find "
            "out what starts so often"
        )
        return Finding(words=words, is_error=left < shards)

    return Finding(words=f"events can be received: {left} of {total} connections are left today")


async def _of_guild(api: _Api, guild: str, me: str, account: Account) -> list[Finding]:
    answer = await api.ask(f"/guilds/{guild}")
    member = await api.ask(f"/guilds/{guild}/members/{me}")
    channels = [
        each
        for each in await api.ask(f"/guilds/{guild}/channels")
        if each["type"] in _TEXT_CHANNELS
    ]
    may = {channel_from(each): allowed_in(each, answer, member, me) for each in channels}
    seen = {
        chat: lacking(allowed, threads=account.threads) for chat, allowed in may.items() if allowed
    }
    first = Finding(
        words=f"in {answer['name']} (guild {guild}) it sees {len(seen)} of {len(channels)} channels"
    )

    return [first, *_of_channels(answer["name"], seen)]


def _of_channels(guild: str, seen: dict[Channel, list[str]]) -> Iterator[Finding]:
    """Group channels that lack the same permissions."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for chat, missing in seen.items():
        if missing:
            alike.setdefault(tuple(missing), []).append(f"#{chat.name}")
    for lacked, names in alike.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        where = ", ".join(names[:_MOST_NAMED]) + more
        cure = "give its role that in the server's or the channel's settings"
        yield Finding(words=f"in {guild}, {where}: it lacks {', '.join(lacked)}; {cure}")
