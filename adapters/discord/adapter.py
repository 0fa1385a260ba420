"""One Discord bot as the gateway sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from turngate.adapters.discord.account import Account, Patience
from turngate.adapters.discord.api import Api
from turngate.adapters.discord.cache import Memory
from turngate.adapters.discord.catch_up import Historian
from turngate.adapters.discord.directory import Atlas
from turngate.adapters.discord.downloads import Downloader
from turngate.adapters.discord.intake import Intake, Reader
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
    Part,
    Sent,
    SessionSource,
)
from turngate.gateway.domain.ports.adapter import (
    Clock,
    Limits,
    Moment,
    Places,
    Rate,
    Receive,
    nowhere,
)

# Discord promises no figures, and names them with every answer: five messages in five seconds are what bots see in one
# channel, and fifty requests a second in all (https://docs.discord.com/developers/topics/rate-limits).
_PER_CHAT = Rate(count=5, per=timedelta(seconds=5))
_PER_ACCOUNT = Rate(count=45, per=timedelta(seconds=1))


class DiscordAdapter:
    """Receives, catches up, sends, edits, asks, fetches files, and finds out whether a message arrived."""

    def __init__(
        self,
        account: Account,
        clock: Clock,
        places: Places = nowhere,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        self.platform = PLATFORM
        self.deaf_after = patience.deaf_after
        self._account = account
        self._theirs = PlatformClock(clock)
        self._api = Api(account, patience, self._theirs.told)
        self._memory = Memory()
        self._atlas = Atlas(self._api)
        self._interactions = Interactions(self._api)
        self._reader = Reader(self._api, self._atlas, account, clock)
        self._sender = Sender(self._api, self._atlas, self._memory, self._interactions, clock)
        self._historian = Historian(self._api, self._atlas, self._reader, self._sender, places)
        self._listener = Listener(
            account, patience, self._api, self._memory, self._historian, clock, self._theirs
        )
        self._downloader = Downloader(self._api, account, patience, self._theirs)
        self.limits = Limits(
            largest_part=LARGEST_TEXT,
            measure=lambda markdown: marked(markdown).size,
            edit_every=timedelta(seconds=1),
            per_account=_PER_ACCOUNT,
            per_chat=_PER_CHAT,
        )

    @property
    def progress(self) -> Moment | None:
        """As the port has it."""
        return self._listener.pulse.last

    async def run(self, receive: Receive) -> None:
        """As the port has it."""
        async with Intake(
            self._reader, self._atlas, self._memory, self._interactions, receive
        ) as intake:
            await self._listener.listen(intake)

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        """As the port has it."""
        await self._api.me()  # an answer, and so a date
        async for message in self._historian.read(self._theirs.no_later(since)):
            yield message

    async def send(self, part: Part) -> Sent:
        """As the port has it."""
        return await self._sender.send(part)

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """As the port has it."""
        await self._api.me()  # an answer, and so a date
        return await self._sender.find_sent(part, self._theirs.no_later(since))

    async def find_preview(self, part: Part) -> Sent | None:
        """As the port has it."""
        return await self._sender.find_preview(part)

    async def edit(self, part: Part, message_id: str) -> Sent:
        """As the port has it."""
        return await self._sender.edit(part, message_id)

    async def ask(self, part: Part) -> Sent:
        """As the port has it."""
        return await self._sender.send(part)

    async def send_file(self, part: Part) -> Sent:
        """As the port has it."""
        return await self._sender.send_file(part)

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """As the port has it."""
        return self._downloader.fetch(attachment)

    async def show_typing(self, target: SessionSource) -> None:
        """As the port has it."""
        await self._sender.type(target)

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """As the port has it."""
        await self._sender.react(target, message_id, emoji)

    def place(self, chat: str, thread: str | None) -> SessionSource:
        """As the port has it: direct chats are known by who wrote there, so any other chat is a server's channel."""
        return SessionSource(
            platform=PLATFORM,
            account=self._account.name,
            chat_type=ChatType.THREAD if thread else ChatType.GROUP,
            chat_id=chat,
            thread_id=thread,
            scope=self._atlas.guild_of(thread or chat),
        )

    async def close(self) -> None:
        """Hang up."""
        await self._api.close()


def connect(account: Account, places: Places, clock: Clock) -> DiscordAdapter:
    """For an account of the config."""
    return DiscordAdapter(account, clock, places)
