"""
Replace the database by a backup, so that a kill at any step leaves the old one or the new one.

The copy is verified and prepared under a temporary name. Renaming it to `turngate.db.restored-TIME`
decides: from then on the next process that opens the database finishes the exchange, in steps that
can be repeated. The log of the old file must never be beside the new one: SQLite would apply it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import Refused, StoreDamaged
from turngate.gateway.stores.sqlite.copy import (
    Tell,
    as_ours,
    copy_database,
    draft_of,
    give_to_owner_of,
    nobody,
    put_in_place,
    sync_folder,
)
from turngate.gateway.stores.sqlite.migrations import (
    migrate,
    newest_schema,
    our_scripts,
)
from turngate.gateway.stores.sqlite.post_restore import let_rest
from turngate.gateway.stores.sqlite.verify import Contents, verify

_READY = ".restored-"
_ASIDE = ".replaced-"
_LOGS = ("-wal", "-journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was restored, and the path of the replaced database."""

    contents: Contents
    aside: Path | None


def restore(
    file: Path, database: Path, now: datetime, *, moved: bool = False, tell: Tell = nobody
) -> Restored:
    """
    Restore a backup. The caller holds the state folder's lock.

    `moved`: nothing has run since the backup was made. Otherwise its open work may have been
    answered since, and becomes dead letters until an operator requeues it.
    """
    finish_restore(database)
    _refuse_unfit(file, database)
    stamp = f"{now:%Y%m%dT%H%M%S%fZ}"
    with as_ours(database.parent), draft_of(database) as draft:
        # is_alone ignores a log, so it is only for a backup that has none beside it.
        copy_database(file, draft, tell, is_alone=not file.with_name(file.name + "-wal").exists())
        crashpoint("restore-copied")
        contents = _prepared(draft, file, tell)
        if not moved:
            let_rest(draft, database, now)
        give_to_owner_of(database.parent, draft)
        ready = database.with_name(f"{database.name}{_READY}{stamp}")
        put_in_place(draft, ready)

    crashpoint("restore-ready")
    had_one = database.exists()
    finish_restore(database)
    return Restored(contents=contents, aside=_aside(database, stamp) if had_one else None)


def finish_restore(database: Path) -> None:
    """
    Finish a decided restore. The caller holds the state folder's lock and has nothing open.
    """
    for ready in sorted(database.parent.glob(f"{database.name}{_READY}*")):
        with as_ours(database.parent):
            _exchange(database, ready, ready.name.rpartition(_READY)[2])


def _exchange(database: Path, ready: Path, stamp: str) -> None:
    aside = _aside(database, stamp)
    if database.exists():
        database.rename(aside)
        crashpoint("restore-set-aside")

    # The old log goes with the old database, which may be incomplete without it.
    for suffix in _LOGS:
        log = database.with_name(database.name + suffix)
        if log.exists() and log.stat().st_size:
            log.rename(aside.with_name(aside.name + suffix))

    for suffix in (*_LOGS, "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)

    # The removal must be on disk before the new file gets the name, or a power cut could bring the
    # old log back beside it.
    sync_folder(database.parent)
    crashpoint("restore-cleared")
    put_in_place(ready, database)
    crashpoint("restored")


def _prepared(draft: Path, file: Path, tell: Tell) -> Contents:
    """Verify the draft and migrate it: rows of an older schema can be checked only then."""
    try:
        contents = verify(draft, tell)
        if contents.schema == newest_schema():
            return contents

        with as_ours(draft.parent), closing(sqlite3.connect(draft, isolation_level=None)) as db:
            # Not WAL: the draft is renamed alone, so it must not have a log beside it.
            db.execute("PRAGMA journal_mode = DELETE")
            migrate(db, our_scripts())

        return verify(draft, tell)
    except StoreDamaged as exc:
        raise StoreDamaged(
            f"{file} cannot be restored: {exc}. Nothing was changed; try an older backup"
        ) from exc


def _refuse_unfit(file: Path, database: Path) -> None:
    if not file.is_file():
        raise Refused(
            f"there is no file {file}; name a backup that `turngate backup` or the schedule made"
        )
    if database.exists() and file.samefile(database):
        raise Refused(f"{file} is the database itself; name a backup")


def _aside(database: Path, stamp: str) -> Path:
    return database.with_name(f"{database.name}{_ASIDE}{stamp}")
