"""The sweep: forgets what no platform repeats any more, deletes what was never said, puts away what nobody uses."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from gateway.errors import StoreError
from gateway.observe import Observer
from gateway.storing import Store

EVERY = timedelta(hours=1)
EMPTY_AFTER = timedelta(hours=1)
ARCHIVE_AFTER = timedelta(days=30)
# Longer than any platform hands out a message again: Telegram keeps them for a day, and so do our own retries.
FORGET_AFTER = timedelta(days=7)

_FIRST_AFTER = timedelta(minutes=1)


async def sweep(store: Store, observer: Observer) -> None:
    """Until cancelled. A store that cannot be swept now is swept the next time."""
    await asyncio.sleep(_FIRST_AFTER.total_seconds())
    while True:
        try:
            pruned = await store.prune(empty_after=EMPTY_AFTER, archive_after=ARCHIVE_AFTER, forget_after=FORGET_AFTER)
            observer.swept(pruned)
        except StoreError as exc:
            observer.store_failed(exc)
        await asyncio.sleep(EVERY.total_seconds())
