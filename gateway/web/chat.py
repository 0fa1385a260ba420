"""
The chat's WebSocket: one per browser tab, each with one conversation open.

Each tab has three tasks: one handles the tab's requests in order, one follows the open
conversation, one reports changes made by other tabs. Each waits until its frame is sent, so a slow
tab delays only itself; it gets a fresh snapshot for what it missed.
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
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Settled,
    Shown,
    Watch,
)
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import SessionFilter
from turngate.gateway.domain.text import clean_label
from turngate.gateway.rules.session_keys import owner_of
from turngate.gateway.web import frames, transcript_cursor
from turngate.gateway.web.dependencies import WebDependencies
from turngate.gateway.web.frames import (
    Archive,
    Delete,
    Earlier,
    Frame,
    Open,
    Press,
    Rename,
    Say,
)
from turngate.gateway.web.transcript_cursor import Seen

MOST_TABS = 256
LONGEST_MESSAGE = 1_000_000
LARGEST_FRAME = 16 * 2**20
HEARTBEAT_SECONDS = 20.0
MOST_CONVERSATIONS = 200
_SECONDS_BETWEEN_LISTS = 0.3
_CLOSE_TIMEOUT = 1.0


class Chat:
    """All open tabs."""

    def __init__(self, dependencies: WebDependencies) -> None:
        self._dependencies = dependencies
        self._tabs: set[Tab] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one tab, from the handshake until it is closed."""
        # Each tab holds a socket and three tasks, so their number is limited. There is no await
        # between this check and the add below: simultaneous handshakes cannot exceed the limit.
        if len(self._tabs) >= MOST_TABS:
            raise web.HTTPServiceUnavailable(
                text=f"{MOST_TABS} tabs are open on this gateway; close some, this page tries "
                "again by itself."
            )

        socket = web.WebSocketResponse(
            timeout=_CLOSE_TIMEOUT,
            # Detects browsers that disappeared without closing the socket.
            heartbeat=HEARTBEAT_SECONDS,
            max_msg_size=LARGEST_FRAME,
            compress=False,
        )
        tab = Tab(self._dependencies, socket, self)
        self._tabs.add(tab)

        try:
            await socket.prepare(request)
            await tab.serve()
        finally:
            self._tabs.discard(tab)

        return socket

    def changed(self) -> None:
        """Notify every tab that the list or the waiting messages have changed."""
        for tab in self._tabs:
            tab.changed.set()

    async def close(self) -> None:
        """Close every tab with the code for a server that is stopping."""
        await asyncio.gather(*(tab.close() for tab in self._tabs))


class Tab:
    """One browser tab."""

    def __init__(
        self, dependencies: WebDependencies, socket: web.WebSocketResponse, chat: Chat
    ) -> None:
        self.changed = asyncio.Event()
        self._dependencies = dependencies
        self._socket = socket
        self._chat = chat
        self._conversation: str | None = None
        self._following: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Serve the tab until the browser disconnects."""
        try:
            async with asyncio.TaskGroup() as tasks:
                changes = tasks.create_task(self._send_changes())
                await self._send(frames.hello(self._dependencies.commands, LONGEST_MESSAGE))
                # Nothing may have changed yet, but a new tab needs its first list.
                self.changed.set()
                # A frame that is not text is parsed as empty text, which is answered with an error.
                async for received in self._socket:
                    await self._take(
                        received.data if received.type is WSMsgType.TEXT else "", tasks
                    )
                # Both run for ever, and the task group would wait for them.
                changes.cancel()
                self._stop_following()
        except* ConnectionError:
            # The tab was closed while a frame was being sent.
            pass
        except* StoreError:
            # The page reconnects by itself, with growing pauses.
            await self._socket.close(
                code=WSCloseCode.TRY_AGAIN_LATER, message=b"the store cannot be read now"
            )

    async def close(self) -> None:
        """Close the socket because the gateway is stopping."""
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
        elif isinstance(asked, Press):
            await self._press(asked)
        else:
            await self._do(asked)

    def _follow(self, conversation: str, tasks: asyncio.TaskGroup) -> None:
        self._stop_following()
        self._conversation = conversation
        # In the tab's task group, so that a StoreError while following closes the socket too.
        self._following = tasks.create_task(self._show(conversation))

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.cancel()

    async def _say(self, say: Say) -> None:
        if len(say.text) > LONGEST_MESSAGE:
            reason = (
                f"a message has at most {LONGEST_MESSAGE:,} characters, this one has "
                f"{len(say.text):,}"
            )
            await self._send(frames.answer("refused", id=say.id, reason=reason))
            return

        try:
            await self._dependencies.screens.say(say.conversation, say.id, say.text)
        except (StoreError, Retryable) as exc:
            # The page keeps an unstored message and retries with the same id. A refused one goes
            # back into the input field.
            await self._send(frames.answer("unstored", id=say.id, reason=str(exc)))
        except Refused as exc:
            await self._send(frames.answer("refused", id=say.id, reason=str(exc)))
        else:
            await self._send(frames.answer("stored", id=say.id, conversation=say.conversation))
            # The list shows the new message as its preview.
            self._chat.changed()

    async def _press(self, press: Press) -> None:
        screens = self._dependencies.screens
        try:
            await screens.press(press.conversation, press.id, press.nonce)
        except TurngateError as exc:
            await self._send(frames.answer("error", reason=str(exc)))

        # It may be the press that answered the question, or the question was gone already.
        await self._send(self._questions(press.conversation))

    def _questions(self, conversation: str) -> Frame:
        open_ = self._dependencies.questions(self._key(conversation))
        return frames.questions(conversation, open_)

    async def _do(self, asked: Earlier | Rename | Archive | Delete) -> None:
        try:
            await self._change(asked)
        except TurngateError as exc:
            await self._send(frames.answer("error", reason=str(exc)))

    async def _change(self, asked: Earlier | Rename | Archive | Delete) -> None:
        store = self._dependencies.store
        session = await self._session(asked.conversation)

        match asked:
            case Earlier(before=seq):
                page = await transcript_cursor.before(store, session, seq)
                await self._send(frames.earlier(asked.conversation, page))
                return
            case Rename(title=title):
                await store.rename(session.id, clean_label(title) or None)
            case Archive(archived=archived):
                await store.archive(session.id, archived=archived)
            case Delete():
                # Sessions before a /new have the same key and belong to the same conversation.
                for each in await store.sessions(SessionFilter(key=session.key)):
                    await store.delete(each.id)
                    await self._dependencies.forget(each.id)
            case _:
                assert_never(asked)

        self._chat.changed()

    async def _session(self, conversation: str) -> Session:
        session = await self._dependencies.store.current(self._key(conversation))
        if session is None:
            raise Refused("this conversation has no messages yet")
        return session

    async def _send_changes(self) -> None:
        """
        Send the list whenever it has changed, with a pause in between to limit the traffic of a
        busy gateway.
        """
        sent: Frame = {}

        while True:
            await self.changed.wait()
            # Cleared before the read: a change during the read causes another round.
            self.changed.clear()
            listed = await self._list()

            # Most changes do not affect the list, so it is not sent again.
            if listed != sent:
                await self._send(listed)
                sent = listed

            if self._conversation:
                messages = self._dependencies.waiting(self._key(self._conversation))
                await self._send(frames.waiting(self._conversation, messages))
                await self._send(self._questions(self._conversation))

            await asyncio.sleep(_SECONDS_BETWEEN_LISTS)

    async def _list(self) -> Frame:
        # The owner is the browser's user, the same for every conversation name.
        owner = owner_of(
            self._dependencies.screens.source("any"),
            per_user_in_groups=True,
            per_user_in_threads=False,
        )
        wanted = SessionFilter(owner=owner, current_only=True, limit=MOST_CONVERSATIONS)
        return frames.conversations(await self._dependencies.store.sessions(wanted))

    async def _show(self, conversation: str) -> None:
        """Send the conversation, then its events; start again whenever a snapshot is needed."""
        while True:
            # Open the watch before the transcript is read, so that no event is lost in between.
            # UnknownSession: the session was deleted between two reads; the next snapshot shows
            # the current one.
            with self._dependencies.screens.watch(conversation) as watch, suppress(UnknownSession):
                seen: Seen | None = await self._show_all(conversation, watch)
                while seen is not None:
                    seen = await self._show_next(conversation, await watch.next(), seen)
            # The closed watch dropped its unread events. One of them may have reported the end of
            # a turn, which changes the list.
            self._chat.changed()

    async def _show_all(self, conversation: str, watch: Watch) -> Seen:
        key = self._key(conversation)
        session = await self._dependencies.store.current(key)
        page = await transcript_cursor.newest(self._dependencies.store, session)
        waiting = self._dependencies.waiting(key)
        open_ = self._dependencies.questions(key)
        await self._send(frames.snapshot(conversation, session, page, waiting, open_, watch.live))
        return Seen.of(session.id if session else None, page[0])

    async def _show_next(self, conversation: str, shown: Shown, seen: Seen) -> Seen | None:
        """Send one event. Returns what the tab has seen, or None if it needs a new snapshot."""
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
            case Arrived(part=part) if not part.buttons:
                return await self._catch_up(
                    conversation, seen, frames.about_turn("arrived", conversation, part.turn)
                )
            case Arrived():
                # A question. The turn goes on, so its preview stays.
                return await self._catch_up(conversation, seen, self._questions(conversation))
            case Settled(messages=messages):
                self._chat.changed()
                return await self._catch_up(
                    conversation, seen, frames.about_turn("settled", conversation, None, messages)
                )
            case _:
                assert_never(shown)

    async def _catch_up(self, conversation: str, seen: Seen, then: Frame) -> Seen | None:
        """Send new transcript entries, then the frame that announces them."""
        session = await self._dependencies.store.current(self._key(conversation))
        # After /new or a deletion the page needs a new snapshot.
        if (session.id if session else None) != seen.session:
            return None

        entries, _ = await transcript_cursor.newest(self._dependencies.store, session)
        new = seen.added(entries)
        if new is None:
            return None

        if new:
            await self._send(frames.entries(conversation, new))

        # After the entries: at `arrived` the page removes the preview that they replace.
        await self._send(then)
        return seen.grown(new)

    def _key(self, conversation: str) -> SessionKey:
        return self._dependencies.key_of(self._dependencies.screens.source(conversation))

    async def _send(self, frame: Frame) -> None:
        await self._socket.send_str(frames.written(frame))
