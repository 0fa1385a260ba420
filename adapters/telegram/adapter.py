"""The adapter of one Telegram bot."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta

from turngate.adapters.telegram.account import Account, Timeouts
from turngate.adapters.telegram.api import Api
from turngate.adapters.telegram.cache import Cache
from turngate.adapters.telegram.downloads import Downloader
from turngate.adapters.telegram.intake import Intake, who_we_are
from turngate.adapters.telegram.markup import LARGEST_TEXT, marked, units
from turngate.adapters.telegram.normalise import PLATFORM, normalise
from turngate.adapters.telegram.polling import poll
from turngate.adapters.telegram.sending import Sender
from turngate.adapters.telegram.webhook import listen
from turngate.gateway.domain.messages import (
    Attachment,
    ChatType,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import (
    CatchUpChats,
    Limits,
    Rate,
    Receive,
)
from turngate.gateway.domain.ports.clock import Clock, Moment

# https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this: a message a
# second in one chat, with short bursts, twenty a minute in a group, and thirty a second in all.
_PER_CHAT = Rate(count=3, per=timedelta(seconds=3))
_PER_GROUP = Rate(count=5, per=timedelta(seconds=15))
_PER_ACCOUNT = Rate(count=30, per=timedelta(seconds=1))
_LONGEST_MEASURED = 8 * LARGEST_TEXT


class TelegramAdapter:
    """
    Receives, sends, edits, asks and fetches files. Telegram offers no way to find a sent message.
    """

    def __init__(
        self,
        account: Account,
        clock: Clock,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    ) -> None:
        self.platform = PLATFORM
        self.progress: Moment | None = None
        self.stale_after = timeouts.stale_after
        self._account = account
        self._clock = clock
        self._timeouts = timeouts
        self._cache = Cache()
        self._api = Api(account, timeouts)
        self._sender = Sender(self._api, self._cache, clock)
        self._downloader = Downloader(self._api, account, timeouts)

        self.limits = Limits(
            largest_part=LARGEST_TEXT,
            measure=self._measure,
            edit_every=timedelta(seconds=1),
            per_account=_PER_ACCOUNT,
            per_chat=_PER_CHAT,
            per_group=_PER_GROUP,
        )

    async def run(self, receive: Receive) -> None:
        async with Intake(self._api, self._account, self._cache, self._clock, receive) as intake:
            if self._account.webhook is None:
                await poll(self._api, intake, self._timeouts, self._progressed)
            else:
                await listen(
                    self._api, intake, self._account.webhook, self._timeouts, self._progressed
                )

    async def read_again(self, raw: str) -> InboundMessage | None:
        me = await who_we_are(self._api, self._account)
        try:
            return normalise(json.loads(raw), me, self._clock.now())
        except Exception as exc:
            raise ValueError("the update is of a form that this version does not know") from exc

    async def send(self, part: Part) -> Sent:
        return await self._sender.send(part)

    async def edit(self, part: Part, message_id: str) -> Sent:
        return await self._sender.edit(part, message_id)

    async def ask(self, part: Part) -> Sent:
        return await self._sender.send(part)

    async def show_draft(self, part: Part) -> None:
        await self._sender.draft(part)

    async def send_file(self, part: Part) -> Sent:
        return await self._sender.send_file(part)

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        return self._downloader.fetch(attachment)

    async def show_typing(self, target: SessionSource) -> None:
        await self._sender.type(target)

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        await self._sender.react(target, message_id, emoji)

    def source_of(self, chat: str, thread: str | None) -> SessionSource:
        """Build the source of a chat: users have positive ids, groups negative ones."""
        is_group = not chat.isdecimal()
        return SessionSource(
            platform=PLATFORM,
            account=self._account.name,
            chat_type=ChatType.GROUP if is_group else ChatType.DM,
            chat_id=chat,
            user_id=None if is_group else chat,
            thread_id=thread,
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._api.close()

    def _measure(self, markdown: str) -> int:
        # What is so long is cut anyhow. Converted each time a preview grows, it would hold up the
        # event loop.
        if len(markdown) > _LONGEST_MEASURED:
            return units(markdown)
        return marked(markdown, self._cache.name_of).size

    def _progressed(self) -> None:
        self.progress = Moment.now(self._clock)


def connect(account: Account, chats: CatchUpChats, clock: Clock) -> TelegramAdapter:
    """Create the adapter. `places` is unused: Telegram queues updates for an offline bot."""
    return TelegramAdapter(account, clock)
