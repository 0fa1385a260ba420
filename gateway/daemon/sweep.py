"""
The periodic sweep: end due sessions, delete expired dedupe ids, empty sessions and old messages,
archive unused sessions.

All of this depends on the wall clock, so it pauses while the clock is not trusted. Nothing is lost
by waiting: the next message also resets a session that is due.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from turngate.gateway.daemon.clock_jump import ClockJump
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    StoreError,
    StoreUnavailable,
    UnknownSession,
)
from turngate.gateway.domain.ids import LARGEST_NUMBER, SessionId
from turngate.gateway.domain.outbox import PartState
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import EndReason, Session
from turngate.gateway.domain.store_values import Opening, Pruned
from turngate.gateway.observability.observer import Observer
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules.policy import Policy
from turngate.gateway.rules.retention import CleanUpRules
from turngate.gateway.stores.session_files import SessionFiles

# Dead letters too: an operator may still retry them, and then their files are needed.
_UNSENT = PartState.PENDING, PartState.SENDING, PartState.FAILED, PartState.DEAD
_HOURLY = timedelta(hours=1)
_LOOK_EVERY = timedelta(minutes=1)
_LOOK_AT_MOST_EVERY = timedelta(seconds=1)
_NEVER = timedelta(days=36_500)
_AT_ONCE = 32


@dataclass(slots=True, kw_only=True)
class Sweep:
    """
    The periodic sweep. `is_busy` reports work in a session that the store does not know of; it is
    called on the store's thread.
    """

    policy: Policy
    store: Store
    files: SessionFiles
    clock: Clock
    observer: Observer
    is_busy: Callable[[Session], bool]
    rules: CleanUpRules = CleanUpRules()

    async def run(self) -> None:
        """Run until cancelled. A sweep that the store cannot do now is done the next time."""
        clock_jump = ClockJump(self.clock)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_ending(clock_jump), name="ending")
            tasks.create_task(self._keep_clean(clock_jump), name="clean-up")

    async def _keep_ending(self, clock_jump: ClockJump) -> None:
        was_steady = True
        while True:
            await asyncio.sleep(self._pause().total_seconds())
            is_steady = clock_jump.holds()
            # The clock is doubted for an hour, and this runs each minute: log the change only.
            if was_steady and not is_steady:
                self.observer.clock_jumped()
            was_steady = is_steady
            if is_steady:
                await self._seen_to(self.end_due)

    async def _keep_clean(self, clock_jump: ClockJump) -> None:
        """
        Clean up periodically. The first run waits a minute, so that a clock that is set after the
        start is noticed.
        """
        cleaned_at = -math.inf
        while True:
            every = self.rules.every or _HOURLY
            # A minute at most, however long the interval is: a reload may shorten it.
            await asyncio.sleep(min(every, _LOOK_EVERY).total_seconds())
            is_due = self.clock.monotonic() - cleaned_at >= every.total_seconds()
            if clock_jump.holds() and is_due:
                cleaned_at = self.clock.monotonic()
                await self._seen_to(self.clean_up)

    async def _seen_to(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except StoreError as exc:
            self.observer.store_failed(exc)
        # Nobody waits for it: its bug must not end the gateway's other tasks.
        except Exception as exc:  # noqa: BLE001
            self.observer.bug(exc)

    def _pause(self) -> timedelta:
        """Return the pause: a minute, or less for shorter idle limits."""
        idle = [
            policy.idle_after for policy in self.policy.resets.all if policy.idle_after is not None
        ]
        return max(min([_LOOK_EVERY, *(each / 4 for each in idle)]), _LOOK_AT_MOST_EVERY)

    async def end_due(self) -> int:
        """
        End the sessions that are due and return how many. Reads nothing if no reset is configured.
        """
        if all(policy.is_never for policy in self.policy.resets.all):
            return 0

        ended = 0
        async for sessions in _together(self.store.due(self.policy.resets.for_kind)):
            reasons = await asyncio.gather(*map(self._end, sessions))
            ended += sum(reason is not None for reason in reasons)

        if ended:
            crashpoint("session-ended")
            self.observer.sessions_ended(ended)

        return ended

    async def _end(self, session: Session) -> EndReason | None:
        """End one session. The store checks again whether it is due: a message may have arrived."""
        opening = Opening(
            key=session.key,
            source=session.origin,
            owner=session.owner,
            policy=self.policy.resets.for_source(session.origin),
            is_busy=lambda _: self.is_busy(session),
        )

        try:
            return await self.store.end_if_due(session.id, opening)
        except UnknownSession:
            return None  # deleted since it was found

    async def clean_up(self) -> Pruned:
        """Clean up once by the configured rules."""
        return await self.clean_up_as(lambda rules: rules)

    async def clean_up_as(self, change: Callable[[CleanUpRules], CleanUpRules]) -> Pruned:
        """Clean up once by changed rules."""
        pruned = await clean_up(
            self.store, self.files, self.clock, self.observer, change(self.rules)
        )
        self.observer.swept(pruned)
        return pruned


def is_busy(pipeline: Pipeline, session: Session) -> bool:
    """
    Return whether a session has running work that its store does not know of, or an open question.
    """
    is_asked = pipeline.questions.is_asked(session.key)
    return (
        is_asked
        or pipeline.lanes.is_taken(session.key)
        or pipeline.recorder.compaction.is_at_work(session.id)
    )


async def clean_up(
    store: Store, files: SessionFiles, clock: Clock, observer: Observer, rules: CleanUpRules
) -> Pruned:
    """Run the clean-up once, for the sweep or for a command."""
    # Without a schedule sessions are neither deleted nor archived. Dedupe ids still expire, and a
    # configured `keep` still holds.
    pruned = await store.prune(
        empty_after=rules.empty_after if rules.every else _NEVER,
        archive_after=rules.archive_after if rules.every else _NEVER,
        forget_after=rules.forget_after,
        keep=rules.keep,
    )
    await sweep_files(store, files, clock, observer)

    return pruned


async def sweep_files(store: Store, files: SessionFiles, clock: Clock, observer: Observer) -> None:
    """Delete the folders of deleted or long unused sessions, and expired files of the others."""
    sessions = await files.sessions()
    if not sessions:
        return

    unsent = await store.outbox(*_UNSENT, limit=LARGEST_NUMBER)
    waiting = {part.file.path for part in unsent if part.file is not None}
    speaking = {part.session for part in unsent if part.file is not None}

    for session in sessions:
        now = clock.now()
        # One folder that cannot be deleted must not keep the others.
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


async def _together(sessions: AsyncIterator[Session]) -> AsyncIterator[list[Session]]:
    """Group the items, so that each group shares a commit."""
    some: list[Session] = []
    async for session in sessions:
        some.append(session)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some
