"""
A turn shown in one message that grows: by edits, in a draft, or in the platform's own stream.

All of this is a hint. It spoils no turn when it fails, and it gives way to answers. One thing must hold: the answer
comes last. So whoever closes such a message waits for what is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    Retryable,
    Throttled,
    TurngateError,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import AgentEvent, Part, Sent, SessionSource, TurnId
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    EditsMessages,
    FindsPreviews,
    ShowsDrafts,
    StreamsNatively,
    can,
)
from turngate.gateway.domain.ports.store import LOST_PREVIEW, Store
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.preview_text import MARK, PreviewText, Words
from turngate.gateway.outbound.rate_limiter import RateLimiter
from turngate.gateway.stores.waiting_store import until_stored

T = TypeVar("T")

_NOTHING_SAID = "(There is no answer.)"
_PACE = timedelta(seconds=1)
_AFTER_FAILURE, _LONGEST_CALL = 5.0, 30.0
_DRAFT_STAYS = 20.0


@runtime_checkable
class Editor(Adapter, EditsMessages, Protocol):
    """An account whose messages can be edited."""


@runtime_checkable
class Drafter(Editor, ShowsDrafts, Protocol):
    """An account that can show drafts, too."""


@runtime_checkable
class Streamer(Editor, StreamsNatively, Protocol):
    """An account that has a way of its own to show an answer while it grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewSettings:
    """
    What every preview is made with. Without `stream` nothing is shown of what an agent says before it is done.

    `drafts`: in direct chats as a draft, where the platform has them. `reaction` is put on the messages that a turn
    answers, when it begins.
    """

    store: Store
    governor: RateLimiter
    observer: Observer
    tasks: asyncio.TaskGroup
    stream: bool
    drafts: bool = False
    reaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """
    The turn that is shown, where, and which messages it answers.

    `shown_in` is the message that shows what an earlier run had of it, or LOST_PREVIEW: then there may be one, and a
    second would be one too many.
    """

    target: SessionSource
    turn: TurnId
    messages: tuple[str, ...]
    shown_in: str | None = None


class EditedMessage:
    """
    A turn shown in one message: sent with the first words, then edited at a polite pace, always to the newest state.

    That there will be a message is on disk before it is sent, and which one as soon as it is there: after a crash the
    answer takes its place, or says that there may be one.
    """

    def __init__(
        self,
        adapter: Editor,
        showing: Showing,
        stage: PreviewSettings,
        can_be_read: Callable[[], None],
    ) -> None:
        self._adapter = adapter
        self._showing = showing
        self._stage = stage
        self._can_be_read = can_be_read
        self._pace = (adapter.limits.edit_every or _PACE).total_seconds()
        self._words = Words(adapter.limits)
        self._message, self._says = showing.shown_in, ""
        self._news: asyncio.Event
        self._over: asyncio.Event
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        if showing.shown_in is not None:
            self._wake()

    def show(self, event: AgentEvent) -> None:
        """Something to show at the next opportunity."""
        self._words.hear(event)
        self._wake()

    async def close(self) -> str | None:
        """Wait for what is under way. Returns the message, if there is one."""
        self._is_closed = True
        if self._task is not None:
            self._over.set()
            self._news.set()
            await asyncio.wait({self._task})
        try:
            await self._find_lost()
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: then the answer says that nobody knows
            self._stage.observer.hint_failed(self._showing.target, exc)
        return self._message

    def still_working(self) -> None:
        """It takes long, and nothing was said yet."""
        self._words.wait()
        self._wake()

    async def leave(self) -> None:
        """Closed, and not replaced by an answer: take the mark away."""
        if not self._message:
            return
        part = self._part(self._says.removesuffix(MARK) if self._words.has_text else _NOTHING_SAID)
        try:
            await self._stage.governor.admit(self._showing.target, self._adapter.limits)
            with self._stage.governor.heeding(self._showing.target):
                await in_time(self._adapter.edit(part, self._message))
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: there is nobody left whom it could concern
            self._stage.observer.hint_failed(self._showing.target, exc)

    def _wake(self) -> None:
        """There is news. Of the many turns that have not said anything yet, each takes as little room as it can."""
        if self._is_closed:
            return
        if self._task is None:
            self._news, self._over = asyncio.Event(), asyncio.Event()
            self._task = self._stage.tasks.create_task(self._keep_up(), name="preview")
        self._news.set()

    async def _keep_up(self) -> None:
        try:
            await self._find_lost()
            while await self._has_news():
                await self._pause(await self._show_newest())
        except TurngateError as exc:
            self._stage.observer.hint_failed(self._showing.target, exc)
        except Exception as exc:  # noqa: BLE001 - an adapter's bug ends the preview, never the turn
            self._stage.observer.bug(exc)

    async def _has_news(self) -> bool:
        await self._news.wait()
        self._news.clear()
        return not self._over.is_set()

    async def _show_newest(self) -> float:
        """Returns how long to leave it at that. What could not be shown now stays news."""
        text = self._newest()
        if not self._is_news(text):
            return 0.0
        try:
            with self._stage.governor.hint(self._showing.target, self._adapter.limits) as may:
                if may:
                    await self._say(text)
                else:
                    self._news.set()
        except Retryable as exc:
            if self._message == LOST_PREVIEW:
                raise  # nobody knows whether there is a message now, and another one would be one too many
            self._stage.observer.hint_failed(self._showing.target, exc)
            self._news.set()
            return self._pace if isinstance(exc, Throttled) else max(self._pace, _AFTER_FAILURE)
        return self._pace

    def _newest(self) -> str:
        return self._words.so_far()

    def _is_news(self, text: str) -> bool:
        return text not in ("", self._says)

    async def _say(self, text: str) -> None:
        part = self._part(text)
        if self._message is None:
            await self._send(part)
        else:
            await in_time(self._adapter.edit(part, self._message))
        self._says = text
        if self._words.has_text:
            self._can_be_read()

    async def _send(self, part: Part) -> None:
        await self._record(LOST_PREVIEW)
        crashpoint("preview-sending")
        try:
            self._message = LOST_PREVIEW
            self._message = (await in_time(self._begin(part))).message_id
        except Unreachable:
            await self._find_lost()
            raise
        except TurngateError:
            self._message = None  # it certainly did not arrive
            raise
        crashpoint("preview-sent")
        await self._record(self._message)

    async def _begin(self, part: Part) -> Sent:
        return await self._adapter.send(part)

    async def _find_lost(self) -> None:
        """Some platforms can be asked whether there is a message."""
        adapter: object = self._adapter
        if self._message != LOST_PREVIEW or not can(adapter, FindsPreviews):
            return
        found = await in_time(adapter.find_preview(self._part("")))
        self._message = found.message_id if found is not None else None
        if found is not None:
            await self._record(found.message_id)

    async def _record(self, message: str) -> None:
        recording = partial(self._stage.store.record_preview, self._showing.turn, message)
        await until_stored(recording, self._stage.observer)

    def _part(self, text: str) -> Part:
        answered = self._showing.messages[-1] if self._showing.messages else None
        return Part(
            target=self._showing.target, text=text, reply_to=answered, turn=self._showing.turn
        )

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()


class Draft(EditedMessage):
    """
    The same in a draft, which is no message: nothing of it stays after a crash, and no answer can take its place.

    It vanishes when nothing is said for a while, so it is shown again before that.
    """

    def __init__(
        self,
        adapter: Drafter,
        showing: Showing,
        stage: PreviewSettings,
        can_be_read: Callable[[], None],
    ) -> None:
        self._drafter = adapter
        super().__init__(adapter, showing, stage, can_be_read)

    async def _has_news(self) -> bool:
        try:
            async with asyncio.timeout(_DRAFT_STAYS):
                return await super()._has_news()
        except TimeoutError:
            self._says = ""
            return not self._over.is_set()

    async def _say(self, text: str) -> None:
        await in_time(self._drafter.show_draft(self._part(text)))
        self._says = text
        if self._words.has_text:
            self._can_be_read()


class Stream(EditedMessage):
    """
    The same in the platform's own stream, with the tools at work beside the words.

    A stream that is refused, or that its platform ends too early, goes on as a message that is edited. After a crash,
    too: nobody then knows how much of it was shown.
    """

    def __init__(
        self,
        adapter: Streamer,
        showing: Showing,
        stage: PreviewSettings,
        can_be_read: Callable[[], None],
    ) -> None:
        self._streamer = adapter
        self._story = PreviewText(adapter.limits)
        self._is_plain = False
        super().__init__(adapter, showing, stage, can_be_read)

    def show(self, event: AgentEvent) -> None:
        """In words and tools."""
        self._story.hear(event)
        super().show(event)

    def _newest(self) -> str:
        return super()._newest() if self._is_plain else self._story.so_far()

    def _is_news(self, text: str) -> bool:
        return super()._is_news(text) or (not self._is_plain and bool(self._story.untold))

    async def _say(self, text: str) -> None:
        if not self._is_plain:
            try:
                return await self._stream(text)
            except Undeliverable:
                self._is_plain = True
        return await super()._say(self._words.so_far())

    async def _stream(self, text: str) -> None:
        part, tools = self._part(text), self._story.untold
        if self._message is None:
            await self._send(part)
        else:
            await in_time(self._streamer.grow(part, self._message, tools))
        self._story.tell(tools)
        self._says = text
        if self._story.has_text:
            self._can_be_read()

    async def _begin(self, part: Part) -> Sent:
        if self._is_plain:
            return await super()._begin(part)
        return await self._streamer.begin(part, self._story.untold)


async def in_time(call: Awaitable[T]) -> T:
    """The turn waits for a call that is under way, so none may take for ever."""
    try:
        async with asyncio.timeout(_LONGEST_CALL):
            return await call
    except TimeoutError as exc:
        raise Unreachable("the platform did not answer") from exc
