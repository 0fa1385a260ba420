"""
What SQLite adds where things come to an end: nothing is left of what was deleted, little is read to
find it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes import NOON, FrozenClock, dm
from tests.talk import exchange, key_of
from turngate.gateway.domain.outbox import PartState, Sent
from turngate.gateway.domain.session import ResetPolicy, Session
from turngate.gateway.rules.session_lifecycle import ResetPolicies
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.stores.sqlite.migrations import migrate, our_scripts
from turngate.gateway.stores.sqlite.rows import SESSION_COLUMNS

IDLE = ResetPolicies(default=ResetPolicy(idle_after=timedelta(hours=1)))
EVER = timedelta(days=9999)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database goes."""
    return tmp_path / "turngate.db"


@asynccontextmanager
async def opened(path: Path, clock: FrozenClock) -> AsyncIterator[SqliteStore]:
    """A store for as long as it is needed."""
    store = await SqliteStore.connect(path, clock)
    try:
        yield store
    finally:
        await store.close()


def tamper(path: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


async def due(store: SqliteStore) -> set[str | None]:
    """The chats of the sessions that are."""
    return {session.origin.chat_id async for session in store.due(IDLE.for_kind)}


def test_a_database_of_the_first_schema_is_brought_up_to_date_with_all_that_is_in_it(
    path: Path,
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        migrate(db, our_scripts()[:1])
        db.execute(
            "INSERT INTO usage VALUES ('2026-05-04', 'p', 'a', 'c', 'u', 'm', 1, 0, 0, 1, 1, 0, "
            "0, 0.5)"
        )
        migrate(db, our_scripts())

        assert db.execute("SELECT usd FROM usage").fetchall() == [(0.5,)]
        assert db.execute("SELECT * FROM endings").fetchall() == []


async def test_sessions_that_were_there_before_can_fall_due(path: Path) -> None:
    clock = FrozenClock()
    async with opened(path, clock) as store:
        session = await exchange(store, source=dm("7"))
    tamper(
        path,
        "DROP INDEX sessions_open",
        "DROP TABLE endings",
        "DROP INDEX inbox_aside",
        "ALTER TABLE inbox DROP COLUMN aside",
        "ALTER TABLE outbox DROP COLUMN aside",
        "DROP TABLE damaged",
        "ALTER TABLE turns DROP COLUMN alone",
        "ALTER TABLE turns DROP COLUMN alone_crashes",
        "PRAGMA user_version = 1",
    )
    clock.advance(hours=2)
    async with opened(path, clock) as store:
        assert await due(store) == {"7"}
        await store.reset(key_of(dm("7")))
        assert [ending.session.id for ending in await store.endings()] == [session.id]


class TestForgetting:
    """What was deleted is nowhere in the file any more."""

    CANARIES = (b"zebrafinch", b"quokkaland", b"Ann 999", b"wombatville")

    @staticmethod
    async def talked(store: SqliteStore) -> Session:
        """Long and short words between those of others, all of them sent."""
        for number in range(60):
            await exchange(
                store,
                f"ordinary words, number {number}",
                id=str(number),
                source=dm(str(number % 7)),
            )
        session = await exchange(
            store,
            "zebrafinch is the word " * 9,
            id="z",
            source=dm("999"),
            answer="quokkaland " * 2000,
        )
        await store.rename(session.id, "off to wombatville")
        for number in range(60, 120):
            await exchange(
                store,
                f"ordinary words, number {number}",
                id=str(number),
                source=dm(str(number % 7)),
            )
        for part in await store.outbox(PartState.PENDING, limit=1000):
            await store.record_sending(part.id)
            await store.record_sent(part.id, Sent(message_id="m", at=NOON))
        while await store._writer.run(store._index.catch_up):
            pass
        return session

    @pytest.mark.parametrize("how", ["by a person", "by age"])
    async def test_no_word_of_a_session_that_was_deleted_is_left_after_a_clean_up(
        self, path: Path, how: str
    ) -> None:
        clock = FrozenClock()
        async with opened(path, clock) as store:
            session = await self.talked(store)
            there = path.read_bytes() + path.with_name(path.name + "-wal").read_bytes()
            if how == "by a person":
                await store.delete(session.id)
            clock.advance(days=100)
            keep = None if how == "by a person" else timedelta(days=90)
            await store.prune(
                empty_after=EVER, archive_after=EVER, forget_after=timedelta(days=7), keep=keep
            )

        assert all(word in there for word in self.CANARIES)
        assert [word for word in self.CANARIES if word in path.read_bytes()] == []


class TestManySessions:
    async def test_a_look_for_what_is_due_reads_the_ten_that_are_and_not_the_hundred_thousand(
        self, path: Path
    ) -> None:
        clock = FrozenClock()
        async with opened(path, clock) as store:
            for number in range(10):
                await exchange(store, id=str(number), source=dm(str(number)))
        columns = ", ".join(
            name
            for name in SESSION_COLUMNS.split(", ")
            if name not in ("id", "key", "current", "last_interaction_at")
        )
        # Copies that no reader would take: whoever reads one of them fails.
        tamper(
            path,
            f"INSERT INTO sessions (id, key, current, last_interaction_at, {columns}, checksum)"
            " WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE "
            "i < 100000)"
            f" SELECT 'x' || i, 'x' || i, 1, last_interaction_at + 5400000000, {columns}, 0"
            " FROM numbers, (SELECT * FROM sessions WHERE n = 1)",
        )
        clock.advance(hours=2)
        async with opened(path, clock) as store:
            steps = Steps()
            assert store._reader._db is not None
            await store._reader._db.set_progress_handler(steps.count, 1000)
            found = await due(store)

        assert found == set(map(str, range(10)))
        assert steps.thousands < 10


class Steps:
    """What SQLite did, in thousands of its instructions."""

    thousands = 0

    def count(self) -> int:
        self.thousands += 1
        return 0
