"""Waiting for a store that cannot write now: a disk gets space, a lock is let go, and nothing may be lost by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.observability.observer import Observer

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 3.0


_AFTER_ATTEMPTS = (0.0, 0.5, 2.0, 0.0)


async def pause_after(attempts: int) -> None:
    """A turn that died with its daemon begins again a little later each time. Dying in the pause is no attempt."""
    await asyncio.sleep(_AFTER_ATTEMPTS[min(attempts, len(_AFTER_ATTEMPTS) - 1)])


async def until_stored(write: Callable[[], Awaitable[T]], observer: Observer) -> T:
    """Write, again and again with growing pauses, until the store takes it. Damage and refusals are raised at once."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except StoreUnavailable as exc:
            observer.store_failed(exc)
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
