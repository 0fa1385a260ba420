"""
What becomes of a SQLite store whose files are taken away, cut or locked; the side of the daemon is
in crash/.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.crash.disk_faults import contents, cut_log, leave_killed, log_of, replace_by_a_copy
from tests.fakes import FrozenClock, message
from tests.talk import exchange, key_of
from turngate.gateway.domain.errors import StoreDamaged, StoreUnavailable
from turngate.gateway.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database is to be."""
    return tmp_path / "state" / "turngate.db"


@asynccontextmanager
async def opened(path: Path, lock_timeout: float = 5.0) -> AsyncIterator[SqliteStore]:
    """With one message in it that was there before."""
    store = await SqliteStore.connect(path, FrozenClock(), lock_timeout=lock_timeout)
    await store.accept(message(id="before"), key_of())
    try:
        yield store
    finally:
        await store.close()


LOST: dict[str, tuple[Callable[[Path], object], str]] = {
    "database deleted": (lambda path: path.unlink(), "was deleted or moved away"),
    "database moved": (
        lambda path: path.rename(path.with_name("elsewhere")),
        "was deleted or moved away",
    ),
    "database replaced": (replace_by_a_copy, "was replaced by another file"),
    "log deleted": (lambda path: log_of(path.parent).unlink(), "was deleted or moved away"),
    "log replaced": (
        lambda path: replace_by_a_copy(log_of(path.parent)),
        "was replaced by another file",
    ),
    "log cut": (lambda path: os.truncate(log_of(path.parent), 5000), "was cut short"),
    "log emptied": (lambda path: os.truncate(log_of(path.parent), 0), "was cut short"),
}


class TestFilesUnderOurHands:
    @pytest.mark.parametrize(("lose", "said"), LOST.values(), ids=LOST)
    async def test_nothing_is_acknowledged_after_a_file_was_lost(
        self, path: Path, lose: Callable[[Path], object], said: str
    ) -> None:
        async with opened(path) as store:
            lose(path)
            with pytest.raises(StoreDamaged, match=said):
                await store.accept(message(id="after"), key_of())
            assert said in (store.damage or "")

    async def test_what_was_committed_into_a_file_that_is_gone_is_not_acknowledged(
        self, path: Path
    ) -> None:
        async with opened(path) as store:
            with pytest.raises(StoreDamaged, match="was deleted"):
                await store._writer.run(lambda db: path.unlink())

    async def test_a_loss_is_seen_though_nobody_writes(self, path: Path) -> None:
        async with opened(path) as store:
            path.unlink()
            async with asyncio.timeout(30):
                while store.damage is None:
                    await asyncio.sleep(0.05)

    async def test_what_is_damaged_is_left_as_it_is_with_its_log(self, path: Path) -> None:
        async with opened(path) as store:
            store._writer.report_damage("something")
            left = contents(path.parent)
        assert contents(path.parent) == left
        assert log_of(path.parent).exists()

    async def test_another_program_may_write_the_log_into_the_database(self, path: Path) -> None:
        async with opened(path) as store:
            with closing(sqlite3.connect(path)) as other:
                assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            assert log_of(path.parent).stat().st_size == 0
            await store.accept(message(id="after"), key_of())
            assert store.damage is None


class TestWhatAKillLeaves:
    async def test_nothing_is_missing_after_a_kill(self, path: Path) -> None:
        leave_killed(path.parent)
        async with opened(path) as store:
            assert (await store.depth()).inbox_waiting == 6

    async def test_an_operator_may_go_on_without_what_was_cut_off(self, path: Path) -> None:
        leave_killed(path.parent)
        cut_log(path.parent, frames=1)
        with pytest.raises(StoreDamaged, match=r"to go on without it, remove .*turngate\.mark"):
            await SqliteStore.connect(path, FrozenClock())
        path.with_suffix(".mark").unlink()

        async with opened(path) as store:
            assert (await store.depth()).inbox_waiting == 5

    async def test_an_operator_may_begin_anew(self, path: Path) -> None:
        async with opened(path):
            pass
        path.unlink()
        with pytest.raises(
            StoreDamaged, match=r"to begin with an empty one, remove .*turngate\.mark"
        ):
            await SqliteStore.connect(path, FrozenClock())
        path.with_suffix(".mark").unlink()

        async with opened(path) as store:
            assert (await store.depth()).inbox_waiting == 1

    async def test_another_program_may_have_put_the_log_in_order(self, path: Path) -> None:
        """A look into the database with SQLite's own tools does that, and nothing is lost by it."""
        leave_killed(path.parent)
        with closing(sqlite3.connect(path)) as other:
            other.execute("SELECT count(*) FROM inbox").fetchone()
        assert not log_of(path.parent).exists()

        async with opened(path) as store:
            assert (await store.depth()).inbox_waiting == 6

    async def test_a_backup_that_was_put_in_its_place_is_taken(self, path: Path) -> None:
        async with opened(path):
            pass
        shutil.copy2(path, path.with_name("backup"))
        leave_killed(path.parent)
        shutil.copy2(path.with_name("backup"), path)
        log_of(path.parent).unlink()

        async with opened(path) as store:
            assert (await store.depth()).inbox_waiting == 1

    async def test_a_mark_that_is_rubbish_says_nothing(self, path: Path) -> None:
        leave_killed(path.parent)
        path.with_suffix(".mark").write_bytes(b"rubbish" * 100)

        async with opened(path) as store:
            assert (await store.depth()).inbox_waiting == 6


class TestTrouble:
    async def test_a_small_write_does_not_prove_that_there_is_room(self, path: Path) -> None:
        async with opened(path) as store:
            await limit(store, 1)
            with pytest.raises(StoreUnavailable, match="may not grow any further"):
                await store.probe()
            await store._writer.run(lambda db: db.execute("UPDATE inbox SET reason = NULL"))
            assert "may not grow any further" in (store.trouble or "")

            await limit(store, 1_000_000)
            await store.probe()
            assert store.trouble is None

    async def test_a_store_is_closed_at_once_though_another_process_holds_the_lock(
        self, path: Path
    ) -> None:
        async with opened(path, lock_timeout=600) as store:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                waiting = [
                    asyncio.ensure_future(store.accept(message(id=str(n)), key_of()))
                    for n in range(300)
                ]
                await asyncio.sleep(0.3)
                began = time.monotonic()
                await store.close()
                assert time.monotonic() - began < 60
                results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(result) for result in results} == {StoreUnavailable}


async def limit(store: SqliteStore, pages: int) -> None:
    """How many pages the database may have; never less than it has."""
    await store._writer.run(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone())


async def test_a_log_that_no_checkpoint_empties_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding R26: a reader that keeps a transaction open."""
    monkeypatch.setattr("turngate.gateway.stores.sqlite.writer._LONG_LOG", 100_000)
    monkeypatch.setattr("turngate.gateway.stores.sqlite.writer._SECONDS_BETWEEN_LOOKS", 0.0)
    async with opened(path) as store:
        await exchange(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM entries").fetchall()
            for number in range(20):
                await exchange(store, "word " * 2000, id=f"long {number}")
            assert store.log.size > 100_000
            assert store.log.blocked_for is not None

        await exchange(store, id="after")
        await exchange(store, id="and after")
        assert store.log.blocked_for is None


@pytest.mark.parametrize(
    ("limit", "said"), [(None, "no space left (ENOSPC)"), (8, "raise its page limit")]
)
async def test_a_full_disk_on_which_files_can_grow_names_the_right_cure(
    path: Path, limit: int | None, said: str
) -> None:
    """Finding R27: the page limit was blamed for a quota."""
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorname = "SQLITE_FULL"
    async with opened(path) as store:

        def fail(db: sqlite3.Connection) -> None:
            if limit is not None:
                db.execute(f"PRAGMA max_page_count = {limit}")
            raise full

        with pytest.raises(StoreUnavailable, match=re.escape(said)):
            await store._writer.run(fail)
