"""Recognise the systemd journal. Light: it is asked before the state folder is locked."""

from __future__ import annotations

import os


def is_journal(descriptor: int, named: str | None) -> bool:
    """
    Return whether a stream leads to the journal: systemd names it by device and inode in
    $JOURNAL_STREAM.
    """
    found = os.fstat(descriptor)
    return named == f"{found.st_dev}:{found.st_ino}"
