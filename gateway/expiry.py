"""The sweep: forgets what no platform repeats any more, deletes what was never said, puts away what nobody uses."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from gateway.errors import StoreError, StoreUnavailable, UnknownSession
from gateway.files import Files
from gateway.model import LARGEST_NUMBER, PartState, SessionId
from gateway.observe import Observer
from gateway.ports import Clock
from gateway.storing import Store

EVERY = timedelta(hours=1)
EMPTY_AFTER = timedelta(hours=1)
ARCHIVE_AFTER = timedelta(days=30)
# Longer than any platform hands out a message again: Telegram keeps them for a day, and so do our own retries.
FORGET_AFTER = timedelta(days=7)

# Dead letters too: an operator may send them all the same.
_UNSENT = PartState.PENDING, PartState.SENDING, PartState.FAILED, PartState.DEAD
_FIRST_AFTER = timedelta(minutes=1)


async def sweep(store: Store, files: Files, clock: Clock, observer: Observer) -> None:
    """Until cancelled. A store that cannot be swept now is swept the next time."""
    await asyncio.sleep(_FIRST_AFTER.total_seconds())
    while True:
        try:
            pruned = await store.prune(empty_after=EMPTY_AFTER, archive_after=ARCHIVE_AFTER, forget_after=FORGET_AFTER)
            observer.swept(pruned)
            await sweep_files(store, files, clock, observer)
        except StoreError as exc:
            observer.store_failed(exc)
        await asyncio.sleep(EVERY.total_seconds())


async def sweep_files(store: Store, files: Files, clock: Clock, observer: Observer) -> None:
    """Delete the folders of sessions that are gone or rest for long, and what the others no longer need."""
    sessions = await files.sessions()
    if not sessions:
        return
    unsent = await store.outbox(*_UNSENT, limit=LARGEST_NUMBER)
    waiting = {part.file.path for part in unsent if part.file is not None}
    speaking = {part.session for part in unsent if part.file is not None}
    for session in sessions:
        now = clock.now()
        try:
            if session not in speaking and await _rests(store, session, now - files.rules.keep):
                await files.forget(session)
            else:
                await files.tidy(session, now, waiting)
        except StoreUnavailable as exc:
            observer.files_failed(exc)


async def _rests(store: Store, session: SessionId, since: datetime) -> bool:
    try:
        return (await store.session(session)).updated_at < since
    except UnknownSession:
        return True
