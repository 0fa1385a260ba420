"""How the gateway is: whether it receives and stores, for probes, for people and for dashboards."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gateway.control.status import AccountStatus, DaemonStatus
from gateway.errors import StoreError
from gateway.lanes import Lanes
from gateway.observe import Observer
from gateway.ports import Clock
from gateway.reasons import reason_of
from gateway.stores.sqlite import SqliteStore
from gateway.supervisor import AccountReport, AccountState, Supervisor
from gateway.web import Readiness

_PROBE_HOLDS = timedelta(seconds=1)


@dataclass(slots=True, kw_only=True)
class Health:
    """Asks those who know; keeps nothing but the store's last answer."""

    store: SqliteStore
    lanes: Lanes
    observer: Observer
    clock: Clock
    since: datetime
    supervisors: list[Supervisor] = field(default_factory=list)
    _probed: tuple[datetime, tuple[str, ...]] | None = None

    async def readiness(self) -> Readiness:
        """Whether every account receives and the store takes writes."""
        reports = [supervisor.report for supervisor in self.supervisors]
        deaf = [report for report in reports if report.state is not AccountState.RECEIVING]
        reasons = [f"{each.platform}/{each.account} is {each.state}: {each.reason or 'no answer yet'}" for each in deaf]
        reasons += await self.store_troubles()
        return Readiness(ready=not reasons, reasons=tuple(reasons))

    async def store_troubles(self) -> tuple[str, ...]:
        """Asked of the disk at most once a second, however many want to know."""
        now = self.clock.now()
        if self._probed is not None and timedelta(0) <= now - self._probed[0] < _PROBE_HOLDS:
            return self._probed[1]
        try:
            await self.store.probe()
            troubles: tuple[str, ...] = ()
        except StoreError as exc:
            troubles = (f"the store does not take writes: {reason_of(exc)}",)
        self._probed = now, troubles
        return troubles

    def status(self) -> DaemonStatus:
        """What only the daemon knows."""
        busy, waiting = self.lanes.depth()
        return DaemonStatus(
            ready=self.store.damage is None
            and all(supervisor.report.state is AccountState.RECEIVING for supervisor in self.supervisors),
            since=self.since,
            pid=os.getpid(),
            accounts=tuple(_account_status(supervisor.report) for supervisor in self.supervisors),
            lanes_busy=busy,
            lanes_waiting=waiting,
            store_damage=self.store.damage,
        )


def _account_status(report: AccountReport) -> AccountStatus:
    return AccountStatus(
        platform=report.platform,
        account=report.account,
        state=report.state.value,
        reason=report.reason,
        last_progress_at=report.progress_at,
    )
