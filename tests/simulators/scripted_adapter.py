"""The bot's side of the scripted platform: an adapter like any other, in the shapes that real platforms have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp

from gateway.crashpoints import crashpoint
from gateway.errors import NotSent, Retryable, Throttled, Undeliverable, Unreachable
from gateway.model import InboundMessage, Part, Sent, SessionSource
from gateway.ports import Limits, Receive

PLATFORM = "scripted"


class ScriptedAdapter:
    """Polls, stores, acknowledges. Sends once, and cannot find out what became of it."""

    def __init__(self, url: str, *, wait: float = 10.0) -> None:
        self.platform = PLATFORM
        self.limits = Limits(largest_part=4000, measure=len, edit_every=timedelta(milliseconds=50))
        self.progress_at: datetime | None = None
        self.deaf_after = timedelta(seconds=60)
        self._url = url
        self._wait = wait
        self._http: aiohttp.ClientSession | None = None

    async def run(self, receive: Receive) -> None:
        """As a real one: what is not stored is not acknowledged."""
        while True:
            try:
                # The first call does not wait, so that one is known to receive at once.
                wait = self._wait if self.progress_at else 0
                updates = await self._call("GET", f"/api/updates?wait={wait}")
                self.progress_at = datetime.now(UTC)
                for update in updates:
                    await receive(_message(update))
                if updates:
                    crashpoint("acking")
                    await self._call("POST", "/api/ack", updates=[update["n"] for update in updates])
                    crashpoint("acked")
            except Retryable:
                await asyncio.sleep(0.2)

    async def send(self, part: Part) -> Sent:
        """Once."""
        sent = await self._call("POST", "/api/send", **self._sending(part))
        return Sent(message_id=sent["id"], at=datetime.now(UTC))

    async def close(self) -> None:
        """Hang up."""
        if self._http is not None:
            await self._http.close()

    def _sending(self, part: Part) -> dict[str, object]:
        key = f"part-{part.id}" if part.id else None  # a preview is nobody's part
        return {"chat": part.target.chat_id, "text": part.text, "reply_to": part.reply_to, "key": key}

    async def _call(self, method: str, path: str, **body: object) -> object:
        async with self._answered(method, path, body) as response:
            if response.status == 429:
                raise Throttled("slow down", retry_after=(await response.json())["retry_after"])
            if response.status in (403, 404):
                raise Undeliverable(f"the platform says {response.status}")
            if response.status >= 500:
                raise NotSent(f"the platform says {response.status}")
            return await response.json()

    @asynccontextmanager
    async def _answered(self, method: str, path: str, body: dict[str, object]) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30))
        try:
            async with self._http.request(method, self._url + path, json=body or None) as response:
                yield response
        except aiohttp.ClientConnectorError as exc:
            raise NotSent("the platform cannot be reached") from exc
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as exc:
            raise Unreachable("the platform did not answer") from exc


class FindingAdapter(ScriptedAdapter):
    """Can ask whether a part has arrived."""

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """By the id that every send carries."""
        found = await self._call("GET", f"/api/sent?key=part-{part.id}")
        return Sent(message_id=found["id"], at=datetime.now(UTC)) if found["id"] else None


class CatchingUpAdapter(FindingAdapter):
    """For the lossy platform: what was handed out and lost is read again."""

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        """The platform tells no times, so everything is read; what is known is a duplicate."""
        for update in await self._call("GET", "/api/history?after=0"):
            yield _message(update)


class EditingAdapter(ScriptedAdapter):
    """Shows a preview in a real message and edits it."""

    async def edit(self, part: Part, message_id: str) -> Sent:
        """Saying what it already says is success."""
        await self._call("POST", "/api/edit", id=message_id, text=part.text)
        return Sent(message_id=message_id, at=datetime.now(UTC))


def _message(update: dict[str, object]) -> InboundMessage:
    chat, user = str(update["chat"]), str(update["user"])
    return InboundMessage(
        id=str(update["message_id"]),
        event_ids=(f"update:{update['n']}", f"message:{chat}:{update['message_id']}"),
        source=SessionSource(platform=PLATFORM, chat_id=chat, user_id=user, user_name="Ann"),
        text=str(update["text"]),
        sent_at=datetime.now(UTC),
        addressed_to_bot=True,
    )


ADAPTERS = {
    "plain": ScriptedAdapter,
    "finding": FindingAdapter,
    "catching-up": CatchingUpAdapter,
    "editing": EditingAdapter,
}
