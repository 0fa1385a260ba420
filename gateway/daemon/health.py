"""Report the health of the gateway (receiving, storing) to probes, users and dashboards."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from turngate.gateway.daemon.account_supervisor import (
    AccountReport,
    AccountState,
    Supervisor,
)
from turngate.gateway.daemon.backups import Backups
from turngate.gateway.daemon.control.status import (
    AccountStatus,
    BackupStatus,
    DaemonStatus,
    StoreStatus,
)
from turngate.gateway.domain.errors import StoreError, StoreUnavailable
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.observability.observer import Observer
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.turns.lanes import Lanes
from turngate.gateway.web import Readiness

# Seconds for which the result of a probe is reused.
_PROBE_HOLDS = 1.0
# Seconds. A write can wait long for a disk that hangs or a lock that is held; the response to a
# health check does not, and says so.
_LONGEST_WAIT = 1.0


@dataclass(slots=True, kw_only=True)
class Health:
    """The state of accounts and store, read on request. Only the last write probe is kept."""

    store: SqliteStore
    lanes: Lanes
    backups: Backups
    observer: Observer
    clock: Clock
    since: datetime
    supervisors: list[Supervisor] = field(default_factory=list)
    _probing: asyncio.Future[None] | None = None
    _probed_at: float = 0.0

    async def readiness(self) -> Readiness:
        """Return whether every account receives and the store accepts writes."""
        await self._ask_store()
        return self._readiness()

    async def status(self) -> DaemonStatus:
        """Return what only the daemon knows, with a fresh probe of the store."""
        await self._ask_store()
        return self.last_known()

    def last_known(self) -> DaemonStatus:
        """Return the same without a new probe."""
        busy, waiting = self.lanes.depth()
        return DaemonStatus(
            ready=self._readiness().ready,
            since=self.since,
            pid=os.getpid(),
            accounts=tuple(_account_status(supervisor.report) for supervisor in self.supervisors),
            lanes_busy=busy,
            lanes_waiting=waiting,
            store=self._store_status(),
            backup=self._backup_status(),
        )

    async def watch(self) -> None:
        """Log when the store stops accepting writes and when it recovers. Runs until cancelled."""
        while True:
            await asyncio.sleep(_PROBE_HOLDS)
            trouble = self.store.trouble
            if trouble is None:
                self.observer.store_works()
                continue

            self.observer.store_failed(StoreUnavailable(trouble))
            # Only a successful write clears the trouble, and without traffic there is none. Damage
            # stays.
            if self.store.damage is None:
                await self._ask_store()

    def _backup_status(self) -> BackupStatus | None:
        report = self.backups.report()
        if report is None:
            return None
        return BackupStatus(
            folder=str(report.folder), last_at=report.last_at, failure=report.failure
        )

    async def store_takes_writes(self) -> bool:
        """Return whether the store accepts writes, as far as known within a second."""
        await self._ask_store()
        return self._store_status().reason is None

    def _readiness(self) -> Readiness:
        reports = [supervisor.report for supervisor in self.supervisors]
        deaf = [report for report in reports if report.state is not AccountState.RECEIVING]
        reasons = [
            f"{each.platform}/{each.account} is {each.state}: {each.reason or 'no answer yet'}"
            for each in deaf
        ]
        store = self._store_status()

        if store.reason is not None:
            reasons.append(
                f"the store {'is damaged' if store.damaged else 'does not take writes'}: "
                f"{store.reason}"
            )

        return Readiness(ready=not reasons, reasons=tuple(reasons))

    def _store_status(self) -> StoreStatus:
        waited = self.clock.monotonic() - self._probed_at
        is_slow = self._probing is not None and not self._probing.done() and waited >= _LONGEST_WAIT
        slow = (
            f"a write has been waiting for the disk, or for another process, for {waited:.0f} s"
            if is_slow
            else None
        )
        log = self.store.log
        since = None if log.blocked_for is None else timedelta(seconds=log.blocked_for)
        return StoreStatus(
            reason=self.store.trouble or slow,
            damaged=self.store.damage is not None,
            log_bytes=log.size,
            no_checkpoint_since=None if since is None else self.clock.now() - since,
        )

    async def _ask_store(self) -> None:
        """
        Probe the store with a write without content: at most once a second for all callers, and
        with a timeout for each.
        """
        now = self.clock.monotonic()
        if self._probing is None or (
            self._probing.done() and now - self._probed_at >= _PROBE_HOLDS
        ):
            self._probing = asyncio.ensure_future(self._probe())
            self._probed_at = now

        # Unlike `wait_for`, it leaves the probe running when the caller gives up.
        await asyncio.wait({self._probing}, timeout=_LONGEST_WAIT)

    async def _probe(self) -> None:
        # The store keeps the reason in `trouble`.
        with suppress(StoreError):
            await self.store.probe()


def _account_status(report: AccountReport) -> AccountStatus:
    return AccountStatus(
        platform=report.platform,
        account=report.account,
        state=report.state.value,
        reason=report.reason,
        last_progress_at=report.progress_at,
    )
