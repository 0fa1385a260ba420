"""Show "typing..." in a chat until there is something to read."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeGuard, runtime_checkable

from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.ports.adapter import Adapter, ShowsStatus, ShowsTyping
from turngate.gateway.domain.ports.capability import can
from turngate.gateway.domain.tasks import start_unless_closing
from turngate.gateway.outbound.live_message import PreviewSettings, in_time

_TYPING_EVERY = 4.0
"""Seconds. Platforms hide the indicator by themselves after five or more."""


@runtime_checkable
class TypingAdapter(Adapter, ShowsTyping, Protocol):
    """An account that can show the typing indicator."""


def shows_typing(adapter: object, target: SessionSource) -> TypeGuard[TypingAdapter]:
    """Return whether an account can show the typing indicator in this chat."""
    can_show = not can(adapter, ShowsStatus) or adapter.has_status_in(target)
    return can(adapter, TypingAdapter) and can_show


class Typing:
    """
    Shows the typing indicator until there is something to read.

    Driven by a timer: a task per running turn would cost memory, so one exists only during a call.
    """

    def __init__(
        self, adapter: TypingAdapter, target: SessionSource, stage: PreviewSettings
    ) -> None:
        self._adapter = adapter
        self._target = target
        self._stage = stage
        self._was_shown = False
        self._showing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tick()

    def stop(self) -> None:
        """Show it no longer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._showing is not None:
            self._showing.cancel()

    async def close(self) -> None:
        """Stop, and wait for the call that is under way."""
        self.stop()
        if self._showing is not None:
            await asyncio.wait({self._showing})
        adapter: object = self._adapter
        # Only once: the end of a turn closes its preview a second time.
        if self._was_shown and can(adapter, ShowsStatus):
            self._was_shown = False
            self._stage.tasks.create_task(self._hide(adapter), name="typing")

    async def _hide(self, adapter: ShowsStatus) -> None:
        """Hide it in a task of its own: the answer does not wait for that."""
        try:
            with self._stage.rate_limiter.limited(self._target):
                await in_time(adapter.hide_typing(self._target))
        # An adapter's error or bug: it vanishes by itself after a while.
        except Exception as exc:  # noqa: BLE001
            self._stage.observer.hint_failed(self._target, exc)

    def _tick(self) -> None:
        # The timer goes on while a call is under way, so that a slow platform does not stretch the
        # interval.
        self._timer = asyncio.get_running_loop().call_later(_TYPING_EVERY, self._tick)
        if self._showing is None:
            self._begin_to_show()

    def _begin_to_show(self) -> None:
        self._showing = start_unless_closing(self._stage.tasks, self._show(), "typing")
        if self._showing is None:
            self.stop()

    async def _show(self) -> None:
        try:
            with self._stage.rate_limiter.hint(self._target, self._adapter.limits) as may:
                if may:
                    self._was_shown = True
                    await self._adapter.show_typing(self._target)
        except Exception as exc:  # noqa: BLE001 - an adapter's error or bug: only a hint is lost
            self._stage.observer.hint_failed(self._target, exc)
        finally:
            self._showing = None
