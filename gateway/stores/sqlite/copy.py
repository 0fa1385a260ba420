"""
One database file copied page by page, while its owner goes on writing.

The copy is read through a connection that can neither write nor checkpoint, inside one read
transaction: so it shows one moment, and no commit of others makes it begin anew. The log cannot
shrink meanwhile, so the copy is quick about it; and each piece is on the disk before the next, or
one large flush at the end would hold up everybody's commits.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from turngate.gateway.domain.errors import Refused, StoreUnavailable
from turngate.gateway.stores.sqlite.errors import FOREIGN_ERRORS, as_our_error

_PAGES = 1024
_PATIENCE = 5.0

Tell = Callable[[str, int, int], None]
"""
Told what is being done, how much of it is done and how much there is; it may raise to break it off.
"""


def nobody(what: str, done: int, whole: int) -> None:
    """For those who need not know how far it is."""


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """
    An empty file beside the target, for one process alone and the owner's eyes only; gone
    afterwards.
    """
    draft = target.with_name(target.name + ".part")
    with as_ours(target.parent):
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    try:
        if not _is_ours(descriptor, draft):
            raise Refused(f"{target} is being written by another process; wait until it is done")

        # What was broken off before may have left something.
        _remove_logs(draft)
        os.ftruncate(descriptor, 0)
        os.fchmod(descriptor, 0o600)
        try:
            yield draft
        finally:
            draft.unlink(missing_ok=True)
            _remove_logs(draft)
    finally:
        os.close(descriptor)


def copy_database(
    source: Path, draft: Path, tell: Tell = nobody, *, is_alone: bool = False
) -> None:
    """
    All of it as of one moment, into a file that is there and empty, and on the disk when this
    returns.
    """
    descriptor = os.open(draft, os.O_RDWR | os.O_CLOEXEC)

    def step(status: int, remaining: int, whole: int) -> None:
        os.fdatasync(descriptor)
        tell("copying", whole - remaining, whole)

    try:
        with (
            as_ours(draft.parent),
            closing(reading(source, is_alone=is_alone)) as db,
            closing(_copy_at(draft)) as copy,
        ):
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.backup(copy, pages=_PAGES, progress=step)
        with as_ours(draft.parent):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reading(path: Path, *, is_alone: bool = False) -> sqlite3.Connection:
    """
    A connection that cannot write. `is_alone`: nobody else can, so that no lock and no log is
    needed.
    """
    alone = "&immutable=1" if is_alone else ""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{alone}",
        uri=True,
        isolation_level=None,
        timeout=_PATIENCE,
    )
    # A byte that makes a text illegal is seen by the checksum of its row; refused here, it would
    # hide which.
    db.text_factory = lambda written: written.decode("utf-8", "replace")

    return db


def keep_a_descriptor(source: Path) -> None:
    """
    For all later copies by a process that has the database open itself.

    SQLite cannot close a file while its process holds locks on it (the locks would go), so it keeps
    the descriptor of the first copy for the next. Had from the start, a daemon's open files are as
    many before a backup as after.
    """
    with as_ours(source.parent):
        reading(source).close()


def put_in_place(draft: Path, target: Path) -> None:
    """Under its name, and on the disk under it."""
    with as_ours(target.parent):
        draft.replace(target)
        sync_folder(target.parent)


def give_to_owner_of(folder: Path, draft: Path) -> None:
    """What root puts into somebody's folder must be his, or his daemon cannot work with it."""
    owner = folder.stat()
    if os.geteuid() == 0:
        os.chown(draft, owner.st_uid, owner.st_gid)


def sync_folder(folder: Path) -> None:
    """What was renamed stays renamed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def as_ours(folder: Path) -> Iterator[None]:
    """
    What the system and SQLite say, as the reaction it earns. Room and permissions are those of the
    folder.
    """
    try:
        yield
    except FOREIGN_ERRORS as exc:
        raise _without_room(folder, exc) or as_our_error(exc) from exc


def _without_room(folder: Path, exc: BaseException) -> StoreUnavailable | None:
    name = getattr(exc, "sqlite_errorname", "") or ""
    number = getattr(exc, "errno", None)
    if name == "SQLITE_FULL" or number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreUnavailable(
            f"there is no room for a copy in {folder}; free some space there, then try again"
        )

    if name.startswith("SQLITE_IOERR_WRITE"):
        return StoreUnavailable(
            f"a copy cannot be written in {folder} (is there a limit on file sizes?)"
        )

    if isinstance(exc, OSError):
        return StoreUnavailable(
            f"{folder} does not take a copy ({exc.strerror}); check its owner and permissions"
        )

    return None


def _is_ours(descriptor: int, draft: Path) -> bool:
    """
    Whoever had it until now may have finished in between: then it is a backup, and has another
    name.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), draft.lstat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _remove_logs(draft: Path) -> None:
    for suffix in ("-journal", "-wal", "-shm"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _copy_at(draft: Path) -> sqlite3.Connection:
    copy = sqlite3.connect(draft, isolation_level=None)
    # Nobody else knows the draft, and one that breaks off is thrown away.
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
        copy.execute(f"PRAGMA {pragma}")
    return copy
