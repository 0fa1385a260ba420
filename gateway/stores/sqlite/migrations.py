"""
Bring a database to the schema of this version: numbered SQL files, one transaction each.

What was written by a newer version, or by something else, is refused before anything is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from importlib import resources

from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import StoreDamaged, StoreTooNew

# "TGAT": tells our files from any other SQLite database.
APPLICATION_ID = 0x54474154


Script = tuple[int, str]


def refuse_foreign(db: sqlite3.Connection) -> None:
    """Raise unless the database is ours and not newer than we are. Only reads."""
    version = schema_of(db)
    if _pragma(db, "application_id") != APPLICATION_ID:
        raise StoreDamaged("the file is an SQLite database, but not one of Turngate's")
    newest = newest_schema()
    if version > newest:
        raise StoreTooNew(
            f"the database has schema {version}, this version of Turngate knows up to {newest}; "
            "install the version that wrote it, or restore a backup made before the upgrade"
        )


def migrate(db: sqlite3.Connection, scripts: Iterable[Script]) -> None:
    """Apply what is missing. A step that fails leaves the database as the step before left it."""
    for number, script in scripts:
        if number <= schema_of(db):
            continue
        db.execute("BEGIN IMMEDIATE")
        try:
            for statement in _statements(script):
                crashpoint("migration-statement")
                db.execute(statement)

            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {number}")
            crashpoint("migration-step")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def schema_of(db: sqlite3.Connection) -> int:
    """The number of the last script that was applied."""
    return _pragma(db, "user_version")


def newest_schema() -> int:
    """The one that this version works with."""
    return max(number for number, _ in our_scripts())


def our_scripts() -> list[Script]:
    """What this version knows, in order."""
    folder = resources.files(__package__) / "schema"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    return [(int(file.name.split("_")[0]), file.read_text(encoding="utf-8")) for file in files]


def _pragma(db: sqlite3.Connection, name: str) -> int:
    value = db.execute(f"PRAGMA {name}").fetchone()[0]
    return int(value)


def _statements(script: str) -> Iterator[str]:
    """One by one: `executescript` would commit on its own."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
