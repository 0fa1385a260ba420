"""What Discord says of a bot before anything depends on it: for `turngate check --online`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp

from turngate.adapters.discord.account import Account, Patience
from turngate.adapters.discord.channels import (
    ANNOUNCEMENT,
    FORUM,
    MEDIA,
    TEXT,
    Payload,
    Place,
    place_of,
)
from turngate.adapters.discord.permissions import allowed_in, invitation, lacking
from turngate.adapters.telling import Finding
from turngate.gateway.domain.errors import Throttled, TurngateError, Unauthorized, Unreachable

_PORTAL = "https://discord.com/developers/applications"
# Whoever does not call himself a bot is turned away: https://docs.discord.com/developers/reference#user-agent
_AGENT = "DiscordBot (turngate, 1)"
# Of an application, for bots in many servers and in few: https://docs.discord.com/developers/resources/application
_MAY_READ = 1 << 18 | 1 << 19
_WRITTEN_IN = (TEXT, ANNOUNCEMENT, FORUM, MEDIA)
_FEW_STARTS = 20
_MOST_GUILDS, _MOST_NAMED = 20, 5
_TRIES = 3


async def examine(account: Account, patience: Patience = Patience()) -> list[Finding]:  # noqa: B008 - frozen
    """Everything that can be found out without receiving or sending anything."""
    timeout = aiohttp.ClientTimeout(total=patience.answer)
    headers = {"Authorization": f"Bot {account.token}", "User-Agent": _AGENT}
    findings: list[Finding] = []
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as http:
        try:
            async for finding in _findings(_Api(http, account, patience), account):
                findings.append(finding)  # noqa: PERF401 - what was found before an error is worth telling
        except TurngateError as exc:
            findings.append(Finding(words=str(exc), is_error=True))
        except (AttributeError, KeyError, TypeError, ValueError):
            # Its answers are read as they come, so that a server of another kind is found out only here.
            findings.append(
                Finding(words=f"{account.api_url} answers, but not as Discord does", is_error=True)
            )
    return findings


class _NoSuchPage(Unreachable):
    """Discord would have it."""


class _Api:
    """Questions to Discord, each asked again when it was asked too soon."""

    def __init__(self, http: aiohttp.ClientSession, account: Account, patience: Patience) -> None:
        self._http = http
        self._base = account.api_url.rstrip("/")
        self._longest_pause = patience.answer

    async def ask(self, path: str) -> Any:
        for _ in range(_TRIES):
            try:
                return await self._once(path)
            except Throttled as exc:
                await asyncio.sleep(min(exc.retry_after, self._longest_pause))
        raise Unreachable("Discord wants fewer questions; try again in some minutes")

    async def ask_if_there(self, path: str) -> Any:
        """None if there is no such page: a server of another kind has what its makers needed."""
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
                        f"Discord answers {response.status} to {path.partition('?')[0]}; is api_url right?"
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
            words=f"{account.api_url} tells nothing of the bot's intents or servers, so they were not looked at"
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
        words = f"it may not read messages: switch on Message Content Intent at {page}, or Discord turns it away"
        yield Finding(words=words, is_error=True)
    if application.get("bot_require_code_grant"):
        yield Finding(
            words=f"nobody can invite it: switch off Requires OAuth2 Code Grant at {page}",
            is_error=True,
        )


def _of_starts(gateway: Payload) -> Finding:
    """So many connections a day, and then the token is taken away."""
    limit = gateway.get("session_start_limit")
    if limit is None:
        return Finding(words="events can be received; nobody counts the connections")
    left, total = limit.get("remaining", 0), limit.get("total", 0)
    shards = gateway.get("shards") or 1
    if left < max(_FEW_STARTS, shards):
        hours = round(limit.get("reset_after", 0) / 3_600_000, 1)
        words = f"only {left} of {total} connections are left for the next {hours} hours: find out what starts so often"
        return Finding(words=words, is_error=left < shards)
    return Finding(words=f"events can be received: {left} of {total} connections are left today")


async def _of_guild(api: _Api, guild: str, me: str, account: Account) -> list[Finding]:
    told = await api.ask(f"/guilds/{guild}")
    member = await api.ask(f"/guilds/{guild}/members/{me}")
    channels = [
        each for each in await api.ask(f"/guilds/{guild}/channels") if each["type"] in _WRITTEN_IN
    ]
    may = {place_of(each): allowed_in(each, told, member, me) for each in channels}
    seen = {
        place: lacking(allowed, threads=account.threads)
        for place, allowed in may.items()
        if allowed
    }
    first = Finding(
        words=f"in {told['name']} (guild {guild}) it sees {len(seen)} of {len(channels)} channels"
    )
    return [first, *_of_channels(told["name"], seen)]


def _of_channels(guild: str, seen: dict[Place, list[str]]) -> Iterator[Finding]:
    """Channels that lack the same are named together: mostly all of them do."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for place, missing in seen.items():
        if missing:
            alike.setdefault(tuple(missing), []).append(f"#{place.name}")
    for lacked, names in alike.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        where = ", ".join(names[:_MOST_NAMED]) + more
        cure = "give its role that in the server's or the channel's settings"
        yield Finding(words=f"in {guild}, {where}: it lacks {', '.join(lacked)}; {cure}")
