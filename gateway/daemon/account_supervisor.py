"""
Supervise one account: run its adapter, restart it when it ends, and report its state.

A connection alone does not mean that messages arrive, so health is the time of the platform's last
response. An account that fails is restarted with growing pauses, which begin anew only after a
connection that lasted; the daemon is not restarted. Refused credentials are retried a few times and
then left alone, across restarts too, because platforms delete bots that insist.

Since when messages may be missing is noted by the platform's clock, in which they are dated: the
local one may have been wrong at the time.
"""

from __future__ import annotations

import asyncio
from asyncio import FIRST_EXCEPTION
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from turngate.gateway.domain.backoff import Backoff
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import (
    GapRemains,
    Refused,
    Retryable,
    StoreError,
    TurngateError,
    Unauthorized,
)
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    CatchesUp,
    Receive,
    TellsProgress,
    TellsTime,
)
from turngate.gateway.domain.ports.clock import Clock, Moment
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.error_text import reason_of
from turngate.gateway.observability.observer import Observer

MOST_REFUSALS = 3
REFUSALS_COUNT_FOR = timedelta(minutes=10)
MOST_CAUGHT_UP = 10_000

_BACKOFF = Backoff(first=1.0, longest=60.0, jitter=0.5)
_LOOKS_EVERY = 1.0
# Seconds. A platform that accepts every connection and ends it at once would otherwise be asked
# again without a pause.
_GOOD_AFTER = 45.0
# Seconds from one complete catch-up to the next: each asks for the history of every chat.
_CATCH_UP_EVERY = 60.0
# The stored time of the last message lags by seconds, and clocks differ. Messages that are read
# twice are deduped.
_OVERLAP = timedelta(minutes=2)
# How far back to read when the stored time of the last message lies in the future: the clock was
# set back since, so the real time is unknown.
_WHEN_UNSURE = timedelta(days=1)
# Seconds. An account that reconnects often would otherwise repeat the same notice each time.
_GAP_TOLD_FOR = 3600.0
# Writes that wait together share one commit; one at a time would cost an fsync per message.
_STORED_AT_ONCE = 32


class AccountState(StrEnum):
    STARTING = "starting"
    RECEIVING = "receiving"
    DEGRADED = "degraded"
    REFUSED = "refused"
    BACKING_OFF = "backing off"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReport:
    """The state of an account, the reason for it, and when its platform last responded."""

    platform: str
    account: str
    state: AccountState
    reason: str | None = None
    progress_at: datetime | None = None
    silent_for: float | None = None
    """Seconds since `progress_at`, whatever the time of day has become meanwhile."""


TellOfGap = Callable[[str, str, datetime], Awaitable[None]]


class Supervisor:
    """
    The supervisor of one account. `tell_of_gap` is called with platform, account and the time since
    which messages may be missing.
    """

    def __init__(
        self,
        adapter: Adapter,
        account: str,
        *,
        store: Store,
        clock: Clock,
        observer: Observer,
        tell_of_gap: TellOfGap,
    ) -> None:
        self._adapter = adapter
        self._account = account
        self._store = store
        self._clock = clock
        self._observer = observer
        self._tell_of_gap = tell_of_gap
        self._state = AccountState.STARTING
        self._reason: str | None = None
        self._since = clock.monotonic()
        self._gap_told: float | None = None
        self._trouble: str | None = None
        self._connected_since: float | None = None
        self._may_catch_up_at = clock.monotonic()

    @property
    def report(self) -> AccountReport:
        state = self._state
        reason = self._reason
        # No task waits for a response: RECEIVING and DEGRADED are derived here from the time of the
        # last one, so a late response heals the account without an event.
        if state is AccountState.STARTING and self._heard_of(self._since):
            state = AccountState.RECEIVING
        if state is AccountState.RECEIVING and self._is_deaf(1):
            state = AccountState.DEGRADED
            reason = "the platform has not answered for some time"

        progress = _progress_of(self._adapter)

        return AccountReport(
            platform=self._adapter.platform,
            account=self._account,
            state=state,
            reason=reason,
            progress_at=None if progress is None else progress.at,
            silent_for=None if progress is None else self._clock.monotonic() - progress.elapsed,
        )

    async def run(self, receive: Receive) -> None:
        """Run until cancelled, or until the platform has refused the credentials too often."""
        try:
            await self._live(receive)
        except StoreError as exc:
            # Only damage gets here, because these calls wait for an unavailable store. The daemon
            # stays up to report it.
            self._observer.store_failed(exc)
            self._become(AccountState.STOPPED, reason_of(exc))
        except BaseException:
            self._become(AccountState.STOPPED, None)
            raise

    async def _live(self, receive: Receive) -> None:
        name = (self._adapter.platform, self._account)
        attempt = 0

        while not await self._is_refused():
            began = self._clock.monotonic()
            failure = await self._try(receive)
            # Before `_become`: a failure after a response is a new problem and is logged again.
            if self._heard_of(began):
                self._trouble = None
            self._become(AccountState.BACKING_OFF, reason_of(failure))
            # Before a refusal is counted: a response in between restarts the count.
            if self._heard_of(began):
                await self._store.record_welcome(*name)
            if self._has_lasted():
                attempt = 0
            if isinstance(failure, Unauthorized):
                await self._store.record_refused(*name)
            await asyncio.sleep(_BACKOFF.pause(attempt))
            self._observer.account_restarted()
            attempt += 1

    async def _try(self, receive: Receive) -> BaseException:
        """Run the adapter once; return what ended it."""
        self._connected_since = None
        self._become(AccountState.STARTING, None)
        try:
            await self._catch_up_and_listen(receive)
        except TurngateError as exc:
            return exc
        # The account supervisor: one account's bug ends no other account.
        except Exception as exc:  # noqa: BLE001
            self._observer.bug(exc)
            return exc
        return Retryable("the connection ended")

    async def _catch_up_and_listen(self, receive: Receive) -> None:
        """
        Backfill what was missed, then listen. Once the platform confirms that events arrive,
        backfill what was sent between the two.

        A connection that breaks soon after a catch-up is not preceded by another one: the next is
        made while it listens, when it is due.
        """
        adapter = self._adapter
        if not isinstance(adapter, CatchesUp):
            return await self._listen(receive)

        # Taken before the first backfill, so that the second one covers its duration.
        began = await self._platform_time()
        since = await self._behind_since(began)
        due = self._may_catch_up_at
        is_due = self._clock.monotonic() >= due
        if since is not None and is_due:
            await self._read_again(adapter, receive, since)

        async def heard() -> None:
            await asyncio.sleep(max(0.0, due - self._clock.monotonic()))
            if since is not None:
                await self._read_again(adapter, receive, began if is_due else since)
            # Only after both: a crash before this line repeats the backfill from its beginning.
            await self._store.record_caught_up(adapter.platform, self._account, began)

        return await self._listen(receive, heard)

    async def _listen(
        self, receive: Receive, heard: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """
        Run the adapter, and end it when the platform stops responding without an error. `heard` is
        run beside it once events arrive.
        """
        began = self._clock.monotonic()
        tasks = [asyncio.ensure_future(self._adapter.run(receive))]

        try:
            while not any(map(_has_ended_it, enumerate(tasks))):
                await asyncio.wait(tasks, timeout=_LOOKS_EVERY, return_when=FIRST_EXCEPTION)
                if self._connected_since is None and not tasks[0].done() and self._hears(began):
                    self._connected_since = self._clock.monotonic()
                    tasks += [asyncio.ensure_future(heard())] if heard is not None else []
                # `report` says DEGRADED after one interval; the restart follows after two.
                if self._is_deaf(2):
                    raise Retryable("the platform has not answered for too long")
            # An adapter may cancel its own task. `result` would raise that as if this supervisor
            # were being stopped, and the account would never be restarted.
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            # Two connections of one bot answer everything twice: this one must have ended before
            # the next attempt.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _platform_time(self) -> datetime:
        """Return the platform's time of day, or ours if the adapter does not know it."""
        adapter: object = self._adapter
        return (
            await adapter.platform_time() if isinstance(adapter, TellsTime) else self._clock.now()
        )

    async def _behind_since(self, now: datetime) -> datetime | None:
        """
        Return since when messages may have been missed. The very first start has nothing to
        backfill.
        """
        name = (self._adapter.platform, self._account)
        record = await self._store.account(*name)
        since = record.behind_since or record.received_at

        if since is not None and since > now:
            since = now - _WHEN_UNSURE

        if record.behind_since is None or since != record.behind_since:
            # Backfilled messages move `received_at`, so a backfill that is interrupted needs this
            # record to restart where it began. On the first start it marks the time from which a
            # restart has to backfill.
            await self._store.record_behind(*name, since or now)

        return since

    async def _read_again(self, adapter: CatchesUp, receive: Receive, since: datetime) -> None:
        """Backfill the messages that were sent while the account was offline."""
        count = 0
        try:
            async with _Several(receive) as several:
                async for message in adapter.catch_up(since - _OVERLAP):
                    count += 1
                    if count > MOST_CAUGHT_UP:
                        raise GapRemains("more was said than can be read again")
                    await several.take(message)
        except GapRemains as exc:
            # What could be read is stored by now, and the account goes on to listen. Every gap is
            # logged; conversations are told once in a while.
            self._observer.account_changed(
                self._adapter.platform, self._account, self._state.value, reason_of(exc)
            )
            now = self._clock.monotonic()
            if self._gap_told is None or now - self._gap_told > _GAP_TOLD_FOR:
                await self._tell_of_gap(self._adapter.platform, self._account, since)
                self._gap_told = now
        self._may_catch_up_at = self._clock.monotonic() + _CATCH_UP_EVERY

    async def _is_refused(self) -> bool:
        """
        Return whether to stop trying. Checked before each attempt: the count survives restarts, and
        expires, also when the clock was set back.
        """
        record = await self._store.account(self._adapter.platform, self._account)
        if record.refused < MOST_REFUSALS or record.refused_at is None:
            return False

        now = self._clock.now()
        until = record.refused_at + REFUSALS_COUNT_FOR
        # A time in the future was written before the clock was set back: nothing waits for it.
        if not record.refused_at <= now <= until:
            return False

        cure = f"correct them in the config and restart, not before {until:%H:%M} UTC"
        reason = f"the platform refuses our credentials; {cure}"
        self._become(AccountState.REFUSED, reason)

        return True

    def _become(self, state: AccountState, reason: str | None) -> None:
        if state is not AccountState.STOPPED or self._state is not AccountState.REFUSED:
            self._state = state
        self._reason = reason
        self._since = self._clock.monotonic()
        if self._is_news(state, reason):
            self._observer.account_changed(
                self._adapter.platform, self._account, state.value, reason
            )

    def _is_news(self, state: AccountState, reason: str | None) -> bool:
        """
        Return whether to log a problem. One that persists is logged once, until the platform has
        responded again.
        """
        if state is AccountState.STARTING:
            return self._trouble is None
        is_new = reason is None or reason != self._trouble
        self._trouble = reason
        return is_new

    def _hears(self, since: float) -> bool:
        """
        Return whether the platform has responded since then. An adapter that cannot report it is
        trusted.
        """
        adapter: object = self._adapter
        return not isinstance(adapter, TellsProgress) or self._heard_of(since)

    def _heard_of(self, since: float) -> bool:
        progress = _progress_of(self._adapter)
        return progress is not None and progress.elapsed >= since

    def _has_lasted(self) -> bool:
        """Return whether the connection that ended was of use for some time."""
        if self._connected_since is None:
            return False
        progress = _progress_of(self._adapter)
        last = self._clock.monotonic() if progress is None else progress.elapsed
        return last - self._connected_since >= _GOOD_AFTER

    def _is_deaf(self, times: int) -> bool:
        """Return whether the platform has been silent for several times its normal interval."""
        adapter: object = self._adapter
        if not isinstance(adapter, TellsProgress):
            return False
        # A new attempt gets a full interval: the silence before it does not count.
        last = (
            self._since if adapter.progress is None else max(adapter.progress.elapsed, self._since)
        )
        return self._clock.monotonic() - last > times * adapter.stale_after.total_seconds()


class _Several:
    """
    Concurrent storing of messages, because each waits for the disk. They start in order of arrival,
    and `receive` gives each its place in the lane before its first await. Leaving the block waits
    for all of them.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._storing: deque[asyncio.Task[None]] = deque()

    async def __aenter__(self) -> _Several:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            # Also after GapRemains: an error here replaces it, so a message that was not stored
            # makes the whole backfill fail and repeat.
            while self._storing and kind is not asyncio.CancelledError:
                await self._storing.popleft()
        finally:
            for each in self._storing:
                each.cancel()
            await asyncio.gather(*self._storing, return_exceptions=True)

    async def take(self, message: InboundMessage) -> None:
        """Start storing a message. Raises what an earlier one raised."""
        self._storing.append(asyncio.create_task(self._store(message)))
        if len(self._storing) > _STORED_AT_ONCE:
            await self._storing.popleft()

    async def _store(self, message: InboundMessage) -> None:
        # A refused message will never be accepted; it must not keep the account from listening.
        with suppress(Refused):
            await self._receive(message)
        crashpoint("catching-up")


def _has_ended_it(task: tuple[int, asyncio.Future[None]]) -> bool:
    """
    Return whether a task of an account ends its connection: the first, which listens, in any case,
    and others by failing.
    """
    number, working = task
    return working.done() and (
        number == 0 or working.cancelled() or working.exception() is not None
    )


def _progress_of(adapter: object) -> Moment | None:
    return adapter.progress if isinstance(adapter, TellsProgress) else None
