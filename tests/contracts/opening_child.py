"""A process without privileges that opens a store and prints what it is told."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.fakes import FrozenClock
from turngate.gateway.domain.errors import StoreError
from turngate.gateway.stores.sqlite import SqliteStore


async def main() -> None:
    """
    As nobody, because permissions do not hold for root; who may not see the interpreter's own files
    either.
    """
    await asyncio.to_thread(lambda: None)
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        store = await SqliteStore.connect(Path(sys.argv[1]), FrozenClock())
    except StoreError as error:
        print(f"{type(error).__name__}: {error}")
    else:
        print("opened")
        await store.close()


asyncio.run(main())
