"""Waiting for a store that cannot write now: a disk gets space, a lock is let go, and nothing may be lost by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.errors import StoreUnavailable
from gateway.observe import Observer

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


_BEFORE_AGAIN = (0.0, 0.5, 2.0)


async def pause_before(attempt: int) -> None:
    """A turn that died with its daemon begins again a little later each time."""
    await asyncio.sleep(_BEFORE_AGAIN[min(attempt, len(_BEFORE_AGAIN)) - 1])


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
