"""One app in one workspace of Slack as the gateway sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from turngate.adapters.platform_clock import PlatformClock
from turngate.adapters.slack.account import Account, Patience
from turngate.adapters.slack.api import Api
from turngate.adapters.slack.bolt import app_for
from turngate.adapters.slack.cache import Memory
from turngate.adapters.slack.catch_up import CatchUp
from turngate.adapters.slack.directory import Directory
from turngate.adapters.slack.downloads import Downloader
from turngate.adapters.slack.find_sent import Finder
from turngate.adapters.slack.identity import Me
from turngate.adapters.slack.intake import Intake, who_we_are
from turngate.adapters.slack.markup import LARGEST_MARKDOWN, size
from turngate.adapters.slack.requests import listen_by_http
from turngate.adapters.slack.sending import Sender
from turngate.adapters.slack.socket import listen_by_socket
from turngate.adapters.slack.sources import CHAT_TYPES, PLATFORM
from turngate.adapters.slack.streaming import Streams
from turngate.adapters.slack.uploads import Uploader
from turngate.gateway.domain.messages import (
    Attachment,
    InboundMessage,
    Part,
    Sent,
    SessionSource,
    Tool,
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

# https://docs.slack.dev/apis/web-api/rate-limits: a message a second in one channel, with short bursts, and several
# hundred a minute in a workspace.
_PER_CHAT = Rate(count=5, per=timedelta(seconds=5))
_PER_ACCOUNT = Rate(count=20, per=timedelta(seconds=1))


class SlackAdapter:
    """Receives, sends, streams, asks, finds and fetches. `places` tells where there may be something to catch up."""

    def __init__(
        self,
        account: Account,
        clock: Clock,
        places: Places = nowhere,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        self.platform = PLATFORM
        self.progress: Moment | None = None
        self.deaf_after = patience.deaf_after
        self.limits = Limits(
            largest_part=LARGEST_MARKDOWN,
            measure=size,
            edit_every=timedelta(seconds=1),
            per_account=_PER_ACCOUNT,
            per_chat=_PER_CHAT,
        )
        self._account = account
        self._clock = clock
        self._places = places
        self._patience = patience
        self._memory = Memory()
        self._theirs = PlatformClock(clock)
        self._api = Api(account, patience, self._theirs.told)
        self._lookups = Directory(self._api, self._memory, patience)
        self._sender = Sender(self._api, self._memory, clock)
        self._streams = Streams(self._api, self._memory, self._sender, clock)
        self._uploader = Uploader(self._api, patience, clock)
        self._downloader = Downloader(self._api, account, patience)
        self._me: Me | None = None

    async def run(self, receive: Receive) -> None:
        """As the port has it."""
        self._me = await who_we_are(self._api, self._account)
        for place in await self._places():
            self._memory.join(place.chat_id, place.thread_id)
        intake = Intake(self._api, self._me, self._memory, self._lookups, self._clock, receive)
        listening = asyncio.ensure_future(self._listen(intake))
        try:
            await asyncio.wait({listening, intake.failed}, return_when=asyncio.FIRST_COMPLETED)
            await (intake.failed if intake.failed.done() else listening)
        finally:
            listening.cancel()
            await asyncio.wait({listening})
            await intake.close()

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        """As the port has it."""
        known = await self._known()
        catching_up = CatchUp(
            self._api, self._lookups, self._places, known, self._theirs.no_later(since)
        )
        async for message in catching_up.messages():
            yield message

    async def send(self, part: Part) -> Sent:
        """As the port has it."""
        return await self._sender.send(part)

    async def ask(self, part: Part) -> Sent:
        """As the port has it."""
        return await self._sender.send(part)

    async def edit(self, part: Part, message_id: str) -> Sent:
        """As the port has it."""
        return await self._streams.end(part, message_id) or await self._sender.edit(
            part, message_id
        )

    def can_stream(self, target: SessionSource) -> bool:
        """As the port has it."""
        return self._streams.can_stream(target)

    async def begin(self, part: Part, tools: Sequence[Tool]) -> Sent:
        """As the port has it."""
        return await self._streams.begin(part, tools)

    async def grow(self, part: Part, message_id: str, tools: Sequence[Tool]) -> None:
        """As the port has it."""
        await self._streams.grow(part, message_id, tools)

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """As the port has it."""
        finder = Finder(self._api, await self._known(), self._theirs)
        return await finder.find(part, self._theirs.no_later(since))

    async def find_preview(self, part: Part) -> Sent | None:
        """As the port has it."""
        return await Finder(self._api, await self._known(), self._theirs).find_preview(part)

    async def show_typing(self, target: SessionSource) -> None:
        """As the port has it."""
        await self._sender.show_status(target)

    def has_status_in(self, target: SessionSource) -> bool:
        """As the port has it: only a thread has a place for one."""
        return target.thread_id is not None

    async def hide_typing(self, target: SessionSource) -> None:
        """As the port has it."""
        await self._sender.show_status(target, "")

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        """As the port has it."""
        await self._sender.react(target, message_id, emoji)

    async def send_file(self, part: Part) -> Sent:
        """As the port has it."""
        return await self._uploader.send_file(part)

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """As the port has it."""
        return self._downloader.fetch(attachment)

    def place(self, chat: str, thread: str | None) -> SessionSource:
        """As the port has it. What is written to a person arrives in the direct chat with him."""
        return SessionSource(
            platform=PLATFORM,
            account=self._account.name,
            chat_type=CHAT_TYPES[self._lookups.kind_of(chat)],
            chat_id=chat,
            user_id=chat if chat.startswith(("U", "W")) else None,
            thread_id=thread,
            scope=self._me.team or None if self._me is not None else None,
        )

    async def close(self) -> None:
        """Hang up."""
        await self._api.close()

    async def _listen(self, intake: Intake) -> None:
        app = app_for(self._account, intake)
        if self._account.http is not None:
            await listen_by_http(
                self._account.http, self._api, app, self._patience, self._progressed
            )
        else:
            await listen_by_socket(self._account, self._api, app, self._patience, self._progressed)

    async def _known(self) -> Me:
        if self._me is None:
            self._me = await who_we_are(self._api, self._account)
        return self._me

    def _progressed(self) -> None:
        self.progress = Moment.now(self._clock)


def connect(account: Account, places: Places, clock: Clock) -> SlackAdapter:
    """As `turngate.gateway.daemon.platforms` has it."""
    return SlackAdapter(account, clock, places)
