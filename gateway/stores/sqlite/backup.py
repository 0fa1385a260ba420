"""Write a verified copy of the live database: complete under its name, or not there at all."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from turngate.gateway.domain.errors import (
    Refused,
    StoreDamaged,
    StoreUnavailable,
)
from turngate.gateway.stores.sqlite.copy import (
    Tell,
    as_ours,
    copy_database,
    draft_of,
    nobody,
    put_in_place,
)
from turngate.gateway.stores.sqlite.verify import (
    Contents,
    check_structure,
    verify,
)

# Seconds of pause between two pieces: without it the backup's thread would compete with the event
# loop for the interpreter lock.
_LET_OTHERS = 0.002


def back_up(database: Path, target: Path, tell: Tell = nobody) -> Contents:
    """
    Back up the database, replacing an existing target. It contains no keys, config or files.
    """
    with as_ours(target.parent), draft_of(target) as draft:
        _refuse_missing(database)
        copy_database(database, draft, tell)
        try:
            contents = verify(draft, tell)
        except StoreDamaged as exc:
            raise StoreDamaged(
                f"the copy is not sound ({exc}), so it was removed; the database {database} "
                "itself may be damaged:"
                " keep your earlier backups, make another one now, and if that fails too, "
                "restore the newest of them"
            ) from exc

        put_in_place(draft, target)

    return contents


async def back_up_alongside(database: Path, target: Path) -> None:
    """Back up on a worker thread, with pauses. Stops when the caller is cancelled."""
    is_over = threading.Event()

    def tell(what: str, done: int, whole: int) -> None:
        if is_over.is_set():
            raise StoreUnavailable("the backup was broken off")
        time.sleep(_LET_OTHERS)

    working = asyncio.ensure_future(asyncio.to_thread(back_up, database, target, tell))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        # A thread cannot be cancelled: it stops at its next progress call and removes its draft.
        is_over.set()
        await asyncio.wait({working})
        working.exception()  # retrieved, or asyncio logs it as never retrieved
        raise


def keep_copy(database: Path, target: Path) -> None:
    """Copy the database before a migration. Its rows are not checked."""
    with as_ours(target.parent), draft_of(target) as draft:
        copy_database(database, draft)
        check_structure(draft)
        put_in_place(draft, target)


def _refuse_missing(database: Path) -> None:
    if not database.exists():
        raise Refused(f"there is no database at {database}; is this the right --state-dir?")
