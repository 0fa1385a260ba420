"""Downloads of users' files, from links that Discord signs for a day, and from its CDN only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from yarl import URL

from turngate.adapters.discord.account import (
    CDN,
    Account,
    Timeouts,
)
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.connector import CDN_HOSTS
from turngate.adapters.discord.contents import FileRef, forwarded_in
from turngate.adapters.discord.ids import checked
from turngate.adapters.discord.json_fields import Payload
from turngate.adapters.download import Downloads
from turngate.gateway.domain.errors import (
    NotSent,
    Refused,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.ports.clock import Clock

_SOON = timedelta(minutes=1)


class Downloader:
    """Downloads for one bot."""

    def __init__(self, api: Api, account: Account, timeouts: Timeouts, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._cdn = URL(account.cdn_url.rstrip("/"))
        own_server = None if account.cdn_url.rstrip("/") == CDN else account.cdn_url
        self._downloads = Downloads(hosts=CDN_HOSTS, own_server=own_server, silence=timeouts.answer)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the file. A size other than the announced one is an incomplete download."""
        ref = _read(attachment)
        count = 0
        if _expires_at(ref.url) < self._clock.now() + _SOON:
            ref = await self._renewed(ref)
        async for piece in self._pieces(ref):
            count += len(piece)
            yield piece
        if attachment.size is not None and count != attachment.size:
            raise Unreachable("what came was not the whole file")

    async def _pieces(self, ref: FileRef) -> AsyncIterator[bytes]:
        """Download; renew the link once if it is refused before the first byte."""
        begun = False
        try:
            async for piece in self._downloads.fetch(self._moved(ref.url)):
                begun = True
                yield piece
        except Refused:
            if begun:
                raise
        else:
            return

        async for piece in self._downloads.fetch(self._moved((await self._renewed(ref)).url)):
            yield piece

    async def _renewed(self, ref: FileRef) -> FileRef:
        """Request the message again: Discord signs its links anew."""
        path = "/channels/{channel_id}/messages/{message_id}"
        try:
            where = {"channel_id": checked(ref.channel), "message_id": checked(ref.message)}
            message = await self._api.object("GET", path, where)
        except Undeliverable as exc:
            raise Refused("the link to the file has expired, and its message is gone") from exc
        except NotSent as exc:
            raise Unreachable("Discord does not give the file now") from exc

        for file in _files(message):
            if str(file.get("id")) == ref.attachment:
                return FileRef.read(f"{ref.channel} {ref.message} {ref.attachment} {file['url']}")

        raise Refused("the file was taken out of its message")

    def _moved(self, url: str) -> str:
        """Point the link to the configured CDN."""
        address = URL(url)
        if self._cdn == URL(CDN) or address.host not in CDN_HOSTS:
            return url
        path = self._cdn.raw_path.rstrip("/") + address.raw_path
        return str(self._cdn.with_path(path, encoded=True).with_query(address.query))


def _read(attachment: Attachment) -> FileRef:
    try:
        return FileRef.read(attachment.ref or "")
    except ValueError as exc:
        raise Refused("Discord has no file of this name") from exc


def _expires_at(url: str) -> datetime:
    """Return the expiry in the link; without one it never expires."""
    with suppress(ValueError, KeyError, OverflowError, OSError):
        return datetime.fromtimestamp(int(URL(url).query["ex"], 16), UTC)
    return datetime.max.replace(tzinfo=UTC)


def _files(message: Payload) -> Iterator[Payload]:
    for each in (message, *forwarded_in(message)):
        yield from each.get("attachments") or ()
