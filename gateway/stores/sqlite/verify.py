"""
Verify that a database file is ours, complete and unchanged.

SQLite finds a torn page but not a flipped byte, so every row that has a checksum is read and
compared. No other process has the file open: it is a draft or a copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from turngate.gateway.domain.errors import RowDamaged, StoreDamaged
from turngate.gateway.stores.sqlite.copy import (
    Tell,
    as_ours,
    nobody,
    reading,
)
from turngate.gateway.stores.sqlite.migrations import (
    newest_schema,
    refuse_foreign,
    schema_of,
)
from turngate.gateway.stores.sqlite.rows import (
    ENTRY_COLUMNS,
    SESSION_COLUMNS,
    checksum,
    damaged,
    moment,
)

_ROWS = 128
_INSTRUCTIONS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The key of a table, the columns under its checksum, and the rows for which it is valid."""

    table: str
    key: str
    columns: str
    where: str = "1"


# Settled rows have lost their text, so their checksum no longer applies.
CHECKED = (
    Checked(table="sessions", key="id", columns=SESSION_COLUMNS),
    Checked(table="entries", key="seq", columns=ENTRY_COLUMNS),
    Checked(table="inbox", key="n", columns="key, message", where="settled_at IS NULL"),
    Checked(table="turns", key="n", columns="session, first_seq, last_seq"),
    Checked(
        table="outbox",
        key="n",
        columns="ordinal, target, text, reply_to, edits, more",
        where="settled_at IS NULL",
    ),
    Checked(table="questions", key="part", columns="body"),
    Checked(
        table="people",
        key="platform || '/' || account || '/' || id",
        columns="platform, account, id, at, by",
    ),
    Checked(table="pairings", key="digest", columns="digest, platform, account, person, target"),
)
# States are not under the checksums, because they change often; so they are compared with these.
_STATES = {
    "inbox": "'waiting', 'running', 'done', 'refused', 'failed', 'dead'",
    "outbox": "'pending', 'sending', 'sent', 'failed', 'dead'",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """
    What a verified file contains. `rows_checked` is False for an older schema, whose rows can be
    checked only after migration.
    """

    schema: int
    size: int
    sessions: int
    entries: int
    open_work: int
    newest: datetime | None
    rows_checked: bool


def verify(path: Path, tell: Tell = nobody) -> Contents:
    """Check structure and rows. Raises StoreDamaged or StoreTooNew; changes nothing."""
    with as_ours(path.parent), closing(reading(path, is_alone=True)) as db:
        refuse_foreign(db)
        _check_structure(db, tell)
        schema = schema_of(db)
        if schema == newest_schema():
            _refuse_damaged_rows(db, tell)
        return _contents(db, path, schema)


def check_structure(path: Path, tell: Tell = nobody) -> None:
    """Check the structure only, not the rows."""
    with as_ours(path.parent), closing(reading(path, is_alone=True)) as db:
        _check_structure(db, tell)


def _check_structure(db: sqlite3.Connection, tell: Tell) -> None:
    broken_off: list[BaseException] = []

    def between() -> int:
        """Report progress; a result other than 0 interrupts the query."""
        # sqlite3 discards exceptions of a progress handler, so they are kept and raised below.
        try:
            tell("checking the structure", 0, 0)
        except BaseException as exc:  # noqa: BLE001 - it is raised again below
            broken_off.append(exc)
        return len(broken_off)

    db.set_progress_handler(between, _INSTRUCTIONS)
    try:
        found = db.execute("PRAGMA integrity_check(3)").fetchall()
    except sqlite3.OperationalError:
        if broken_off:
            raise broken_off[0] from None
        raise
    finally:
        db.set_progress_handler(None, 0)

    if found != [("ok",)]:
        raise StoreDamaged(f"SQLite finds it damaged ({found[0][0]})")


def _refuse_damaged_rows(db: sqlite3.Connection, tell: Tell) -> None:
    # What the database had set aside itself is no damage of this file.
    known = set(db.execute("SELECT place, row FROM damaged"))
    for found in damaged_rows(db, tell):
        if (found.place, found.key) not in known:
            raise StoreDamaged(str(found))


def damaged_rows(db: sqlite3.Connection, tell: Tell = nobody) -> Iterator[RowDamaged]:
    """Yield every row that is not what was written, also those that are set aside."""
    whole = sum(
        db.execute(f"SELECT count(*) FROM {each.table} WHERE {each.where}").fetchone()[0]
        for each in CHECKED
    )
    done = 0
    for each in CHECKED:
        query = f"SELECT {each.key}, {each.columns}, checksum FROM {each.table} WHERE {each.where}"
        for rows in _batches(db, query):
            for key, *values, written in rows:
                if checksum(values) != written:
                    yield damaged(each.table, str(key))
            done += len(rows)
            tell("checking every row", done, whole)

    for table, states in _STATES.items():
        for (key,) in db.execute(f"SELECT n FROM {table} WHERE state NOT IN ({states})"):
            yield damaged(table, key)


def _batches(db: sqlite3.Connection, query: str) -> Iterator[list[tuple[str | int | None, ...]]]:
    cursor = db.execute(query)
    while rows := cursor.fetchmany(_ROWS):
        yield rows


def _contents(db: sqlite3.Connection, path: Path, schema: int) -> Contents:
    def number(query: str) -> int:
        return int(db.execute(query).fetchone()[0] or 0)

    newest = number("SELECT max(updated_at) FROM sessions")
    waiting = number("SELECT count(*) FROM inbox WHERE state IN ('waiting', 'running')")
    unsent = number("SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'failed')")
    return Contents(
        schema=schema,
        size=path.stat().st_size,
        sessions=number("SELECT count(*) FROM sessions WHERE end_reason IS NOT 'deleted'"),
        entries=number("SELECT count(*) FROM entries"),
        open_work=waiting + unsent,
        newest=moment(newest) if newest else None,
        rows_checked=schema == newest_schema(),
    )
