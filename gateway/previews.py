"""
A turn while it runs: on a screen that follows it, or in a message that is edited in place; and the typing sign.

All of this is a hint. It never makes a turn wait, it spoils none when it fails, and it gives way to answers. One thing
must hold: the answer comes last. So whoever closes a preview waits for the edit that is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from gateway.crashpoints import crashpoint
from gateway.errors import Retryable, Throttled, TurngateError, Unreachable
from gateway.governor import Governor
from gateway.model import AgentEvent, ChatType, Part, SessionSource, Text, Tool, ToolStatus, TurnId
from gateway.observe import Observer
from gateway.patience import until_stored
from gateway.ports import Adapter, EditsMessages, FollowsTurns, Limits, Reacts, ShowsDrafts, ShowsTyping
from gateway.rendering import beginning
from gateway.storing import LOST_PREVIEW, Store

T = TypeVar("T")

_MARK = " …"
_NOTHING_SAID = "(There is no answer.)"
_PACE = timedelta(seconds=1)
_AFTER_FAILURE, _TYPING_EVERY, _LONGEST_CALL = 5.0, 4.0, 30.0
_DRAFT_STAYS = 20.0
_SILENT_FOR = 30.0
_STILL_WORKING = "Still working on it…"


@runtime_checkable
class _Editor(Adapter, EditsMessages, Protocol):
    """An account whose messages can be edited."""


@runtime_checkable
class _Typist(Adapter, ShowsTyping, Protocol):
    """An account that can show that work goes on."""


@runtime_checkable
class _Sender(Adapter, Protocol):
    """An account."""


@runtime_checkable
class _Drafter(_Editor, ShowsDrafts, Protocol):
    """An account that can show drafts, too."""


@runtime_checkable
class _Reactor(Adapter, Reacts, Protocol):
    """An account that can put a reaction on a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """
    What every preview is made with. Without `stream` nothing is shown of what an agent says before it is done.

    `drafts`: in direct chats as a draft, where the platform has them. `reaction` is put on the messages that a turn
    answers, when it begins.
    """

    store: Store
    governor: Governor
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

    def answers(self, target: SessionSource, messages: Sequence[str]) -> bool:
        """Whether it is about these messages of that place, to which others may have come."""
        return self.target == target and set(self.messages) <= set(messages)


class Preview:
    """A turn as it happens, in every way its platform has."""

    def __init__(self, adapter: object, showing: Showing, stage: Stage) -> None:
        self.showing = showing
        self.is_replaced = False
        self._stage = stage
        self._follower = follower_of(adapter)
        self._typing = Typing(adapter, showing.target, stage) if isinstance(adapter, _Typist) else None
        self._patience: asyncio.Task[None] | None = None
        if stage.reaction is not None and isinstance(adapter, _Reactor) and showing.shown_in is None:
            stage.tasks.create_task(_acknowledge(adapter, showing, stage, stage.reaction), name="reaction")
        self._message: EditedMessage | None = None
        may_show = stage.stream and showing.shown_in != LOST_PREVIEW
        in_draft = stage.drafts and showing.target.chat_type is ChatType.DM and showing.shown_in is None
        if may_show and in_draft and isinstance(adapter, _Drafter):
            self._message = Draft(adapter, showing, stage, self._can_be_read)
        elif may_show and self._follower is None and isinstance(adapter, _Editor):
            self._message = EditedMessage(adapter, showing, stage, self._can_be_read)
        if self._follower is not None:
            with harmless(stage.observer):
                self._follower.turn_began(showing.target, showing.turn, showing.messages)
        elif self._typing is None and isinstance(adapter, _Sender):
            self._patience = stage.tasks.create_task(self._ask_for_patience(adapter), name="patience")

    def show(self, event: AgentEvent) -> None:
        """What the agent said or did. Never waits."""
        if self._message is not None:
            self._message.show(event)
        if self._follower is not None and self._stage.stream:
            with harmless(self._stage.observer):
                self._follower.turn_event(self.showing.target, self.showing.turn, event)

    async def close(self) -> str | None:
        """Nothing more is shown. Returns the message that shows it: the answer is to take its place."""
        if self._typing is not None:
            await self._typing.close()
        if self._patience is not None:
            self._patience.cancel()
        shown_in = self.showing.shown_in if self._message is None else await self._message.close()
        if self._patience is not None:
            await asyncio.wait({self._patience})  # whoever cannot edit may be saying so this very moment
        return shown_in

    async def tidy_up(self) -> None:
        """Nothing more comes. If no answer took the message's place, at least it no longer looks as if one would."""
        await self.close()
        if self._message is not None and not self.is_replaced:
            await self._message.leave()

    def _can_be_read(self) -> None:
        if self._typing is not None:
            self._typing.stop()
        if self._patience is not None:
            self._patience.cancel()

    async def _ask_for_patience(self, adapter: _Sender) -> None:
        """Where nothing else shows that work goes on, say so once: in the message that the answer will replace."""
        await asyncio.sleep(_SILENT_FOR)
        if self._message is not None:
            return self._message.still_working()
        part = Part(target=self.showing.target, text=_STILL_WORKING, reply_to=self.showing.messages[-1])
        try:
            with self._stage.governor.hint(self.showing.target, adapter.limits) as may:
                if may:
                    await adapter.send(part)
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: nobody misses more than a hint
            self._stage.observer.hint_failed(self.showing.target, exc)
        return None


class Typing:
    """Shows that work goes on until there is something to read."""

    def __init__(self, adapter: _Typist, target: SessionSource, stage: Stage) -> None:
        self._adapter = adapter
        self._target = target
        self._stage = stage
        self._task = stage.tasks.create_task(self._type(), name="typing")

    def stop(self) -> None:
        """No more of it."""
        self._task.cancel()

    async def close(self) -> None:
        """Stop, and wait until it has."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _type(self) -> None:
        while True:
            try:
                with self._stage.governor.hint(self._target, self._adapter.limits) as may:
                    if may:
                        await self._adapter.show_typing(self._target)
            except Exception as exc:  # noqa: BLE001 - whatever an adapter does wrong here, nobody misses more than a hint
                self._stage.observer.hint_failed(self._target, exc)
            await asyncio.sleep(_TYPING_EVERY)


class EditedMessage:
    """
    A turn shown in one message: sent with the first words, then edited at a polite pace, always to the newest state.

    That there will be a message is on disk before it is sent, and which one as soon as it is there: after a crash the
    answer takes its place, or says that there may be one.
    """

    def __init__(self, adapter: _Editor, showing: Showing, stage: Stage, can_be_read: Callable[[], None]) -> None:
        self._adapter = adapter
        self._showing = showing
        self._stage = stage
        self._can_be_read = can_be_read
        self._pace = (adapter.limits.edit_every or _PACE).total_seconds()
        self._words = Words(adapter.limits)
        self._message, self._says = showing.shown_in, ""
        self._news, self._over = asyncio.Event(), asyncio.Event()
        self._task = stage.tasks.create_task(self._keep_up(), name="preview")

    def show(self, event: AgentEvent) -> None:
        """Something to show at the next opportunity."""
        self._words.hear(event)
        self._news.set()

    async def close(self) -> str | None:
        """Wait for what is under way. Returns the message, if there is one."""
        self._over.set()
        self._news.set()
        await asyncio.wait({self._task})
        return self._message

    def still_working(self) -> None:
        """It takes long, and nothing was said yet."""
        self._words.wait()
        self._news.set()

    async def leave(self) -> None:
        """Closed, and not replaced by an answer: take the mark away."""
        if not self._message:
            return
        part = self._part(self._says.removesuffix(_MARK) if self._words.has_text else _NOTHING_SAID)
        try:
            await self._stage.governor.admit(self._showing.target, self._adapter.limits)
            with self._stage.governor.heeding(self._showing.target):
                await _in_time(self._adapter.edit(part, self._message))
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: there is nobody left whom it could concern
            self._stage.observer.hint_failed(self._showing.target, exc)

    async def _keep_up(self) -> None:
        try:
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
        text = self._words.so_far()
        if text in ("", self._says):
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

    async def _say(self, text: str) -> None:
        part = self._part(text)
        if self._message is None:
            await self._send(part)
        else:
            await _in_time(self._adapter.edit(part, self._message))
        self._says = text
        if self._words.has_text:
            self._can_be_read()

    async def _send(self, part: Part) -> None:
        await self._record(LOST_PREVIEW)
        crashpoint("preview-sending")
        try:
            self._message = LOST_PREVIEW
            self._message = (await _in_time(self._adapter.send(part))).message_id
        except TurngateError as exc:
            if not isinstance(exc, Unreachable):
                self._message = None  # it certainly did not arrive
            raise
        crashpoint("preview-sent")
        await self._record(self._message)

    async def _record(self, message: str) -> None:
        recording = partial(self._stage.store.record_preview, self._showing.turn, message)
        await until_stored(recording, self._stage.observer)

    def _part(self, text: str) -> Part:
        answered = self._showing.messages[-1] if self._showing.messages else None
        return Part(target=self._showing.target, text=text, reply_to=answered, turn=self._showing.turn)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()


class Draft(EditedMessage):
    """
    The same in a draft, which is no message: nothing of it stays after a crash, and no answer can take its place.

    It vanishes when nothing is said for a while, so it is shown again before that.
    """

    def __init__(self, adapter: _Drafter, showing: Showing, stage: Stage, can_be_read: Callable[[], None]) -> None:
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
        await _in_time(self._drafter.show_draft(self._part(text)))
        self._says = text
        if self._words.has_text:
            self._can_be_read()


class Words:
    """
    What a preview says: the agent's words so far, or the tool it uses as long as there are none; with a mark behind.

    One message is all there is room for, and its beginning does not change any more: what comes after it is not kept.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pieces: list[str] = []
        self._tool = ""
        self._pauses = self._is_full = self._takes_long = False
        self._cut = ""

    @property
    def has_text(self) -> bool:
        """Whether these are the agent's own words."""
        return any(piece.strip() for piece in self._pieces)

    def hear(self, event: AgentEvent) -> None:
        """Add one event."""
        match event:
            case Text(text=text) if not self._is_full:
                self._pieces += ["\n\n", text] if self._pauses else [text]
                self._pauses = False
            case Tool(status=ToolStatus.STARTED, name=name):
                self._pauses = True
                self._tool = " ".join(name.split())
            case _:
                pass

    def wait(self) -> None:
        """There is nothing to say yet, and it takes long."""
        self._takes_long = True

    def so_far(self) -> str:
        """Empty if there is nothing to say yet."""
        if self._is_full:
            return self._cut
        text = "".join(self._pieces).strip()
        if not text and self._tool:
            return self._beginning(f"Using {self._tool}")[0]
        if not text:
            return _STILL_WORKING if self._takes_long else ""
        self._cut, shown = self._beginning(text)
        self._is_full = shown < len(text)
        return self._cut

    def _beginning(self, text: str) -> tuple[str, int]:
        return beginning(text, self._limits.largest_part, self._limits.measure, _MARK)


def follower_of(adapter: object) -> FollowsTurns | None:
    """The adapter, if its screens follow turns."""
    return adapter if isinstance(adapter, FollowsTurns) else None


@contextmanager
def harmless(observer: Observer) -> Iterator[None]:
    """What an adapter shows is a hint, and the answer comes anyway."""
    try:
        yield
    except Exception as exc:  # noqa: BLE001 - an adapter's bug spoils no turn
        observer.bug(exc)


async def _acknowledge(adapter: _Reactor, showing: Showing, stage: Stage, emoji: str) -> None:
    """A quiet word that somebody has begun to work on it."""
    for message in showing.messages:
        try:
            with stage.governor.hint(showing.target, adapter.limits) as may:
                if may:
                    await adapter.react(showing.target, message, emoji)
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: nobody misses more than a hint
            stage.observer.hint_failed(showing.target, exc)


async def _in_time(call: Awaitable[T]) -> T:
    """The turn waits for a call that is under way, so none may take for ever."""
    try:
        async with asyncio.timeout(_LONGEST_CALL):
            return await call
    except TimeoutError as exc:
        raise Unreachable("the platform did not answer") from exc
