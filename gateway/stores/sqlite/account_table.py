"""Accounts as rows, inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta

from turngate.gateway.domain.messages import InboundMessage, MessageKind
from turngate.gateway.domain.store_values import AccountRecord
from turngate.gateway.stores.sqlite.rows import (
    Fetched,
    micros,
    moment,
)
from turngate.gateway.stores.texts import scrub

_COLUMNS = "received_at, behind, refused, refused_at"
SELECT = f"SELECT {_COLUMNS} FROM accounts WHERE name = ?"
# A catch-up begins this much earlier than necessary; in return, not every message has to update
# this row.
LAG = timedelta(seconds=10)


class AccountTable:
    """Remembers the last written times, so that most messages write nothing. Writer thread only."""

    def __init__(self) -> None:
        self._noted: dict[str, datetime] = {}

    def note_message(self, db: sqlite3.Connection, name: str, message: InboundMessage) -> None:
        """
        Record that a message of this account was stored, by the time that the platform gave it.

        Only new messages have one for certain. An older one than the newest changes nothing.
        """
        if message.kind is not MessageKind.NEW:
            return
        noted = self._noted.get(name)
        if noted is not None and message.sent_at < noted + LAG:
            return
        db.execute(
            "INSERT INTO accounts VALUES (?, ?, NULL, 0, NULL)"
            " ON CONFLICT DO UPDATE SET"
            " received_at = max(ifnull(received_at, 0), excluded.received_at)",
            (scrub(name), micros(message.sent_at)),
        )
        self._noted[name] = message.sent_at

    def record_behind(self, db: sqlite3.Connection, name: str, since: datetime) -> None:
        """
        Record since when messages may have been missed. A later time of the last message is wrong:
        it was taken from a clock that was ahead.
        """
        db.execute(
            "INSERT INTO accounts VALUES (?, NULL, ?, 0, NULL) ON CONFLICT DO UPDATE SET behind = "
            "excluded.behind, received_at = min(received_at, excluded.behind)",
            (scrub(name), micros(since)),
        )
        self._noted.pop(name, None)

    def forget_all(self) -> None:
        """Clear the cache, after a rollback."""
        self._noted.clear()


def record_refused(db: sqlite3.Connection, name: str, now: datetime) -> AccountRecord:
    """Count a refusal of the account's credentials and return the record."""
    row = db.execute(
        "INSERT INTO accounts VALUES (?, NULL, NULL, 1, ?) ON CONFLICT DO UPDATE SET refused = "
        "refused + 1,"
        f" refused_at = excluded.refused_at RETURNING {_COLUMNS}",
        (scrub(name), micros(now)),
    ).fetchone()
    return account_from_row(row)


def record_welcome(db: sqlite3.Connection, name: str) -> None:
    """Reset the count of refusals."""
    db.execute(
        "UPDATE accounts SET refused = 0, refused_at = NULL WHERE name = ? AND refused > 0",
        (scrub(name),),
    )


def record_caught_up(db: sqlite3.Connection, name: str, until: datetime) -> None:
    """Record that everything until then was received."""
    # max(): a message that arrived during the catch-up may have set a later time already.
    db.execute(
        "INSERT INTO accounts VALUES (?, ?, NULL, 0, NULL) ON CONFLICT DO UPDATE SET behind = NULL,"
        " received_at = max(ifnull(received_at, 0), excluded.received_at)",
        (scrub(name), micros(until)),
    )


def account_from_row(row: Fetched) -> AccountRecord:
    """Return the record of a row of SELECT."""
    received_at, behind, refused, refused_at = row
    return AccountRecord(
        received_at=None if received_at is None else moment(received_at),
        behind_since=None if behind is None else moment(behind),
        refused=refused,
        refused_at=None if refused_at is None else moment(refused_at),
    )
