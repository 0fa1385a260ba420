"""`status`: the daemon, its accounts and lanes, and work that is waiting or dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from turngate.gateway.daemon.control.requests import (
    Args,
    Line,
    Requests,
)
from turngate.gateway.domain.errors import StoreDamaged, StoreError
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.store_values import Depth

_LONGEST_COUNT = 2.0
"""Seconds. On a disk that hangs, an answer without the numbers is better than none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """The state of one account, and the reason for it."""

    platform: str
    account: str
    state: str
    reason: str | None = None
    last_progress_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """The newest scheduled backup, and why none was made after it, if one was due."""

    folder: str
    last_at: datetime | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """
    The reason why nothing can be written, whether the database is damaged, the size of its log in
    bytes, and since when no checkpoint came through.
    """

    reason: str | None = None
    damaged: bool = False
    log_bytes: int | None = None
    no_checkpoint_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """The state that only a running daemon knows. The defaults hold when none runs."""

    ready: bool = False
    since: datetime | None = None
    pid: int | None = None
    accounts: tuple[AccountStatus, ...] = ()
    lanes_busy: int = 0
    lanes_waiting: int = 0
    store: StoreStatus = StoreStatus()
    backup: BackupStatus | None = None


async def no_daemon() -> DaemonStatus:
    """Return the status without a daemon."""
    return DaemonStatus()


def status_requests(
    store: Store, daemon: Callable[[], Awaitable[DaemonStatus]] = no_daemon
) -> Requests:
    """Return the verb by name. `daemon` is called for each request."""

    async def status(args: Args, line: Line) -> Json:
        depth, trouble = await _depth(store)
        found = await daemon()
        # The reason of the daemon's write probe; without a daemon only the failed count has one.
        return status_json(found, depth, found.store if found.store.reason is not None else trouble)

    return {"status": status}


async def _depth(store: Store) -> tuple[Depth | None, StoreStatus]:
    """Return the amount of work; None and the reason if it cannot be counted."""
    try:
        async with asyncio.timeout(_LONGEST_COUNT):
            return await store.depth(), StoreStatus()
    except TimeoutError:
        return None, StoreStatus(reason="the database does not answer; the disk may hang")
    except StoreError as exc:
        return None, StoreStatus(reason=str(exc), damaged=isinstance(exc, StoreDamaged))


def status_json(daemon: DaemonStatus, depth: Depth | None, store: StoreStatus) -> dict[str, Json]:
    """
    Return the status as `--json` prints it. The names are part of the contract; unknown numbers are
    null.
    """
    return {
        "ready": daemon.ready and store.reason is None,
        "since": _moment(daemon.since),
        "pid": daemon.pid,
        "accounts": [_account_json(account) for account in daemon.accounts],
        "lanes": {"busy": daemon.lanes_busy, "waiting": daemon.lanes_waiting},
        "inbox": _work_json(depth.inbox_waiting, depth.inbox_dead) if depth else _work_json(),
        "outbox": _work_json(depth.outbox_waiting, depth.outbox_dead) if depth else _work_json(),
        "store": {
            "ok": store.reason is None,
            "reason": store.reason,
            "damaged_rows": depth.damaged_rows if depth else None,
            "log_bytes": store.log_bytes,
            "no_checkpoint_since": _moment(store.no_checkpoint_since),
        },
        "backup": None if daemon.backup is None else _backup_json(daemon.backup),
    }


def _work_json(waiting: int | None = None, dead: int | None = None) -> dict[str, Json]:
    return {"waiting": waiting, "dead": dead}


def _account_json(account: AccountStatus) -> dict[str, Json]:
    return {
        "platform": account.platform,
        "account": account.account,
        "state": account.state,
        "reason": account.reason,
        "last_progress_at": _moment(account.last_progress_at),
    }


def _backup_json(backup: BackupStatus) -> dict[str, Json]:
    return {"folder": backup.folder, "last_at": _moment(backup.last_at), "reason": backup.failure}


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
