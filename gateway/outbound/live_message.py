"""
A turn shown in one growing message: by edits, in a draft, or in the platform's own stream.

Best effort: its failure does not fail a turn, and it yields to answers. One rule: the answer comes
last, so closing such a message waits for the call that is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeVar, runtime_checkable

from turngate.gateway.domain.agent_events import AgentEvent
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    Retryable,
    Throttled,
    TurngateError,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    CallKind,
    EditsMessages,
    FindsPreviews,
    PlatformCall,
    ShowsDrafts,
    StreamsNatively,
)
from turngate.gateway.domain.ports.capability import can
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import LOST_PREVIEW
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.preview_text import (
    MARK,
    PreviewLabels,
    PreviewText,
)
from turngate.gateway.outbound.rate_limiter import SEND, RateLimiter

T = TypeVar("T")

_NOTHING_SAID = "(There is no answer.)"
_PACE = timedelta(seconds=1)
_AFTER_FAILURE = 5.0
_LONGEST_CALL = 30.0
_DRAFT_STAYS = 20.0  # seconds; platforms remove a draft after half a minute


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
    What every preview is made with.

    Without `stream` no text is shown before the answer is complete. `drafts`: use drafts in direct
    chats where the platform has them. `reaction` is put on the messages that a turn answers, when
    it begins.
    """

    store: Store
    rate_limiter: RateLimiter
    observer: Observer
    tasks: asyncio.TaskGroup
    stream: bool
    drafts: bool = False
    reaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewTarget:
    """
    Which turn is shown where, and which messages it answers.

    `shown_in` is the message of an earlier run that shows this turn, or LOST_PREVIEW if there may
    be one of unknown id: then no second one is sent.
    """

    target: SessionSource
    turn: TurnId
    messages: tuple[str, ...]
    shown_in: str | None = None


class EditedMessage:
    """
    One message: sent with the first words, then edited at a limited rate to the newest state.

    After a crash the answer replaces it, or says that there may be one.
    """

    def __init__(
        self,
        adapter: Editor,
        showing: PreviewTarget,
        stage: PreviewSettings,
        can_be_read: Callable[[], None],
    ) -> None:
        self._adapter = adapter
        self._showing = showing
        self._stage = stage
        self._can_be_read = can_be_read
        self._pace = (adapter.limits.edit_every or _PACE).total_seconds()
        self._words = PreviewLabels(adapter.limits)
        self._message = showing.shown_in
        self._says = ""
        self._news: asyncio.Event
        self._over: asyncio.Event
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

        # Before there is text: the message of an earlier run may have to be looked for.
        if showing.shown_in is not None:
            self._wake()

    def show(self, event: AgentEvent) -> None:
        """Show an event with the next edit."""
        self._words.add(event)
        self._wake()

    async def close(self) -> str | None:
        """Wait for the call that is under way. Returns the message, if there is one."""
        self._is_closed = True
        if self._task is not None:
            self._over.set()
            self._news.set()
            await asyncio.wait({self._task})

        try:
            await self._find_lost()
        # An adapter's error or bug: then the answer says that it is unknown.
        except Exception as exc:  # noqa: BLE001
            self._stage.observer.hint_failed(self._showing.target, exc)

        return self._message

    def still_working(self) -> None:
        """Say that it takes long, if there is no text yet."""
        self._words.wait()
        self._wake()

    async def leave(self) -> None:
        """Remove the mark of an unfinished answer from a message that no answer replaced."""
        if not self._message:
            return
        part = self._part(self._says.removesuffix(MARK) if self._words.has_text else _NOTHING_SAID)
        limiter = self._stage.rate_limiter
        where = (self._showing.target, self._adapter.limits, _edit(self._message))
        try:
            # Like an answer: a hint may be left out, and the mark would stay for ever.
            await limiter.admit(*where)
            with limiter.limited(*where):
                await in_time(self._adapter.edit(part, self._message))
        # An adapter's error or bug: the turn is over, only the log can say it.
        except Exception as exc:  # noqa: BLE001
            self._stage.observer.hint_failed(self._showing.target, exc)

    def _wake(self) -> None:
        """Start the task on the first event. Turns without text yet have none, to save memory."""
        if self._is_closed:
            return
        if self._task is None:
            self._news = asyncio.Event()
            self._over = asyncio.Event()
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
        """Show the newest state, or leave it pending. Returns the seconds until the next edit."""
        text = self._newest()
        if not self._is_news(text):
            return 0.0

        try:
            with self._stage.rate_limiter.hint(
                self._showing.target, self._adapter.limits, self._call()
            ) as may:
                if may:
                    await self._say(text)
                else:
                    self._news.set()
        except Retryable as exc:
            if self._message == LOST_PREVIEW:
                raise  # unknown whether it was sent; a second message would be worse
            self._stage.observer.hint_failed(self._showing.target, exc)
            self._news.set()
            # After Throttled the rate limiter refuses hints for as long as the platform asked.
            return self._pace if isinstance(exc, Throttled) else max(self._pace, _AFTER_FAILURE)

        return self._pace

    def _call(self) -> PlatformCall:
        """Return the call with which the next state is shown."""
        return SEND if self._message is None else _edit(self._message)

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
        # Recorded before the call: after a crash during it nothing else shows that it was made.
        await self._record(LOST_PREVIEW)
        crashpoint("preview-sending")
        try:
            # Until the id is known, so that a bug of the adapter leaves it in doubt as well.
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
        """Look for a message of an earlier run, where the platform can be asked."""
        adapter: object = self._adapter
        if self._message != LOST_PREVIEW or not can(adapter, FindsPreviews):
            return
        found = await in_time(adapter.find_preview(self._part("")))
        self._message = found.message_id if found is not None else None
        if found is not None:
            await self._record(found.message_id)

    async def _record(self, message: str) -> None:
        await self._stage.store.record_preview(self._showing.turn, message)

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
    A draft, which is not a message: it vanishes after a crash, and no answer can replace it.

    It also vanishes after a pause, so it is shown again before that.
    """

    def __init__(
        self,
        adapter: Drafter,
        showing: PreviewTarget,
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
            self._says = ""  # the same text is news again
            return not self._over.is_set()

    async def _say(self, text: str) -> None:
        await in_time(self._drafter.show_draft(self._part(text)))
        self._says = text
        if self._words.has_text:
            self._can_be_read()


class Stream(EditedMessage):
    """
    The platform's own stream, with the tools at work beside the text.

    A stream that is refused or ends early continues as an edited message. So does one after a
    crash: how much of it was shown is unknown.
    """

    def __init__(
        self,
        adapter: Streamer,
        showing: PreviewTarget,
        stage: PreviewSettings,
        can_be_read: Callable[[], None],
    ) -> None:
        self._streamer = adapter
        self._story = PreviewText(adapter.limits)
        self._is_plain = False
        super().__init__(adapter, showing, stage, can_be_read)

    def show(self, event: AgentEvent) -> None:
        """Show text and tools."""
        self._story.add(event)
        super().show(event)

    def _call(self) -> PlatformCall:
        if self._is_plain:
            return super()._call()
        if self._message is None:
            return PlatformCall(kind=CallKind.BEGIN)
        return PlatformCall(kind=CallKind.GROW, message_id=self._message)

    def _newest(self) -> str:
        return super()._newest() if self._is_plain else self._story.so_far()

    def _is_news(self, text: str) -> bool:
        return super()._is_news(text) or (not self._is_plain and bool(self._story.untold))

    async def _say(self, text: str) -> None:
        if not self._is_plain:
            try:
                return await self._stream(text)
            # `_words` has heard all events as well, so an edited message can continue.
            except Undeliverable:
                self._is_plain = True
        return await super()._say(self._words.so_far())

    async def _stream(self, text: str) -> None:
        part = self._part(text)
        tools = self._story.untold
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


def _edit(message_id: str) -> PlatformCall:
    return PlatformCall(kind=CallKind.EDIT, message_id=message_id)


async def in_time(call: Awaitable[T]) -> T:
    """Limit a call to 30 seconds, because the turn waits for one that is under way."""
    try:
        async with asyncio.timeout(_LONGEST_CALL):
            return await call
    except TimeoutError as exc:
        raise Unreachable("the platform did not answer") from exc
