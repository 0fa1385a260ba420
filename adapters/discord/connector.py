"""
The addresses that one bot's requests go to. discord.py has no setting for them but takes a
connector, which all its requests and sockets use: REST, interactions, the gateway with its resume
address, and files.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from aiohttp import hdrs
from yarl import URL

from turngate.adapters.discord.account import (
    API,
    CDN,
    Account,
)

CDN_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})

_API = URL(API)
_CDN = URL(CDN)
_GATEWAYS = "discord.gg"
_CONNECT_TIMEOUT = 10.0


class Connector(aiohttp.TCPConnector):
    """Connects one account. Addresses other than Discord's or the configured ones are refused."""

    def __init__(self, account: Account, *, to_connect: float = _CONNECT_TIMEOUT) -> None:
        super().__init__(limit=0)
        self._api = URL(account.api_url.rstrip("/"))
        self._cdn = URL(account.cdn_url.rstrip("/"))
        self._gateway = URL(account.gateway_url) if account.gateway_url else None
        self._to_connect = to_connect
        self._own = {
            url.origin() for url in (self._api, self._cdn, self._gateway) if url is not None
        }

    def lead_gateway(self, answer: str) -> URL:
        """Return the gateway's address: from the config, otherwise the given one."""
        gateway = self._gateway or URL(answer)
        self._own.add(gateway.origin())
        if self._api != _API and not _is_discords(gateway):
            self._gateway = gateway
        return gateway

    # The signature is aiohttp's own.
    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109
        """Redirect and connect a request. A failed connection has sent nothing."""
        there = self._moved(req.url)
        if there != req.url:
            req.url = there
            req.headers[hdrs.HOST] = there.raw_authority

        try:
            async with asyncio.timeout(self._to_connect):
                return await super().connect(req, traces, timeout)
        except TimeoutError as exc:
            raise aiohttp.ConnectionTimeoutError("connection timed out") from exc

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
