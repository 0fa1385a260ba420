"""What goes wrong with the disk under a daemon, and how it is put right again."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.commands import ROOT
from tests.crash.rig import Rig

_FRAME = 24 + 4096
_UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
_HOLDS_A_LOCK = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(600)
"""
_STORES_AND_WAITS = """
import asyncio, sys, time
from pathlib import Path
from turngate.gateway.stores.sqlite import SqliteStore
from tests.fakes import FrozenClock, message
from tests.talk import key_of

async def main():
    store = await SqliteStore.connect(Path(sys.argv[1]), FrozenClock())
    for number in range(5):
        await store.accept(message("x" * 3000, id=str(number)), key_of())
    print("stored", flush=True)
    time.sleep(600)

asyncio.run(main())
"""


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own. Only root can make one, and CI is root."""
    folder.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", folder],
        check=True,
    )
    try:
        yield
    finally:
        subprocess.run(["/bin/umount", "--lazy", folder], check=True)


class FullDisk:
    """The file system has no room left."""

    def begin(self, rig: Rig) -> None:
        """With somebody else's file."""
        with (rig.state / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(b"x" * 4096):
                pass

    def end(self, rig: Rig) -> None:
        """Which its owner deletes."""
        (rig.state / "filler").unlink()


class FileSizeLimit:
    """No file may grow beyond what the log has now."""

    def begin(self, rig: Rig) -> None:
        """As an operator would with prlimit(1)."""
        size = (rig.state / "turngate.db-wal").stat().st_size
        resource.prlimit(rig.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def end(self, rig: Rig) -> None:
        """The same way."""
        resource.prlimit(rig.pid, resource.RLIMIT_FSIZE, _UNLIMITED)


class PageLimit:
    """
    The database may have no page more: a setting of its connection, for which the tests' daemon has
    a signal.
    """

    def begin(self, rig: Rig) -> None:
        """From now on."""
        os.kill(rig.pid, signal.SIGUSR1)

    def end(self, rig: Rig) -> None:
        """No longer."""
        os.kill(rig.pid, signal.SIGUSR2)


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """By another process."""
    command = [sys.executable, "-c", _HOLDS_A_LOCK, str(state / "turngate.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            child.kill()


def leave_killed(state: Path) -> None:
    """
    A store that was killed after it had acknowledged five messages; what they say is in its log
    alone.
    """
    command = [sys.executable, "-c", _STORES_AND_WAITS, str(state / "turngate.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "stored\n"
        child.kill()


def contents(state: Path) -> dict[str, bytes]:
    """Of the database and its log; an empty log says nothing."""
    files = [state / "turngate.db", state / "turngate.db-wal"]
    return {file.name: file.read_bytes() for file in files if file.exists() and file.stat().st_size}


def log_of(state: Path) -> Path:
    """Where what was committed last stands alone."""
    return state / "turngate.db-wal"


def replace_by_a_copy(file: Path) -> None:
    """As an editor does, or somebody who restores by hand."""
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


def flip_a_byte_of(file: Path, words: str) -> None:
    """Where these words stand first."""
    written = bytearray(file.read_bytes())
    place = written.index(words.encode())
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(bytes([written[place] ^ 0x01]))


def damage_pages(state: Path) -> None:
    """All but the first ones."""
    database = state / "turngate.db"
    pages = bytearray(database.read_bytes())
    for page in range(3, len(pages) // 4096):
        pages[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    database.write_bytes(pages)


def cut_log(state: Path, *, frames: int) -> None:
    """At the end of a frame, where nothing but the missing rest tells."""
    log = state / "turngate.db-wal"
    os.truncate(log, log.stat().st_size - frames * _FRAME)
