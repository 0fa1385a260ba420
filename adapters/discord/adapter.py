"""The adapter of one Discord bot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from turngate.adapters.discord.account import Account, Timeouts
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Cache
from turngate.adapters.discord.catch_up import CatchUp
from turngate.adapters.discord.directory import Directory
from turngate.adapters.discord.downloads import Downloader
from turngate.adapters.discord.intake import AnsweredElsewhere, Intake, Reader
from turngate.adapters.discord.interactions import Interactions
from turngate.adapters.discord.listening import Listener
from turngate.adapters.discord.markup import LARGEST_TEXT, marked
from turngate.adapters.discord.normalise import PLATFORM
from turngate.adapters.discord.sending import Sender
from turngate.adapters.platform_clock import PlatformClock
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
    no_chats,
)
from turngate.gateway.domain.ports.clock import Clock, Moment

# Discord documents no fixed limits and sends them with every answer. Observed: five messages in
# five seconds per channel, and fifty requests a second in total
# (https://docs.discord.com/developers/topics/rate-limits).
_PER_CHAT = Rate(count=5, per=timedelta(seconds=5))
_PER_ACCOUNT = Rate(count=45, per=timedelta(seconds=1))


class DiscordAdapter:
    """Receives, catches up, sends, edits, asks, fetches files, and finds sent messages."""

    def __init__(
        self,
        account: Account,
        clock: Clock,
        chats: CatchUpChats = no_chats,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    ) -> None:
        self.platform = PLATFORM
        self.stale_after = timeouts.stale_after
        self._account = account
        self._platform_clock = PlatformClock(clock)
        self._api = Api(account, timeouts, self._platform_clock.note_date)
        self._cache = Cache()
        self._directory = Directory(self._api)
        self._interactions = Interactions(self._api)
        self._reader = Reader(self._api, self._directory, account, self._platform_clock)
        self._sender = Sender(self._api, self._directory, self._cache, self._interactions, clock)
        self._catch_up = CatchUp(
            self._api, self._directory, self._reader, self._sender, self._cache, chats, timeouts
        )
        self._listener = Listener(
            account, timeouts, self._api, self._cache, self._catch_up, clock, self._platform_clock
        )
        self._listens = False
        self._elsewhere: AnsweredElsewhere | None = None
        self._downloader = Downloader(self._api, account, timeouts, self._platform_clock)

        self.limits = Limits(
            largest_part=LARGEST_TEXT,
            measure=lambda markdown: marked(markdown).size,
            edit_every=timedelta(seconds=1),
            per_account=_PER_ACCOUNT,
            per_chat=_PER_CHAT,
        )

    @property
    def progress(self) -> Moment | None:
        return self._listener.heartbeats.last

    async def run(self, receive: Receive) -> None:
        self._stay_away_if_answered_elsewhere()
        async with Intake(
            self._reader, self._directory, self._cache, self._interactions, receive
        ) as intake:
            self._listens = True
            try:
                await self._listener.listen(intake)
            except AnsweredElsewhere as exc:
                self._elsewhere = exc
                raise
            finally:
                self._listens = False

    async def read_again(self, raw: str) -> InboundMessage | None:
        return await self._reader.read_again(raw)

    async def platform_time(self) -> datetime:
        self._stay_away_if_answered_elsewhere()
        # Any answer sets the platform clock.
        await self._api.me()
        return self._platform_clock.now()

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        async for message in self._catch_up.read(since, listens=self._listens):
            yield message

    async def send(self, part: Part) -> Sent:
        return await self._sender.send(part)

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        # Any answer sets the platform clock.
        await self._api.me()
        return await self._sender.find_sent(part, self._platform_clock.no_later(since))

    async def find_preview(self, part: Part) -> Sent | None:
        return await self._sender.find_preview(part)

    async def edit(self, part: Part, message_id: str) -> Sent:
        return await self._sender.edit(part, message_id)

    async def ask(self, part: Part) -> Sent:
        return await self._sender.send(part)

    async def send_file(self, part: Part) -> Sent:
        return await self._sender.send_file(part)

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        return self._downloader.fetch(attachment)

    async def show_typing(self, target: SessionSource) -> None:
        await self._sender.type(target)

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        await self._sender.react(target, message_id, emoji)

    def source_of(self, chat: str, thread: str | None) -> SessionSource:
        """
        Build the source of a chat. Direct chats are known by their user, so any other id is a
        server's channel.
        """
        return SessionSource(
            platform=PLATFORM,
            account=self._account.name,
            chat_type=ChatType.THREAD if thread else ChatType.GROUP,
            chat_id=chat,
            thread_id=thread,
            scope=self._directory.guild_of(thread or chat),
        )

    def _stay_away_if_answered_elsewhere(self) -> None:
        """
        Raise what ended the run when another program answered, until the restart of this one: two
        that go on answer everything twice.
        """
        if self._elsewhere is not None:
            raise AnsweredElsewhere(str(self._elsewhere))

    async def close(self) -> None:
        """Close the connection."""
        await self._api.close()


def connect(account: Account, chats: CatchUpChats, clock: Clock) -> DiscordAdapter:
    return DiscordAdapter(account, clock, chats)
