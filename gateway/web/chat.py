"""
The chat's socket: one per tab of a browser, each with one conversation open.

Three tasks per tab. One reads what the tab asks for, in order. One follows the open conversation. One tells of changes
that other tabs made. Each waits until its frame is sent, so a tab that reads slowly holds up nobody but itself: what
it misses meanwhile it is shown as a fresh snapshot.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import assert_never

from aiohttp import WSCloseCode, WSMsgType, web

from turngate.gateway.domain.errors import (
    MalformedRecord,
    Refused,
    Retryable,
    StoreError,
    TurngateError,
    UnknownSession,
)
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Settled,
    Shown,
    Watch,
)
from turngate.gateway.domain.messages import Session, SessionKey
from turngate.gateway.domain.ports.store import SessionFilter
from turngate.gateway.domain.text import clean_label
from turngate.gateway.rules.session_keys import owner_of
from turngate.gateway.web import frames
from turngate.gateway.web import transcript_cursor as transcripts
from turngate.gateway.web.dependencies import WebDependencies
from turngate.gateway.web.frames import Archive, Delete, Earlier, Frame, Open, Rename, Say
from turngate.gateway.web.transcript_cursor import Seen

MOST_TABS = 256
LONGEST_MESSAGE = 1_000_000
LARGEST_FRAME = 16 * 2**20
HEARTBEAT_SECONDS = 20.0
MOST_CONVERSATIONS = 200
_BETWEEN_TWO_LISTS = 0.3
_SECONDS_TO_SAY_GOODBYE = 1.0


class Chat:
    """All tabs."""

    def __init__(self, needs: WebDependencies) -> None:
        self._needs = needs
        self._tabs: set[Tab] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One tab, from the handshake until it is closed."""
        if len(self._tabs) >= MOST_TABS:
            raise web.HTTPServiceUnavailable(
                text=f"{MOST_TABS} tabs are open on this gateway; close some, this page tries again by itself."
            )
        socket = web.WebSocketResponse(
            timeout=_SECONDS_TO_SAY_GOODBYE,
            heartbeat=HEARTBEAT_SECONDS,
            max_msg_size=LARGEST_FRAME,
            compress=False,
        )
        tab = Tab(self._needs, socket, self)
        self._tabs.add(tab)
        try:
            await socket.prepare(request)
            await tab.serve()
        finally:
            self._tabs.discard(tab)
        return socket

    def changed(self) -> None:
        """The list or what waits is another now: every tab will be told."""
        for tab in self._tabs:
            tab.changed.set()

    async def close(self) -> None:
        """Tell the tabs that the gateway stops, so that they do not take it for a broken line."""
        await asyncio.gather(*(tab.close() for tab in self._tabs))


class Tab:
    """One tab of a browser."""

    def __init__(self, needs: WebDependencies, socket: web.WebSocketResponse, chat: Chat) -> None:
        self.changed = asyncio.Event()
        self._needs = needs
        self._socket = socket
        self._chat = chat
        self._conversation: str | None = None
        self._following: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Until the browser goes away."""
        try:
            async with asyncio.TaskGroup() as tasks:
                telling = tasks.create_task(self._tell_of_changes())
                await self._send(frames.hello(self._needs.commands, LONGEST_MESSAGE))
                self.changed.set()
                async for received in self._socket:
                    await self._take(
                        received.data if received.type is WSMsgType.TEXT else "", tasks
                    )
                telling.cancel()
                self._stop_following()
        except* ConnectionError:
            pass  # the tab was closed while something was on its way to it
        except* StoreError:
            # The tab comes again by itself, after growing pauses.
            await self._socket.close(
                code=WSCloseCode.TRY_AGAIN_LATER, message=b"the store cannot be read now"
            )

    async def close(self) -> None:
        """The gateway stops."""
        await self._socket.close(code=WSCloseCode.GOING_AWAY, message=b"the gateway stops")

    async def _take(self, text: str, tasks: asyncio.TaskGroup) -> None:
        try:
            asked = frames.parse(text)
        except MalformedRecord as exc:
            await self._send(frames.answer("error", reason=str(exc)))
            return
        if isinstance(asked, Open):
            self._follow(asked.conversation, tasks)
        elif isinstance(asked, Say):
            await self._say(asked)
        else:
            await self._do(asked)

    def _follow(self, conversation: str, tasks: asyncio.TaskGroup) -> None:
        self._stop_following()
        self._conversation = conversation
        self._following = tasks.create_task(self._show(conversation))

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()

    async def _say(self, said: Say) -> None:
        if len(said.text) > LONGEST_MESSAGE:
            reason = f"a message has at most {LONGEST_MESSAGE:,} characters, this one has {len(said.text):,}"
            await self._send(frames.answer("refused", id=said.id, reason=reason))
            return
        try:
            await self._needs.screens.say(said.conversation, said.id, said.text)
        except (StoreError, Retryable) as exc:
            await self._send(frames.answer("unstored", id=said.id, reason=str(exc)))
        except Refused as exc:
            await self._send(frames.answer("refused", id=said.id, reason=str(exc)))
        else:
            await self._send(frames.answer("stored", id=said.id, conversation=said.conversation))
            self._chat.changed()

    async def _do(self, asked: Earlier | Rename | Archive | Delete) -> None:
        try:
            await self._change(asked)
        except TurngateError as exc:
            await self._send(frames.answer("error", reason=str(exc)))

    async def _change(self, asked: Earlier | Rename | Archive | Delete) -> None:
        store = self._needs.store
        session = await self._session(asked.conversation)
        match asked:
            case Earlier(before=seq):
                page = await transcripts.before(store, session, seq)
                await self._send(frames.earlier(asked.conversation, page))
                return
            case Rename(title=title):
                await store.rename(session.id, clean_label(title) or None)
            case Archive(archived=archived):
                await store.archive(session.id, archived=archived)
            case Delete():
                # What was said before a /new belongs to the same conversation for whoever deletes it.
                for one in await store.sessions(SessionFilter(key=session.key)):
                    await store.delete(one.id)
                    await self._needs.forget(one.id)
            case _:
                assert_never(asked)
        self._chat.changed()

    async def _session(self, conversation: str) -> Session:
        session = await self._needs.store.current(self._key(conversation))
        if session is None:
            raise Refused("nothing has been said in this conversation yet")
        return session

    async def _tell_of_changes(self) -> None:
        """The list, whenever it has changed; in between there is a pause, or a busy gateway would send nothing else."""
        told: Frame = {}
        while True:
            await self.changed.wait()
            self.changed.clear()
            listed = await self._list()
            if listed != told:
                await self._send(listed)
                told = listed
            if self._conversation:
                messages = self._needs.waiting(self._key(self._conversation))
                await self._send(frames.waiting(self._conversation, messages))
            await asyncio.sleep(_BETWEEN_TWO_LISTS)

    async def _list(self) -> Frame:
        owner = owner_of(
            self._needs.screens.source("any"), per_user_in_groups=True, per_user_in_threads=False
        )
        wanted = SessionFilter(owner=owner, current_only=True, limit=MOST_CONVERSATIONS)
        return frames.conversations(await self._needs.store.sessions(wanted))

    async def _show(self, conversation: str) -> None:
        """The conversation as it stands, then what happens in it; from the start again whenever that no longer fits."""
        while True:
            # A session that is deleted between two readings is unknown: then the next look finds what is there.
            with self._needs.screens.watch(conversation) as watch, suppress(UnknownSession):
                seen: Seen | None = await self._show_all(conversation, watch)
                while seen is not None:
                    seen = await self._show_next(conversation, await watch.next(), seen)

    async def _show_all(self, conversation: str, watch: Watch) -> Seen:
        key = self._key(conversation)
        session = await self._needs.store.current(key)
        page = await transcripts.newest(self._needs.store, session)
        waiting = self._needs.waiting(key)
        await self._send(frames.snapshot(conversation, session, page, waiting, watch.live))
        return Seen.of(session.id if session else None, page[0])

    async def _show_next(self, conversation: str, shown: Shown, seen: Seen) -> Seen | None:
        """What the tab has seen then; None if it must be shown everything anew."""
        match shown:
            case FellBehind():
                return None
            case Happened(turn=turn, event=event):
                frame = frames.happened(conversation, turn, event)
                if frame:
                    await self._send(frame)
                return seen
            case Began(turn=turn, messages=messages):
                return await self._catch_up(
                    conversation, seen, frames.about_turn("began", conversation, turn, messages)
                )
            case Arrived(part=part):
                return await self._catch_up(
                    conversation, seen, frames.about_turn("arrived", conversation, part.turn)
                )
            case Settled(messages=messages):
                self._chat.changed()
                return await self._catch_up(
                    conversation, seen, frames.about_turn("settled", conversation, None, messages)
                )
            case _:
                assert_never(shown)

    async def _catch_up(self, conversation: str, seen: Seen, then: Frame) -> Seen | None:
        """Send what the transcript has gained, then say why."""
        session = await self._needs.store.current(self._key(conversation))
        if (session.id if session else None) != seen.session:
            return None
        entries, _ = await transcripts.newest(self._needs.store, session)
        new = seen.added(entries)
        if new is None:
            return None
        if new:
            await self._send(frames.entries(conversation, new))
        await self._send(then)
        return seen.grown(new)

    def _key(self, conversation: str) -> SessionKey:
        return self._needs.key_of(self._needs.screens.source(conversation))

    async def _send(self, frame: Frame) -> None:
        await self._socket.send_str(frames.written(frame))
