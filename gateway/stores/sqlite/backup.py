"""A verified copy of the live database in a file of its own: whole under its name, or not there."""

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

# Between two pieces of a backup: its thread would otherwise take turns with those that answer
# people.
_LET_OTHERS = 0.002


def back_up(database: Path, target: Path, tell: Tell = nobody) -> Contents:
    """
    Takes the place of a file that is there. Nothing but the database is in it: no key, no config,
    no file.
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
    """The same, while everything goes on. Broken off when its caller is cancelled."""
    is_over = threading.Event()

    def tell(what: str, done: int, whole: int) -> None:
        if is_over.is_set():
            raise StoreUnavailable("the backup was broken off")
        time.sleep(_LET_OTHERS)

    working = asyncio.ensure_future(asyncio.to_thread(back_up, database, target, tell))
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        is_over.set()
        await asyncio.wait({working})
        working.exception()  # nobody waits for it any more
        raise


def keep_copy(database: Path, target: Path) -> None:
    """As it is, rows unread: for going back to, whatever is in it."""
    with as_ours(target.parent), draft_of(target) as draft:
        copy_database(database, draft)
        check_structure(draft)
        put_in_place(draft, target)


def _refuse_missing(database: Path) -> None:
    if not database.exists():
        raise Refused(f"there is no database at {database}; is this the right --state-dir?")
