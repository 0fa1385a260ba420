"""
How the real discord.py is pointed at a simulator: its connector, a documented argument, changes
every address.
"""

from __future__ import annotations

from typing import Any

import aiohttp
from yarl import URL

from tests.simulators.discord.platform import API, CDN, GATEWAY


class Elsewhere(aiohttp.TCPConnector):
    """
    Sends what is meant for Discord to the simulator at `url`: REST and interactions, files, and the
    gateway, the one to resume at included. Anything else would leave the machine, and is refused.
    """

    def __init__(self, url: str) -> None:
        super().__init__(limit=0)
        self._there = URL(url)

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        """As aiohttp calls it, for each request."""
        req.url = self._moved(req.url)
        return await super().connect(req, traces, timeout)

    def _moved(self, url: URL) -> URL:
        host = url.host or ""
        if host == "discord.com":
            path = url.raw_path.replace("/api/v10", API, 1)
        elif host.endswith(".discord.gg"):
            path = GATEWAY
        elif host in ("cdn.discordapp.com", "media.discordapp.net"):
            path = CDN + url.raw_path
        elif (host, url.port) == (self._there.host, self._there.port):
            return url
        else:
            raise aiohttp.InvalidURL(url, "this leads neither to Discord nor to the simulator")
        return self._there.with_path(path, encoded=True).with_query(url.query)
