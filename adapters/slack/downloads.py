"""
Download of files that users sent, with the bot's token and from Slack's file servers only.

Without permission Slack answers with a login page and status 200.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from turngate.adapters.download import Downloads
from turngate.adapters.slack.account import (
    CLOUD,
    Account,
    Timeouts,
)
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
_NO_RIGHT = "Slack sent a login page instead of the file; does the token have the scope files:read?"


class Downloader:
    """Downloads files of one bot."""

    def __init__(self, api: Api, account: Account, timeouts: Timeouts) -> None:
        self._api = api
        self._token = account.bot_token
        own_server = (
            None if account.api_url.rstrip("/") == CLOUD.rstrip("/") else _origin(account.api_url)
        )
        self._downloads = Downloads(hosts=_HOSTS, own_server=own_server, silence=timeouts.answer)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """
        Yield the file's bytes. Raises Unreachable if their number differs from the announced size.
        """
        ref = FileRef.read(attachment.ref or "")
        url = ref.url or await self._address(ref.id)
        headers = {"Authorization": f"Bearer {self._token}"}
        # Unless an HTML file was sent, HTML means the login page.
        pages_are_refusals = attachment.mime != _PAGE

        count = 0

        async for piece in self._downloads.fetch(
            url, headers=headers, pages_are_refusals=pages_are_refusals
        ):
            count += len(piece)
            yield piece

        if attachment.size is not None and count != attachment.size:
            raise Unreachable("the download was incomplete")

    async def _address(self, file: str) -> str:
        """
        Request the URL of a file that came without one (in a channel shared by two workspaces).
        """
        try:
            found = (await self._api.answer(self._api.client.files_info(file=file))).get("file")
        except (Undeliverable, Unauthorized) as exc:
            raise Refused(f"Slack refused the file: {exc}") from exc
        except NotSent as exc:
            raise Unreachable("the file cannot be downloaded now") from exc

        url = (
            found.get("url_private") or found.get("url_private_download")
            if isinstance(found, dict)
            else None
        )
        if not isinstance(url, str):
            raise Refused("Slack no longer has the file")

        return url


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
