"""
A turn while it runs: on a screen that follows it, in a message that is edited in place, in a stream; and typing.

All of this is a hint. It never makes a turn wait, it spoils none when it fails, and it gives way to answers. One thing
must hold: the answer comes last. So whoever closes a preview waits for the edit that is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeGuard, runtime_checkable

from turngate.gateway.domain.messages import AgentEvent, ChatType, Part, SessionSource
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    FindsPreviews,
    FollowsTurns,
    Reacts,
    ShowsStatus,
    ShowsTyping,
    can,
)
from turngate.gateway.domain.ports.store import LOST_PREVIEW
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.live_message import (
    Draft,
    Drafter,
    EditedMessage,
    Editor,
    PreviewSettings,
    Showing,
    Stream,
    Streamer,
    in_time,
)
from turngate.gateway.outbound.preview_text import STILL_WORKING

_TYPING_EVERY = 4.0
_SILENT_FOR = 30.0


@runtime_checkable
class _Typist(Adapter, ShowsTyping, Protocol):
    """An account that can show that work goes on."""


@runtime_checkable
class _Sender(Adapter, Protocol):
    """An account."""


@runtime_checkable
class _Reactor(Adapter, Reacts, Protocol):
    """An account that can put a reaction on a message."""


class Preview:
    """A turn as it happens, in every way its platform has."""

    def __init__(self, adapter: object, showing: Showing, stage: PreviewSettings) -> None:
        self.showing = showing
        self.is_replaced = False
        self._stage = stage
        self._follower = follower_of(adapter)
        self._typing = (
            Typing(adapter, showing.target, stage)
            if _shows_typing(adapter, showing.target)
            else None
        )
        self._patience: asyncio.Task[None] | None = None
        if stage.reaction is not None and can(adapter, _Reactor) and showing.shown_in is None:
            stage.tasks.create_task(
                _acknowledge(adapter, showing, stage, stage.reaction), name="reaction"
            )
        self._message = self._message_of(adapter) if stage.stream else None
        if self._follower is not None:
            with harmless(stage.observer):
                self._follower.turn_began(showing.target, showing.turn, showing.messages)
        elif self._typing is None and can(adapter, _Sender):
            self._patience = stage.tasks.create_task(
                self._ask_for_patience(adapter), name="patience"
            )

    def _message_of(self, adapter: object) -> EditedMessage | None:
        """What shows the words: the best that there is in this place."""
        showing, stage, is_new = self.showing, self._stage, self.showing.shown_in is None
        in_draft = stage.drafts and showing.target.chat_type is ChatType.DM and is_new
        if in_draft and can(adapter, Drafter):
            return Draft(adapter, showing, stage, self._can_be_read)
        if is_new and can(adapter, Streamer) and adapter.can_stream(showing.target):
            return Stream(adapter, showing, stage, self._can_be_read)
        is_lost = showing.shown_in == LOST_PREVIEW and not can(adapter, FindsPreviews)
        if is_lost or self._follower is not None or not can(adapter, Editor):
            return None
        return EditedMessage(adapter, showing, stage, self._can_be_read)

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
            await asyncio.wait(
                {self._patience}
            )  # whoever cannot edit may be saying so this very moment
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
        part = Part(
            target=self.showing.target, text=STILL_WORKING, reply_to=self.showing.messages[-1]
        )
        try:
            with self._stage.governor.hint(self.showing.target, adapter.limits) as may:
                if may:
                    await adapter.send(part)
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: nobody misses more than a hint
            self._stage.observer.hint_failed(self.showing.target, exc)
        return None


class Typing:
    """
    Shows that work goes on until there is something to read.

    By a timer, and by a task only while it is being shown: there are as many of these as there are turns.
    """

    def __init__(self, adapter: _Typist, target: SessionSource, stage: PreviewSettings) -> None:
        self._adapter = adapter
        self._target = target
        self._stage = stage
        self._was_shown = False
        self._showing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tick()

    def stop(self) -> None:
        """No more of it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._showing is not None:
            self._showing.cancel()

    async def close(self) -> None:
        """Stop, and wait until it has."""
        self.stop()
        if self._showing is not None:
            await asyncio.wait({self._showing})
        adapter: object = self._adapter
        if self._was_shown and can(adapter, ShowsStatus):
            self._was_shown = False
            self._stage.tasks.create_task(self._hide(adapter), name="typing")

    async def _hide(self, adapter: ShowsStatus) -> None:
        """On the side: the answer waits for nothing of this."""
        try:
            with self._stage.governor.heeding(self._target):
                await in_time(adapter.hide_typing(self._target))
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: it vanishes by itself after a while
            self._stage.observer.hint_failed(self._target, exc)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_TYPING_EVERY, self._tick)
        if self._showing is None:
            self._begin_to_show()

    def _begin_to_show(self) -> None:
        showing = self._show()
        try:
            self._showing = self._stage.tasks.create_task(showing, name="typing")
        except RuntimeError:  # the gateway is closing, and its tasks are over
            showing.close()
            self.stop()

    async def _show(self) -> None:
        try:
            with self._stage.governor.hint(self._target, self._adapter.limits) as may:
                if may:
                    self._was_shown = True
                    await self._adapter.show_typing(self._target)
        except Exception as exc:  # noqa: BLE001 - whatever an adapter does wrong here, nobody misses more than a hint
            self._stage.observer.hint_failed(self._target, exc)
        finally:
            self._showing = None


def _shows_typing(adapter: object, target: SessionSource) -> TypeGuard[_Typist]:
    has_place = not can(adapter, ShowsStatus) or adapter.has_status_in(target)
    return can(adapter, _Typist) and has_place


def follower_of(adapter: object) -> FollowsTurns | None:
    """The adapter, if its screens follow turns."""
    return adapter if can(adapter, FollowsTurns) else None


@contextmanager
def harmless(observer: Observer) -> Iterator[None]:
    """What an adapter shows is a hint, and the answer comes anyway."""
    try:
        yield
    except Exception as exc:  # noqa: BLE001 - an adapter's bug spoils no turn
        observer.bug(exc)


async def _acknowledge(
    adapter: _Reactor, showing: Showing, stage: PreviewSettings, emoji: str
) -> None:
    """A quiet word that somebody has begun to work on it."""
    for message in showing.messages:
        try:
            with stage.governor.hint(showing.target, adapter.limits) as may:
                if may:
                    await adapter.react(showing.target, message, emoji)
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: nobody misses more than a hint
            stage.observer.hint_failed(showing.target, exc)
