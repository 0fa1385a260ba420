"""Start a task of the gateway, or nothing once the gateway is closing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


def start_unless_closing(
    tasks: asyncio.TaskGroup, work: Coroutine[None, None, None], name: str
) -> asyncio.Task[None] | None:
    """Start a task. Returns None if the group takes no more."""
    try:
        return tasks.create_task(work, name=name)
    except RuntimeError:
        # A coroutine that is neither run nor closed would cause a warning.
        work.close()
        return None
