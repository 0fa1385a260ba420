"""
Files on the disk of a Bot API server of the operator's own.

Such a server names files by their absolute path. What answers at `api_url` may be anybody's proxy,
so only plain files inside the folder that the config names are opened, and no link is followed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from turngate.gateway.domain.errors import Refused

_CHUNK = 256 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe blocks until a writer opens it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


async def read_inside(folder: Path | None, path: str) -> AsyncIterator[bytes]:
    """Yield a file in chunks. Raises Refused for whatever is not a plain file in the folder."""
    if folder is None:
        raise Refused(
            "the Bot API server gives the place of the file on its disk; name the folder in the "
            "config as files_dir"
        )
    try:
        descriptor = await asyncio.to_thread(_open, folder, path)
    except (OSError, ValueError) as exc:
        raise Refused("the file is not where the Bot API server keeps files (files_dir)") from exc

    with os.fdopen(descriptor, "rb") as file:
        while piece := await asyncio.to_thread(file.read, _CHUNK):
            yield piece


def _open(folder: Path, path: str) -> int:
    """Open each step from its parent's descriptor: a name may mean something else by then."""
    # A pure comparison: resolving the path would follow the links that must be refused.
    steps = Path(path).relative_to(folder).parts
    if not steps or ".." in steps:
        raise ValueError("not below the folder")

    here = os.open(folder, _FOLDER)
    try:
        for step in steps[:-1]:
            further = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = further
        descriptor = os.open(steps[-1], _FILE, dir_fd=here)
    finally:
        os.close(here)

    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("no plain file")
    return descriptor
