"""
Where the calls of one bot go. discord.py has no setting for that, but takes a connector, through which every request
and every socket of its goes: REST and interactions, the gateway with the one to resume at, and files.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp import hdrs
from yarl import URL

from turngate.adapters.discord.account import API, CDN, Account

CDN_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})

_API = URL(API)
_CDN = URL(CDN)
_GATEWAYS = "discord.gg"
_TO_CONNECT = 10.0


class Connector(aiohttp.TCPConnector):
    """Of one account. What would lead anywhere but to Discord, or to what stands in its place, is refused."""

    def __init__(self, account: Account, *, to_connect: float = _TO_CONNECT) -> None:
        super().__init__(limit=0)
        self._api = URL(account.api_url.rstrip("/"))
        self._cdn = URL(account.cdn_url.rstrip("/"))
        self._gateway = URL(account.gateway_url) if account.gateway_url else None
        self._to_connect = to_connect
        self._own = {
            url.origin() for url in (self._api, self._cdn, self._gateway) if url is not None
        }

    def lead_gateway(self, told: str) -> URL:
        """Where the gateway is, after what the API at hand has said of it. The config knows better."""
        gateway = self._gateway or URL(told)
        self._own.add(gateway.origin())
        if self._api != _API and not _is_discords(gateway):
            self._gateway = gateway
        return gateway

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109 - aiohttp's own
        """As aiohttp calls it, for each request. A connection that does not come about carried nothing."""
        there = self._moved(req.url)
        if there != req.url:
            req.url = there
            req.headers[hdrs.HOST] = there.raw_authority
        try:
            async with asyncio.timeout(self._to_connect):
                return await super().connect(req, traces, timeout)
        except TimeoutError as exc:
            raise aiohttp.ConnectionTimeoutError("nobody answered there") from exc

    def _moved(self, url: URL) -> URL:
        host = url.host or ""
        if host == _API.host and url.raw_path.startswith(_API.raw_path + "/"):
            return _below(self._api, url.raw_path.removeprefix(_API.raw_path), url)
        if host in CDN_HOSTS:
            return url if self._cdn == _CDN else _below(self._cdn, url.raw_path, url)
        if _is_discords(url):
            return url if self._gateway is None else _below(self._gateway, "", url)
        if url.origin() in self._own:
            return url
        raise aiohttp.InvalidURL(
            url, "this leads neither to Discord nor to what the config has in its place"
        )


def _is_discords(url: URL) -> bool:
    host = url.host or ""
    return host == _GATEWAYS or host.endswith("." + _GATEWAYS)


def _below(base: URL, path: str, asked: URL) -> URL:
    whole = base.raw_path.rstrip("/") + path or "/"
    return base.with_path(whole, encoded=True).with_query(asked.query)
