"""
What an operator does about a database that is damaged or gone: the very command, with the newest
backup there is.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

_BACKUP = re.compile(r"turngate-\d{8}T\d{6}Z\.db")


def restore_command(database: Path, backups: Path | None = None) -> str:
    """
    To be run as it stands. Without a backup that we made ourselves, FILE is for the operator to
    fill in.
    """
    folder = database.absolute().parent
    newest = newest_backup(backups or folder / "backups")
    file = "FILE" if newest is None else shlex.quote(str(newest))
    return f"turngate restore --state-dir {shlex.quote(str(folder))} {file}"


def cure_of(database: Path, backups: Path | None = None) -> str:
    """
    For the end of every report of damage. `backups`: where the schedule makes them, if not beside
    the database.
    """
    command = restore_command(database, backups)
    where = (
        " (there is no scheduled backup; FILE is one that you have made)"
        if command.endswith(" FILE")
        else ""
    )
    return f"Nothing is written to it any more. Stop Turngate, then run: {command}{where}"


def newest_backup(folder: Path) -> Path | None:
    """Of those that the schedule made: their names tell when."""
    try:
        names = sorted(found.name for found in folder.iterdir() if _BACKUP.fullmatch(found.name))
    except OSError:
        return None
    return folder / names[-1] if names else None
