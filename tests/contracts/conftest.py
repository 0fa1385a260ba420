"""Every store, behind the same fixture."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes import FrozenClock
from tests.oracle_store import MemoryStore
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.stores.sqlite import SqliteStore

CAP = 20


@pytest.fixture
def clock() -> FrozenClock:
    """Noon, until moved."""
    return FrozenClock()


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock
) -> AsyncIterator[Store]:
    """One after the other, with room for twenty live entries a session."""
    store: Store
    if request.param == "memory":
        store = MemoryStore(clock, live_entries=CAP)
    else:
        store = await SqliteStore.connect(tmp_path / "turngate.db", clock, live_entries=CAP)
    yield store
    await store.close()
