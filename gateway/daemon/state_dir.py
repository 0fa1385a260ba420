"""
The state folder: its files, its keys, and the lock that admits one process.

Imports only the errors, so that the lock can be taken before heavy modules are loaded. The lock
belongs to the kernel: it ends with its process, and the next start has nothing to clean up.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from turngate.gateway.domain.errors import (
    CommandRuns,
    StateInUse,
    StoreDamaged,
    StoreUnavailable,
)

LONGEST_COMMAND = 600.0
"""Seconds that a daemon waits for a command before it leaves the rest to its next start."""

_KEY_SIZE = 32
_PAUSE = 0.02
_BETWEEN_NEWS = 2.0
_COMMAND = b"command"
# A process that just took the lock needs a moment to replace the pid of a dead one.
_LOOKS_FOR_PID = 25


@dataclass(frozen=True, slots=True)
class StateDir:
    """The paths in a state folder. Creates nothing."""

    path: Path

    @property
    def database(self) -> Path:
        """The database of transcripts and work items."""
        return self.path / "turngate.db"

    @property
    def control_socket(self) -> Path:
        """The socket on which the daemon takes requests."""
        return self.path / "control.sock"

    @property
    def lock_file(self) -> Path:
        """
        The file that is locked while a process uses the folder. It holds the pid, and on a second
        line whether the process is a command.
        """
        return self.path / "turngate.lock"

    @property
    def privacy_key(self) -> Path:
        """The key of the pseudonyms."""
        return self.path / "privacy.key"

    @property
    def web_key(self) -> Path:
        """The key that signs the web chat's cookies."""
        return self.path / "web.key"

    @property
    def files(self) -> Path:
        """Files of users and agents, one folder per session."""
        return self.path / "files"

    @property
    def backups(self) -> Path:
        """The folder for backups, unless the config names another."""
        return self.path / "backups"

    @property
    def run_record(self) -> Path:
        """How the present run goes, for the next one to read."""
        return self.path / "run.json"

    @property
    def exit_status(self) -> Path:
        """How the previous run ended, as systemd saw it."""
        return self.path / "exit-status"

    @property
    def chat_history(self) -> Path:
        """The input history of `turngate chat`."""
        return self.path / "chat_history"


class Lock:
    """
    The lock of a state folder, until it is released or its process ends. `folder` is locked along
    with the file.
    """

    def __init__(self, state: StateDir, descriptor: int, folder: int) -> None:
        self.state = state
        self._descriptor = descriptor
        self._folder = folder

    def release(self) -> None:
        """Release the lock. Idempotent."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        # While it is still locked: afterwards the pid in it may be that of the next holder.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)
        os.close(self._folder)

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.release()


def take_lock(folder: Path, *, timeout: float = 0.0, command: bool = False) -> Lock:
    """
    Create the folder if it is missing, and lock it, for a daemon or a `command`.

    `timeout` in seconds is for a holder that is about to end. Raises StateInUse with the pid of the
    holder, CommandRuns if that is a command, StoreUnavailable if the folder cannot be created or
    written, or if other users could replace what is in it.
    """
    state = StateDir(_absolute(folder))
    _make(state.path)
    _check_owner(state.path)
    deadline = time.monotonic() + timeout

    while True:
        try:
            return _try_lock(state, command=command)
        except StateInUse:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)


def wait_for_lock(
    folder: Path, tell: Callable[[CommandRuns], None], *, longest: float = LONGEST_COMMAND
) -> Lock:
    """
    Take the lock for a daemon, and wait while a command has it; `tell` is called now and then.

    Raises StateInUse soon if another daemon has it, and CommandRuns after `longest` seconds.
    """
    deadline = time.monotonic() + longest
    while True:
        left = deadline - time.monotonic()
        try:
            return take_lock(folder, timeout=min(_BETWEEN_NEWS, max(left, 0.0)))
        except CommandRuns as exc:
            if left <= 0:
                raise
            tell(exc)


def access_warnings(folder: Path) -> tuple[str, ...]:
    """Return what the mode of an existing state folder allows to others, as sentences."""
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return ()
    if not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return ()
    who = "everybody" if found.st_mode & stat.S_IWOTH else "its group"
    return (
        f"warning: the state folder {folder} can be written by {who} (mode "
        f"{stat.S_IMODE(found.st_mode):04o}), who could replace everything in it; run: chmod "
        f"go-rwx {folder}",
    )


def read_or_make_key(path: Path) -> bytes:
    """
    Return the key in that file. It is created once, atomically, and never replaced: everything
    derived from it would be lost.
    """
    with suppress(FileNotFoundError):
        return _read_key(path)

    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        _write_key(draft)
        try:
            # Unlike a rename, a link never replaces a key that another process made in between.
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        # After a power cut a key that was used must still be there, or a new one would be made.
        _sync_folder(path.parent)
    except OSError as exc:
        raise _not_writable(path.parent, exc) from exc

    return _read_key(path)


def _absolute(folder: Path) -> Path:
    try:
        return folder.absolute()
    except OSError as exc:
        raise _not_writable(folder, exc) from exc


def _make(folder: Path) -> None:
    # Not `mkdir(parents=True)`: it would create the parents with the default mode.
    missing = [path for path in (folder, *folder.parents) if not _exists(path)]
    for path in reversed(missing):
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except (OSError, ValueError) as exc:
            raise _not_writable(folder, exc) from exc


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return True  # permission denied or no path: using it fails with the real reason


def _check_owner(folder: Path) -> None:
    """Refuse a folder whose files other users could replace, the keys and the database included."""
    try:
        found = folder.stat()
    except (OSError, ValueError):
        return  # opening it fails with the real reason

    # Root reads and writes everything anyway, so its folder and its commands are as safe as it is.
    if os.geteuid() not in (0, found.st_uid) and found.st_uid != 0:
        raise StoreUnavailable(
            f"state folder {folder} belongs to another user (uid {found.st_uid}); run as that "
            "user, or pass another --state-dir"
        )
    if found.st_mode & stat.S_IWOTH:
        raise StoreUnavailable(
            f"state folder {folder} can be written by everybody (mode "
            f"{stat.S_IMODE(found.st_mode):04o}); run: chmod go-rwx {folder}"
        )


def _try_lock(state: StateDir, *, command: bool) -> Lock:
    with ExitStack() as opened:
        try:
            folder = _opened(opened, state.path, os.O_RDONLY | os.O_DIRECTORY)
            # Never through a link: the file is emptied below, whoever it belongs to.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            descriptor = _opened(opened, state.lock_file, flags)
            _hold(folder, descriptor)
            # It may have been removed between opening and locking. `take_lock` tries again.
            if not _is_still_there(state.lock_file, descriptor):
                raise BlockingIOError
            os.ftruncate(descriptor, 0)
            kind = _COMMAND + b"\n" if command else b""
            os.pwrite(descriptor, b"%d\n%b" % (os.getpid(), kind), 0)
        except BlockingIOError:
            raise _in_use(state.path, _holder(descriptor)) from None
        except (OSError, ValueError) as exc:
            if isinstance(exc, OSError) and exc.errno == errno.ELOOP:
                raise StoreUnavailable(
                    f"{state.lock_file} is a link, which is not followed; remove it"
                ) from exc
            raise _not_writable(state.path, exc) from exc
        # Locked: the descriptors stay open, because closing them releases the lock.
        opened.pop_all()

    return Lock(state, descriptor, folder)


def _opened(closing: ExitStack, path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    closing.callback(os.close, descriptor)
    return descriptor


def _hold(folder: int, file: int) -> None:
    """
    Lock the file, whose pid others can read, and the folder, which still excludes them if the file
    was removed.
    """
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # some file systems lock files only


def _is_still_there(path: Path, descriptor: int) -> bool:
    """
    Return whether the locked file still exists: a lock on a removed file excludes no other process.
    """
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class _Holder:
    """What the lock file says of the process that has it."""

    pid: int | None = None
    is_command: bool = False


def _holder(descriptor: int) -> _Holder:
    holder = _Holder()
    for _ in range(_LOOKS_FOR_PID):
        holder = _written_holder(descriptor)
        if holder.pid is not None and _is_alive(holder.pid):
            return holder
        time.sleep(_PAUSE)
    return holder


def _written_holder(descriptor: int) -> _Holder:
    pid, _, kind = os.pread(descriptor, 64, 0).partition(b"\n")
    return _Holder(int(pid), kind.strip() == _COMMAND) if pid.isdigit() else _Holder()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _in_use(folder: Path, holder: _Holder) -> StateInUse:
    who = f"process {holder.pid}" if holder.pid else "another process"
    if holder.is_command:
        return CommandRuns(
            f"state folder {folder} is in use by {who}, a command; it is free when that has ended",
            pid=holder.pid,
        )
    return StateInUse(
        f"state folder {folder} is in use by {who}; stop it, or pass another --state-dir",
        pid=holder.pid,
    )


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise StoreUnavailable(
            f"{path} cannot be read ({exc.strerror}); check its owner and permissions"
        ) from exc

    if len(key) != _KEY_SIZE:
        raise StoreDamaged(
            f"{path} has {len(key)} bytes and is no key; restore it from a backup, or remove it "
            "to have a new one made"
        )

    return key


def _write_key(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(_KEY_SIZE))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_writable(folder: Path, exc: OSError | ValueError) -> StoreUnavailable:
    reason = exc.strerror if isinstance(exc, OSError) else "not a path"
    return StoreUnavailable(
        f"state folder {folder} is not writable ({reason}); pass --state-dir or fix its permissions"
    )
