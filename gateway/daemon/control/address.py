"""
How a unix socket is named to the kernel.

An address has room for 107 bytes, and a state folder may lie deeper than that. Then the folder is opened, and the
socket is named by the way that leads through the open folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 107


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """A name of that socket which fits, valid inside the block."""
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
