"""The command that restores a damaged or lost database, with the newest backup."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

_BACKUP = re.compile(r"turngate-\d{8}T\d{6}Z\.db")


def restore_command(database: Path, backups: Path | None = None) -> str:
    """Return a complete command; without a scheduled backup, FILE is left to the operator."""
    folder = database.absolute().parent
    newest = newest_backup(backups or folder / "backups")
    file = "FILE" if newest is None else shlex.quote(str(newest))
    return f"turngate restore --state-dir {shlex.quote(str(folder))} {file}"


def cure_of(database: Path, backups: Path | None = None) -> str:
    """
    Return the end of every damage report. `backups`: their folder, if not beside the database.
    """
    command = restore_command(database, backups)
    where = (
        " (there is no scheduled backup; FILE is one that you have made)"
        if command.endswith(" FILE")
        else ""
    )
    return f"Nothing is written to it any more. Stop Turngate, then run: {command}{where}"


def newest_backup(folder: Path) -> Path | None:
    """Return the newest scheduled backup, or None."""
    try:
        # By the time in the name: copying a file changes its modification time.
        names = sorted(found.name for found in folder.iterdir() if _BACKUP.fullmatch(found.name))
    except OSError:
        return None
    return folder / names[-1] if names else None
