"""
What people sent: fetched with the bot's token, from Slack's own file servers and from nowhere else.

Whoever has no right to a file gets a page to log in instead, with a status that says that all is well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from turngate.adapters.download import Downloads
from turngate.adapters.slack.account import CLOUD, Account, Patience
from turngate.adapters.slack.api import Api
from turngate.adapters.slack.contents import FileRef
from turngate.gateway.domain.errors import (
    NotSent,
    Refused,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import Attachment

_HOSTS = frozenset({"files.slack.com", "slack-files.com", "files-origin.slack.com"})
_PAGE = "text/html"
_NO_RIGHT = (
    "Slack asks to log in instead of giving the file; does the token have the scope files:read?"
)


class Downloader:
    """Of one bot."""

    def __init__(self, api: Api, account: Account, patience: Patience) -> None:
        self._api = api
        self._token = account.bot_token
        own_server = (
            None if account.api_url.rstrip("/") == CLOUD.rstrip("/") else _origin(account.api_url)
        )
        self._downloads = Downloads(hosts=_HOSTS, own_server=own_server, silence=patience.answer)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """As the port has it. Fewer or more bytes than Slack announced are not the file."""
        ref = FileRef.read(attachment.ref or "")
        url = ref.url or await self._address(ref.id)
        headers, count = {"Authorization": f"Bearer {self._token}"}, 0
        pages_are_refusals = attachment.mime != _PAGE
        async for piece in self._downloads.fetch(
            url, headers=headers, pages_are_refusals=pages_are_refusals
        ):
            count += len(piece)
            yield piece
        if attachment.size is not None and count != attachment.size:
            raise Unreachable("what came was not the whole file")

    async def _address(self, file: str) -> str:
        """In a channel that two workspaces share, Slack tells the address only to whoever asks."""
        try:
            found = (await self._api.answer(self._api.client.files_info(file=file))).get("file")
        except (Undeliverable, Unauthorized) as exc:
            raise Refused(f"Slack does not give the file: {exc}") from exc
        except NotSent as exc:
            raise Unreachable("Slack does not give the file now") from exc
        url = (
            found.get("url_private") or found.get("url_private_download")
            if isinstance(found, dict)
            else None
        )
        if not isinstance(url, str):
            raise Refused("Slack does not have the file any more")
        return url


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
