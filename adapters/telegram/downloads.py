"""
Downloads of users' files: getFile returns the path, the file comes from the Bot API server only, or
from the folder of a local one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from urllib.parse import quote

from aiogram.methods import GetFile

from turngate.adapters.download import Downloads
from turngate.adapters.telegram.account import (
    CLOUD,
    Account,
    Timeouts,
)
from turngate.adapters.telegram.api import Api
from turngate.adapters.telegram.fields import number, text
from turngate.adapters.telegram.server_files import read_inside
from turngate.gateway.domain.errors import (
    NotSent,
    Refused,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import Attachment

LARGEST_IN_CLOUD = 20 << 20


class Downloader:
    """Downloads for one bot."""

    def __init__(self, api: Api, account: Account, timeouts: Timeouts) -> None:
        self._api = api
        self._account = account
        own_server = None if account.is_in_cloud else account.api_url
        hosts = frozenset({CLOUD.removeprefix("https://")})
        self._downloads = Downloads(hosts=hosts, own_server=own_server, silence=timeouts.answer)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the file. A size other than the announced one is an incomplete download."""
        if self._account.is_in_cloud and (attachment.size or 0) > LARGEST_IN_CLOUD:
            raise Refused("Telegram gives bots no files of more than 20 MB")
        path, announced = await self._find(attachment)
        count = 0
        async for piece in self._pieces(path):
            count += len(piece)
            yield piece
        if announced is not None and count != announced:
            raise Unreachable("what came was not the whole file")

    async def _find(self, attachment: Attachment) -> tuple[str, int | None]:
        try:
            file = await self._api.call(GetFile(file_id=attachment.ref or ""))
        except Undeliverable as exc:
            raise Refused("Telegram does not give the file") from exc
        except NotSent as exc:
            raise Unreachable("Telegram does not give the file now") from exc
        path = text(file, "file_path")
        if not path:
            raise Refused("Telegram does not have the file any more")
        return path, number(file, "file_size")

    def _pieces(self, path: str) -> AsyncIterator[bytes]:
        """Download, or read from disk: a local Bot API server may return an absolute path."""
        if PurePosixPath(path).is_absolute() and not self._account.is_in_cloud:
            return read_inside(self._account.files_dir, path)
        base = self._account.api_url.rstrip("/")
        return self._downloads.fetch(f"{base}/file/bot{self._account.token}/{quote(path)}")
