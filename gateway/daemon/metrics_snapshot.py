"""
Collect the gauges of the current moment when metrics are scraped.

A scrape is answered whatever the store does: a value that is not known within a second is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from turngate.gateway.daemon.account_supervisor import AccountReport, AccountState
from turngate.gateway.daemon.health import Health
from turngate.gateway.domain.errors import StoreError
from turngate.gateway.observability.metrics import AccountGauges, Now

TIMEOUT = timedelta(seconds=1)

_STATES = tuple(state.value for state in AccountState)


def nothing_lost() -> int:
    """Report no dropped log lines: the default until a log writer is attached."""
    return 0


@dataclass(slots=True, kw_only=True)
class MetricsSnapshot:
    """The metrics on request. `lines_lost` returns the number of dropped log lines."""

    health: Health
    lines_lost: Callable[[], int] = nothing_lost

    async def text(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        health = self.health
        busy, waiting = health.lanes.depth()
        now = Now(
            busy=busy,
            waiting=waiting,
            tasks=len(asyncio.all_tasks()),
            sessions_in_memory=health.store.kept_in_memory,
            store_ok=await health.store_takes_writes(),
            log_lines_lost=self.lines_lost(),
            accounts=[_gauges(each.report) for each in health.supervisors],
            queues=await self._queues(),
        )

        return health.observer.metrics.text(now)

    async def _queues(self) -> Mapping[str, tuple[int, int, float]] | None:
        try:
            async with asyncio.timeout(TIMEOUT.total_seconds()):
                depth = await self.health.store.depth()
        except (StoreError, TimeoutError):
            return None
        now = self.health.clock.now()
        return {
            "inbox": (depth.inbox_waiting, depth.inbox_dead, _age(depth.inbox_oldest, now)),
            "outbox": (depth.outbox_waiting, depth.outbox_dead, _age(depth.outbox_oldest, now)),
        }


def _gauges(report: AccountReport) -> AccountGauges:
    return AccountGauges(
        platform=report.platform,
        account=report.account,
        state=report.state.value,
        states=_STATES,
        age=report.silent_for,
    )


def _age(since: datetime | None, now: datetime) -> float:
    """Return the age in seconds; 0 if there is no item."""
    # A time in the future was written before the clock was set back.
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)
