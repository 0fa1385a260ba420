"""
Power that can be cut: a folder whose files are, after the cut, what had been fsynced and nothing
else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("powercut.c")


class Power:
    """For one state folder. `environment` goes to the process that is to lose its power."""

    def __init__(self, state: Path, beside: Path) -> None:
        self._state = state
        self._disk = beside / "disk"
        (self._disk / "files").mkdir(parents=True)
        self._library = beside / "powercut.so"
        command = [
            "cc",
            "-shared",
            "-fPIC",
            "-O2",
            "-Wall",
            "-Werror",
            "-o",
            str(self._library),
            str(SOURCE),
            "-ldl",
        ]
        subprocess.run(command, check=True)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process's fsyncs known."""
        return {
            "LD_PRELOAD": str(self._library),
            "POWERCUT_DIR": str(self._state),
            "POWERCUT_DISK": str(self._disk),
        }

    def sicken(self) -> None:
        """From now on no fsync succeeds."""
        (self._disk / "sick").touch()

    def heal(self) -> None:
        """They do again."""
        (self._disk / "sick").unlink()

    def come_back(self) -> None:
        """
        After the process was killed: the folder as the disk has it. A name without content is an
        empty file.
        """
        kept = {}
        names = self._disk / "names"
        for line in names.read_text().splitlines() if names.exists() else ():
            inode, _, name = line.partition(" ")
            content = self._disk / "files" / inode
            kept[name] = content.read_bytes() if content.exists() else b""
        shutil.rmtree(self._state)
        shutil.rmtree(self._disk)
        self._state.mkdir(mode=0o700)
        (self._disk / "files").mkdir(parents=True)
        for name, content in kept.items():
            file = self._state / name
            file.write_bytes(content)
            file.chmod(0o600)
            inode = file.stat().st_ino
            (self._disk / "files" / str(inode)).write_bytes(content)
        lines = [f"{(self._state / name).stat().st_ino} {name}\n" for name in kept]
        (self._disk / "names").write_text("".join(lines))
        os.sync()
