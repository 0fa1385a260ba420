"""Accounts as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta

from turngate.gateway.domain.store_values import AccountRecord
from turngate.gateway.stores.sqlite.rows import (
    Fetched,
    micros,
    moment,
)
from turngate.gateway.stores.texts import scrub

_COLUMNS = "received_at, behind, refused, refused_at"
SELECT = f"SELECT {_COLUMNS} FROM accounts WHERE name = ?"
# Catching up begins this much earlier than it must; in return, not every message has to change this
# row.
LAG = timedelta(seconds=10)


class AccountTable:
    """Remembers what it wrote last, so that most messages need not write here at all."""

    def __init__(self) -> None:
        self._noted: dict[str, datetime] = {}

    def note_message(self, db: sqlite3.Connection, name: str, now: datetime) -> None:
        """A message of that account was stored."""
        noted = self._noted.get(name)
        if noted is not None and noted <= now < noted + LAG:
            return
        db.execute(
            "INSERT INTO accounts VALUES (?, ?, NULL, 0, NULL)"
            " ON CONFLICT DO UPDATE SET received_at = excluded.received_at",
            (scrub(name), micros(now)),
        )
        self._noted[name] = now

    def forget_all(self) -> None:
        """What was noted may have been rolled back."""
        self._noted.clear()


def record_refused(db: sqlite3.Connection, name: str, now: datetime) -> AccountRecord:
    """Once more."""
    row = db.execute(
        "INSERT INTO accounts VALUES (?, NULL, NULL, 1, ?) ON CONFLICT DO UPDATE SET refused = "
        "refused + 1,"
        f" refused_at = excluded.refused_at RETURNING {_COLUMNS}",
        (scrub(name), micros(now)),
    ).fetchone()
    return account_from_row(row)


def record_welcome(db: sqlite3.Connection, name: str) -> None:
    """Start counting anew."""
    db.execute(
        "UPDATE accounts SET refused = 0, refused_at = NULL WHERE name = ? AND refused > 0",
        (scrub(name),),
    )


def record_behind(db: sqlite3.Connection, name: str, since: datetime) -> None:
    """Since when."""
    db.execute(
        "INSERT INTO accounts VALUES (?, NULL, ?, 0, NULL) ON CONFLICT DO UPDATE SET behind = "
        "excluded.behind",
        (scrub(name), micros(since)),
    )


def record_caught_up(db: sqlite3.Connection, name: str, until: datetime) -> None:
    """No longer behind."""
    db.execute(
        "INSERT INTO accounts VALUES (?, ?, NULL, 0, NULL) ON CONFLICT DO UPDATE SET behind = NULL,"
        " received_at = max(ifnull(received_at, 0), excluded.received_at)",
        (scrub(name), micros(until)),
    )


def account_from_row(row: Fetched) -> AccountRecord:
    """From the columns of SELECT."""
    received_at, behind, refused, refused_at = row
    return AccountRecord(
        received_at=None if received_at is None else moment(received_at),
        behind_since=None if behind is None else moment(behind),
        refused=refused,
        refused_at=None if refused_at is None else moment(refused_at),
    )
