"""
Shorten the path of a unix socket.

An address holds 107 bytes, and a state folder may have a longer path. The folder is then opened,
and the socket is addressed through its descriptor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 107


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """Yield a path of that socket that fits; valid inside the block."""
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
