"""
Bring a database to the schema of this version: numbered SQL files, one transaction each.

A database of a newer version or another program is refused before anything is changed.
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
    """Raise StoreDamaged or StoreTooNew unless the database is ours and not newer. Only reads."""
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
    """Apply the missing scripts, each in one transaction."""
    for number, script in scripts:
        if number <= schema_of(db):
            continue
        db.execute("BEGIN IMMEDIATE")
        try:
            for statement in _statements(script):
                crashpoint("migration-statement")
                db.execute(statement)

            # Both are in the file header and part of the transaction: a crash leaves the old number
            # with the old schema.
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {number}")
            crashpoint("migration-step")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def schema_of(db: sqlite3.Connection) -> int:
    """Return the number of the last applied script."""
    return _pragma(db, "user_version")


def newest_schema() -> int:
    """Return the schema number of this version."""
    return max(number for number, _ in our_scripts())


def our_scripts() -> list[Script]:
    """Return the scripts of this version, in order."""
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
    """Yield the statements of a script."""
    # `executescript` would commit the open transaction first.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
