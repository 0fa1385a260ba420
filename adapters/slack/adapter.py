"""The Slack adapter: one app in one workspace, behind the adapter port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from turngate.adapters.platform_clock import PlatformClock
from turngate.adapters.slack.account import Account, Timeouts
from turngate.adapters.slack.api import Api
from turngate.adapters.slack.bolt import app_for
from turngate.adapters.slack.cache import Cache
from turngate.adapters.slack.catch_up import CatchUp, CatchUpRuns
from turngate.adapters.slack.directory import Directory
from turngate.adapters.slack.downloads import Downloader
from turngate.adapters.slack.events import Events
from turngate.adapters.slack.find_sent import Finder
from turngate.adapters.slack.identity import BotIdentity
from turngate.adapters.slack.intake import Intake, identify_bot
from turngate.adapters.slack.limits import END_OF_STREAM, METHODS, PER_ACCOUNT, PER_CHAT
from turngate.adapters.slack.markup import LARGEST_MARKDOWN, size
from turngate.adapters.slack.requests import listen_by_http
from turngate.adapters.slack.sending import Sender
from turngate.adapters.slack.socket import listen_by_socket
from turngate.adapters.slack.sources import CHAT_TYPES, PLATFORM
from turngate.adapters.slack.streaming import Streams
from turngate.adapters.slack.threads import Threads
from turngate.adapters.slack.uploads import Uploader
from turngate.gateway.domain.agent_events import Tool
from turngate.gateway.domain.messages import (
    Attachment,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import (
    CallKind,
    CatchUpChats,
    Limits,
    MethodClass,
    PlatformCall,
    Receive,
    no_chats,
)
from turngate.gateway.domain.ports.clock import Clock, Moment


class SlackAdapter:
    """
    Implements the adapter port and its capabilities for Slack.

    `catch_up_chats` lists the conversations to read during catch-up.
    """

    def __init__(
        self,
        account: Account,
        clock: Clock,
        catch_up_chats: CatchUpChats = no_chats,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    ) -> None:
        self.platform = PLATFORM
        self.progress: Moment | None = None
        self.stale_after = timeouts.stale_after

        self.limits = Limits(
            largest_part=LARGEST_MARKDOWN,
            measure=size,
            edit_every=timedelta(seconds=1),
            per_account=PER_ACCOUNT,
            per_chat=PER_CHAT,
            class_of=self._class_of,
        )
        self._account = account
        self._clock = clock
        self._catch_up_chats = catch_up_chats
        self._timeouts = timeouts
        self._cache = Cache()
        self._platform_clock = PlatformClock(clock)
        self._api = Api(account, timeouts, self._platform_clock.note_date)
        self._directory = Directory(self._api, self._cache, timeouts)
        self._threads = Threads(self._api, self._cache)
        self._sender = Sender(self._api, self._cache, self._threads, clock)
        self._streams = Streams(self._api, self._cache, self._threads, self._sender, clock)
        self._uploader = Uploader(self._api, self._threads, timeouts, clock)
        self._downloader = Downloader(self._api, account, timeouts)
        self._catch_up_runs = CatchUpRuns()
        self._me: BotIdentity | None = None

    async def run(self, receive: Receive) -> None:
        # The identity decides which events are for this bot, so it comes before the first one.
        self._me = await identify_bot(self._api, self._account)
        # In threads with a conversation the bot answers without a new mention.
        for source in await self._catch_up_chats():
            self._cache.join(source.chat_id, source.thread_id)

        intake = Intake(
            self._api, self._me, self._cache, await self._events(), self._threads, receive
        )
        listening = asyncio.ensure_future(self._listen(intake))
        self._catch_up_runs.is_connected = True

        try:
            # A store failure ends the run as well: the missed events are then caught up.
            await asyncio.wait({listening, intake.failed}, return_when=asyncio.FIRST_COMPLETED)
            await (intake.failed if intake.failed.done() else listening)
        finally:
            # Stop receiving before the intake closes.
            self._catch_up_runs.is_connected = False
            listening.cancel()
            await asyncio.wait({listening})
            await intake.close()

    async def platform_time(self) -> datetime:
        # Any answer sets the platform clock.
        await self._identity()
        return self._platform_clock.now()

    async def catch_up(self, since: datetime) -> AsyncIterator[InboundMessage]:
        catching_up = CatchUp(
            self._api,
            self._directory,
            await self._events(),
            self._catch_up_chats,
            self._catch_up_runs,
            since,
        )

        async for message in catching_up.messages():
            self._threads.note(message)
            yield message

    async def read_again(self, raw: str) -> InboundMessage | None:
        return await (await self._events()).read_again(raw)

    async def send(self, part: Part) -> Sent:
        return await self._sender.send(part)

    async def ask(self, part: Part) -> Sent:
        return await self._sender.send(part)

    async def edit(self, part: Part, message_id: str) -> Sent:
        """
        End the stream if `message_id` is one that is still open; otherwise update the message.
        """
        return await self._streams.end(part, message_id) or await self._sender.edit(
            part, message_id
        )

    def can_stream(self, target: SessionSource) -> bool:
        return self._streams.can_stream(target)

    async def begin(self, part: Part, tools: Sequence[Tool]) -> Sent:
        return await self._streams.begin(part, tools)

    async def grow(self, part: Part, message_id: str, tools: Sequence[Tool]) -> None:
        await self._streams.grow(part, message_id, tools)

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        finder = await self._finder()
        return await finder.find(part, self._platform_clock.no_later(since))

    async def find_preview(self, part: Part) -> Sent | None:
        return await (await self._finder()).find_preview(part)

    async def show_typing(self, target: SessionSource) -> None:
        await self._sender.show_status(target)

    def has_status_in(self, target: SessionSource) -> bool:
        """Slack shows a status in threads only; in a direct chat in that of the newest message."""
        return self._threads.newest(target) is not None

    async def hide_typing(self, target: SessionSource) -> None:
        await self._sender.remove_status(target)

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        await self._sender.react(target, message_id, emoji)

    async def send_file(self, part: Part) -> Sent:
        return await self._uploader.send_file(part)

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        return self._downloader.fetch(attachment)

    def source_of(self, chat: str, thread: str | None) -> SessionSource:
        """Return the target for a chat id. A user id is accepted too and means the direct chat."""
        return SessionSource(
            platform=PLATFORM,
            account=self._account.name,
            chat_type=CHAT_TYPES[self._directory.kind_of(chat)],
            chat_id=chat,
            user_id=chat if chat.startswith(("U", "W")) else None,
            thread_id=thread,
            scope=self._me.team or None if self._me is not None else None,
        )

    async def close(self) -> None:
        """Close all connections to Slack."""
        await self._api.close()

    def _class_of(self, target: SessionSource, call: PlatformCall) -> MethodClass | None:
        """Return the method that the call uses; Slack counts it over the whole workspace."""
        is_stream = self._streams.is_open(target, call.message_id)
        return END_OF_STREAM if call.kind is CallKind.EDIT and is_stream else METHODS.get(call.kind)

    async def _listen(self, intake: Intake) -> None:
        app = app_for(self._account, intake)
        if self._account.http is not None:
            await listen_by_http(
                self._account.http, self._api, app, self._timeouts, self._note_progress
            )
        else:
            await listen_by_socket(
                self._account,
                self._api,
                app,
                self._timeouts,
                self._note_progress,
                intake.take_unreadable,
            )

    async def _events(self) -> Events:
        return Events(await self._identity(), self._directory, self._clock)

    async def _finder(self) -> Finder:
        return Finder(self._api, await self._identity(), self._threads, self._platform_clock)

    async def _identity(self) -> BotIdentity:
        if self._me is None:
            self._me = await identify_bot(self._api, self._account)
        return self._me

    def _note_progress(self) -> None:
        self.progress = Moment.now(self._clock)


def connect(account: Account, catch_up_chats: CatchUpChats, clock: Clock) -> SlackAdapter:
    """Create the adapter of one account. Called by `turngate.gateway.daemon.platforms`."""
    return SlackAdapter(account, clock, catch_up_chats)
