"""
Copy a database file page by page while its owner continues to write.

The copy is read through a connection that can neither write nor checkpoint, inside one read
transaction: it shows one moment, and no other commit restarts it. The log cannot shrink during the
copy, so it must be quick. Each piece is flushed before the next, because one large flush at the end
would delay all commits.
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
_BUSY_TIMEOUT = 5.0

Tell = Callable[[str, int, int], None]
"""
Told what is being done, how much of it is done and how much there is; it may raise to break it off.
"""


def nobody(what: str, done: int, whole: int) -> None:
    """Ignore the progress."""


@contextmanager
def draft_of(target: Path) -> Iterator[Path]:
    """
    Yield an empty file beside the target, locked by this process and readable by its owner only.

    It is deleted afterwards unless it was renamed.
    """
    draft = target.with_name(target.name + ".part")
    with as_ours(target.parent):
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    try:
        if not _is_ours(descriptor, draft):
            raise Refused(f"{target} is being written by another process; wait until it is done")

        # An interrupted copy may have left its journal, which SQLite would apply to this file.
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
    """Copy the database as of one moment into an existing empty file, and flush it."""
    # The copy's connection has synchronous = OFF: this descriptor does all flushing.
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
            # BEGIN alone takes no snapshot; the first read does.
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.backup(copy, pages=_PAGES, progress=step)
        with as_ours(draft.parent):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def text_of(written: bytes) -> str:
    """Decode a text. Invalid UTF-8 is found by the checksum of its row, which tells which it is."""
    return written.decode("utf-8", "replace")


def reading(path: Path, *, is_alone: bool = False) -> sqlite3.Connection:
    """
    Open a read-only connection. `is_alone`: no other process writes, so no lock and log are needed.
    """
    alone = "&immutable=1" if is_alone else ""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{alone}",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_TIMEOUT,
    )
    db.text_factory = text_of

    return db


def keep_a_descriptor(source: Path) -> None:
    """
    Make SQLite open the descriptor now that later copies by this process will use.

    SQLite cannot close a file while its process holds locks on it (they would be dropped), so it
    keeps the descriptor of the first copy for the next. Opened at the start, the number of the
    daemon's open files is the same before and after a backup.
    """
    with as_ours(source.parent):
        reading(source).close()


def put_in_place(draft: Path, target: Path) -> None:
    """Rename the draft to its target, durably."""
    with as_ours(target.parent):
        draft.replace(target)
        sync_folder(target.parent)


def give_to_owner_of(folder: Path, draft: Path) -> None:
    """Give the draft to the folder's owner, if this process is root."""
    # A database restored by root would otherwise be unreadable for the daemon's own user.
    owner = folder.stat()
    if os.geteuid() == 0:
        os.chown(draft, owner.st_uid, owner.st_gid)


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that renames in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def as_ours(folder: Path) -> Iterator[None]:
    """
    Raise errors of the system and SQLite as ours. Space and permissions are those of the folder.
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
    """Lock the draft; False if another process has it."""
    try:
        # flock, not a POSIX lock: it survives the closing of SQLite's own descriptors of the draft.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last owner may have finished between our open and our lock: then the file we opened is
        # their backup, under another name.
        return os.path.samestat(os.fstat(descriptor), draft.lstat())
    except (BlockingIOError, FileNotFoundError):
        return False


def _remove_logs(draft: Path) -> None:
    for suffix in ("-journal", "-wal", "-shm"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _copy_at(draft: Path) -> sqlite3.Connection:
    copy = sqlite3.connect(draft, isolation_level=None)
    # No other process opens the draft, and an interrupted one is deleted: no journal is needed.
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE"):
        copy.execute(f"PRAGMA {pragma}")
    return copy
