"""
A process that stores messages and prints the id of each one that it was told is stored, until it is
killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.fakes import FrozenClock, message
from tests.talk import key_of
from turngate.gateway.stores.sqlite import SqliteStore


async def main() -> None:
    """Sixteen writers, so that commits are shared."""
    store = await SqliteStore.connect(Path(sys.argv[1]), FrozenClock())
    ids = iter(range(100_000))

    async def write() -> None:
        for number in ids:
            await store.accept(message(id=str(number)), key_of())
            print(number, flush=True)

    await asyncio.gather(*(write() for _ in range(16)))


asyncio.run(main())
