"""`status`: how the daemon is, its accounts and lanes, and the work that waits or has died."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from gateway.control.requests import Args, Line, Requests
from gateway.dicts import Json
from gateway.model import InboxState, PartState
from gateway.ports import Store

# Beyond this many nobody counts on.
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """One account on one platform: a word for its state, and why it is so."""

    platform: str
    account: str
    state: str
    reason: str | None = None
    last_progress_at: datetime | None = None


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


def status_requests(store: Store, daemon: Callable[[], DaemonStatus] = DaemonStatus) -> Requests:
    """`status` by name; `daemon` is asked each time."""

    async def status(args: Args, line: Line) -> Json:
        return await status_json(store, daemon())

    return {"status": status}


async def status_json(store: Store, daemon: DaemonStatus) -> dict[str, Json]:
    """As `--json` prints it. The names are part of the contract."""
    inbox_waiting = await store.inbox(InboxState.WAITING, limit=_MOST_COUNTED)
    inbox_dead = await store.inbox(InboxState.DEAD, limit=_MOST_COUNTED)
    outbox_waiting = await store.outbox(PartState.PENDING, PartState.SENDING, PartState.FAILED, limit=_MOST_COUNTED)
    outbox_dead = await store.outbox(PartState.DEAD, limit=_MOST_COUNTED)
    return {
        "ready": daemon.ready,
        "since": _moment(daemon.since),
        "pid": daemon.pid,
        "accounts": [_account_json(account) for account in daemon.accounts],
        "lanes": {"busy": daemon.lanes_busy, "waiting": daemon.lanes_waiting},
        "inbox": {"waiting": len(inbox_waiting), "dead": len(inbox_dead)},
        "outbox": {"waiting": len(outbox_waiting), "dead": len(outbox_dead)},
        "store": {"ok": daemon.store_damage is None, "reason": daemon.store_damage},
    }


def _account_json(account: AccountStatus) -> dict[str, Json]:
    return {
        "platform": account.platform,
        "account": account.account,
        "state": account.state,
        "reason": account.reason,
        "last_progress_at": _moment(account.last_progress_at),
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
