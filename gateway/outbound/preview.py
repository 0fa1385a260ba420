"""
Show a turn while it runs: on a screen that follows it, in a message that is edited, in a stream;
and typing.

A preview is best effort: the turn never waits for it, its failure does not fail the turn, and it
yields to answers. One rule: the answer comes last, so closing a preview waits for the edit that is
under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from turngate.gateway.domain.agent_events import AgentEvent
from turngate.gateway.domain.messages import ChatType
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    CallKind,
    FindsPreviews,
    FollowsTurns,
    PlatformCall,
    Reacts,
)
from turngate.gateway.domain.ports.capability import can
from turngate.gateway.domain.store_values import LOST_PREVIEW
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.live_message import (
    Draft,
    Drafter,
    EditedMessage,
    Editor,
    PreviewSettings,
    PreviewTarget,
    Stream,
    Streamer,
)
from turngate.gateway.outbound.preview_text import STILL_WORKING
from turngate.gateway.outbound.typing import Typing, shows_typing

_SILENT_FOR = 30.0
_REACTION = PlatformCall(kind=CallKind.REACTION)


@runtime_checkable
class _Sender(Adapter, Protocol):
    """An account."""


@runtime_checkable
class _Reactor(Adapter, Reacts, Protocol):
    """An account that can put a reaction on a message."""


class Preview:
    """The preview of one turn, in the ways its platform has."""

    def __init__(self, adapter: object, showing: PreviewTarget, stage: PreviewSettings) -> None:
        self.showing = showing
        self.is_replaced = False
        self._stage = stage
        self._follower = follower_of(adapter)
        self._typing = (
            Typing(adapter, showing.target, stage)
            if shows_typing(adapter, showing.target)
            else None
        )
        self._slow_notice: asyncio.Task[None] | None = None
        # Not again for a turn that an earlier run had begun.
        if stage.reaction is not None and can(adapter, _Reactor) and showing.shown_in is None:
            stage.tasks.create_task(
                _acknowledge(adapter, showing, stage, stage.reaction), name="reaction"
            )

        self._message = self._message_of(adapter) if stage.stream else None
        if self._follower is not None:
            with harmless(stage.observer):
                self._follower.turn_began(showing.target, showing.turn, showing.messages)
        # Nothing shows that work goes on, so a message says it after a while.
        elif self._typing is None and can(adapter, _Sender):
            self._slow_notice = stage.tasks.create_task(
                self._send_slow_notice(adapter), name="slow-notice"
            )

    def _message_of(self, adapter: object) -> EditedMessage | None:
        """Choose how the text is shown: draft, stream or edited message."""
        showing = self.showing
        stage = self._stage
        is_new = self.showing.shown_in is None
        # Drafts exist in direct chats only, and only for a message that is new.
        in_draft = stage.drafts and showing.target.chat_type is ChatType.DM and is_new
        if in_draft and can(adapter, Drafter):
            return Draft(adapter, showing, stage, self._can_be_read)
        if is_new and can(adapter, Streamer) and adapter.can_stream(showing.target):
            return Stream(adapter, showing, stage, self._can_be_read)

        # There may be a preview of unknown id: a second one would stand beside it for ever.
        is_lost = showing.shown_in == LOST_PREVIEW and not can(adapter, FindsPreviews)
        if is_lost or self._follower is not None or not can(adapter, Editor):
            return None

        return EditedMessage(adapter, showing, stage, self._can_be_read)

    def show(self, event: AgentEvent) -> None:
        """Show an event. Never waits."""
        if self._message is not None:
            self._message.show(event)
        if self._follower is not None and self._stage.stream:
            with harmless(self._stage.observer):
                self._follower.turn_event(self.showing.target, self.showing.turn, event)

    async def close(self) -> str | None:
        """End the preview. Returns the message that shows it: the answer replaces it."""
        if self._typing is not None:
            await self._typing.close()
        if self._slow_notice is not None:
            self._slow_notice.cancel()

        shown_in = self.showing.shown_in if self._message is None else await self._message.close()
        if self._slow_notice is not None:
            # A notice that is being sent must not arrive after the answer.
            await asyncio.wait({self._slow_notice})

        return shown_in

    async def tidy_up(self) -> None:
        """Remove the mark of an unfinished answer, if no answer replaced the message."""
        await self.close()
        if self._message is not None and not self.is_replaced:
            await self._message.leave()

    def _can_be_read(self) -> None:
        if self._typing is not None:
            self._typing.stop()
        if self._slow_notice is not None:
            self._slow_notice.cancel()

    async def _send_slow_notice(self, adapter: _Sender) -> None:
        """Say once that work goes on, if possible in the message that the answer will replace."""
        await asyncio.sleep(_SILENT_FOR)
        if self._message is not None:
            return self._message.still_working()

        part = Part(
            target=self.showing.target, text=STILL_WORKING, reply_to=self.showing.messages[-1]
        )
        try:
            with self._stage.rate_limiter.hint(self.showing.target, adapter.limits) as may:
                if may:
                    await adapter.send(part)
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: only a hint is lost
            self._stage.observer.hint_failed(self.showing.target, exc)

        return None


def follower_of(adapter: object) -> FollowsTurns | None:
    """Return the adapter if its screens follow turns."""
    return adapter if can(adapter, FollowsTurns) else None


@contextmanager
def harmless(observer: Observer) -> Iterator[None]:
    """Report an adapter's error and continue: a preview must not fail a turn."""
    try:
        yield
    except Exception as exc:  # noqa: BLE001 - an adapter's bug spoils no turn
        observer.bug(exc)


async def _acknowledge(
    adapter: _Reactor, showing: PreviewTarget, stage: PreviewSettings, emoji: str
) -> None:
    """React to the messages that a turn answers."""
    for message in showing.messages:
        try:
            with stage.rate_limiter.hint(showing.target, adapter.limits, _REACTION) as may:
                if may:
                    await adapter.react(showing.target, message, emoji)
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: only a hint is lost
            stage.observer.hint_failed(showing.target, exc)
