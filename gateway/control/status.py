"""`status`: how the daemon is, its accounts and lanes, and the work that waits or has died."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from gateway.control.requests import Args, Line, Requests
from gateway.dicts import Json
from gateway.storing import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """One account on one platform: a word for its state, and why it is so."""

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
class DaemonStatus:
    """What only a running daemon knows. The defaults are what is known when none runs."""

    ready: bool = False
    since: datetime | None = None
    pid: int | None = None
    accounts: tuple[AccountStatus, ...] = ()
    lanes_busy: int = 0
    lanes_waiting: int = 0
    store_damage: str | None = None
    backup: BackupStatus | None = None


def status_requests(store: Store, daemon: Callable[[], DaemonStatus] = DaemonStatus) -> Requests:
    """`status` by name; `daemon` is asked each time."""

    async def status(args: Args, line: Line) -> Json:
        return await status_json(store, daemon())

    return {"status": status}


async def status_json(store: Store, daemon: DaemonStatus) -> dict[str, Json]:
    """As `--json` prints it. The names are part of the contract."""
    depth = await store.depth()
    return {
        "ready": daemon.ready,
        "since": _moment(daemon.since),
        "pid": daemon.pid,
        "accounts": [_account_json(account) for account in daemon.accounts],
        "lanes": {"busy": daemon.lanes_busy, "waiting": daemon.lanes_waiting},
        "inbox": {"waiting": depth.inbox_waiting, "dead": depth.inbox_dead},
        "outbox": {"waiting": depth.outbox_waiting, "dead": depth.outbox_dead},
        "store": {"ok": daemon.store_damage is None, "reason": daemon.store_damage},
        "backup": None if daemon.backup is None else _backup_json(daemon.backup),
    }


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
