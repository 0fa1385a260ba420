"""
Adjust a restored backup to what happened after it was made.

Work that was open then may have been answered since, and nothing is answered twice: so it becomes
dead letters, which `queue list` shows and `queue retry` requeues. Dedupe ids and accounts are taken
from the replaced database, if it is readable; otherwise no catch-up reads messages from before the
restore. New row numbers start far above those given since the backup, because messages on the
platforms may still refer to them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from turngate.gateway.stores.sqlite import turn_table
from turngate.gateway.stores.sqlite.copy import as_ours
from turngate.gateway.stores.sqlite.step_log import ADD_STEP, step_line

REASON = "restored from a backup, and may have been answered since"

_NUMBERS_AHEAD = 10_000_000


def let_rest(draft: Path, replaced: Path, now: datetime) -> None:
    """Adjust a restored database that no process has opened yet."""
    uri = f"{draft.absolute().as_uri()}?mode=rw"
    with as_ours(draft.parent), closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
        # Not WAL: the draft is renamed alone, so it must not have a log beside it.
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA synchronous = FULL")
        is_known = _attach(db, replaced)
        db.execute("BEGIN IMMEDIATE")
        _end_open_work(db, now)
        _number_ahead(db)
        if not is_known or not _remember(db):
            # As on a first start: no time from which a catch-up could read.
            db.execute("UPDATE accounts SET received_at = NULL, behind = NULL")

        db.execute("COMMIT")


def _end_open_work(db: sqlite3.Connection, now: datetime) -> None:
    for (turn,) in db.execute("SELECT n FROM turns WHERE state = 'running'").fetchall():
        turn_table.end(db, turn, "failed", "dead", REASON, now)

    db.execute(
        "UPDATE inbox SET state = 'dead', reason = ? WHERE state IN ('waiting', 'running')",
        (REASON,),
    )
    db.execute(
        f"UPDATE outbox SET state = 'dead', reason = ?, not_before = NULL, {ADD_STEP}"
        " WHERE state IN ('pending', 'sending', 'failed')",
        (REASON, step_line(now, "dead", REASON)),
    )
    db.execute("UPDATE questions SET state = 'closed' WHERE state = 'open'")


def _number_ahead(db: sqlite3.Connection) -> None:
    tables = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
    ).fetchall()
    for table in tables:
        # A table that never had a row has no line in sqlite_sequence yet.
        if not db.execute(
            "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?", (_NUMBERS_AHEAD, *table)
        ).rowcount:
            db.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (*table, _NUMBERS_AHEAD))


def _attach(db: sqlite3.Connection, replaced: Path) -> bool:
    """Attach the replaced database read-only, damaged or not; False if that fails."""
    if not replaced.exists():
        return False
    try:
        db.execute("ATTACH ? AS replaced", (f"{replaced.absolute().as_uri()}?mode=ro",))
    except sqlite3.Error:
        return False
    return True


def _remember(db: sqlite3.Connection) -> bool:
    """Copy dedupe ids and accounts from the replaced database; False if it is unreadable."""
    # Without the ids of messages that were still open there: the platform may redeliver those.
    db.execute("SAVEPOINT remembering")
    try:
        db.execute(
            "INSERT OR IGNORE INTO main.seen SELECT event, inbox, at FROM replaced.seen"
            " WHERE inbox NOT IN (SELECT n FROM replaced.inbox WHERE state IN ('waiting', "
            "'running'))"
        )
        db.execute("DELETE FROM main.accounts")
        db.execute("INSERT INTO main.accounts SELECT * FROM replaced.accounts")
    except sqlite3.Error:
        db.execute("ROLLBACK TO remembering")
        return False

    return True
