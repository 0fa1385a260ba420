"""Recognise the systemd journal. Imports little: it is used before the state folder is locked."""

from __future__ import annotations

import os


def is_journal(descriptor: int, named: str | None) -> bool:
    """
    Return whether a stream leads to the journal: systemd names it by device and inode in
    $JOURNAL_STREAM.
    """
    # The variable alone proves nothing: stderr may have been redirected since systemd set it.
    found = os.fstat(descriptor)
    return named == f"{found.st_dev}:{found.st_ino}"
