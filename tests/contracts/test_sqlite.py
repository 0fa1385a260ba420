"""
What SQLite adds to the promises of every store: durability, shared commits, detected damage, an
index behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes import FrozenClock, add_entries, assistant, dm, message, user
from tests.talk import begin, exchange, key_of, opening, texts
from turngate.gateway.domain.errors import (
    AlreadySettled,
    Refused,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from turngate.gateway.domain.ids import InboxId, SessionId
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.outbox import PartState
from turngate.gateway.domain.session import ResetPolicy, Session
from turngate.gateway.domain.store_values import (
    Accepted,
    Claim,
    Outcome,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Reasoning,
    ToolCall,
)
from turngate.gateway.stores.sqlite import SqliteStore, search_index
from turngate.gateway.stores.sqlite.migrations import (
    APPLICATION_ID,
    migrate,
    our_scripts,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database goes."""
    return tmp_path / "state" / "turngate.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    """A store for as long as it is needed."""
    store = await SqliteStore.connect(path, FrozenClock())
    try:
        yield store
    finally:
        await store.close()


def tamper(path: Path, statement: str) -> None:
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


def asked(path: Path, query: str) -> list[tuple[object, ...]]:
    """What another process would read."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


async def indexed(store: SqliteStore) -> None:
    """Let the index catch up."""
    while await store._writer.run(store._index.catch_up):
        pass


class TestDurability:
    async def test_everything_is_there_after_a_restart(self, path: Path) -> None:
        async with opened(path) as store:
            before = await exchange(store, "remember me")
        async with opened(path) as store:
            assert await store.sessions() == [before]
            assert await texts(store, before) == ["remember me", "hi"]
            assert (await store.accept(message("remember me"), key_of())).duplicate

    async def test_a_write_ahead_log_with_full_synchronisation_is_used(self, path: Path) -> None:
        async with opened(path) as store:
            pragmas = [
                await store._writer.run(
                    lambda db, name=name: db.execute(f"PRAGMA {name}").fetchone()[0]
                )
                for name in ("journal_mode", "synchronous")
            ]
        assert pragmas == ["wal", 2]

    async def test_what_was_acknowledged_survives_kill_minus_nine(self, path: Path) -> None:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.contracts.acknowledging_child", str(path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().strip() for _ in range(200)]
        os.kill(child.pid, signal.SIGKILL)
        acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()
        child.stdout.close()

        async with opened(path) as store:
            stored = {
                item.message.id for item in await store.inbox(InboxState.WAITING, limit=10**6)
            }
        assert set(acknowledged) <= stored

    async def test_nobody_hears_of_a_commit_before_it_is_visible_to_others(
        self, path: Path
    ) -> None:
        async with opened(path) as store:
            for number in range(20):
                await store.accept(message(id=str(number)), key_of())
                assert asked(path, "SELECT count(*) FROM inbox") == [(number + 1,)]

    async def test_what_waits_together_is_committed_together(self, path: Path) -> None:
        async with opened(path) as store:
            at_work, release = threading.Event(), threading.Event()
            before = store._writer.commits
            held = asyncio.create_task(
                store._writer.run(lambda _: (at_work.set(), release.wait(timeout=30)))
            )
            await wait_until(at_work.is_set)
            waiting = [
                asyncio.create_task(store.accept(message(id=str(n)), key_of())) for n in range(64)
            ]
            await wait_until(lambda: store._writer._queue.qsize() == 64)
            release.set()
            await asyncio.gather(held, *waiting)
            assert store._writer.commits - before == 2

    async def test_a_job_that_fails_half_way_is_undone_alone(self, path: Path) -> None:
        async with opened(path) as store:
            session = await exchange(store)

            def spoil(db: sqlite3.Connection) -> None:
                db.execute("DELETE FROM entries")
                raise RuntimeError("half-way")

            results = await asyncio.gather(
                store.rename(session.id, "before"),
                store._writer.run(spoil),
                store.mark_important(session.id),
                return_exceptions=True,
            )
            after = await store.session(session.id)
            assert [type(result) for result in results] == [type(None), RuntimeError, type(None)]
            assert (after.title, after.important) == ("before", True)
            assert await texts(store, session) == ["hello", "hi"]

    async def test_history_kept_in_memory_is_forgotten_with_a_rollback(self, path: Path) -> None:
        async with opened(path) as store:
            session = await exchange(store, "one")
            await begin(store, message("two", id="2"))

            def append_and_fail(db: sqlite3.Connection) -> None:
                store._entries.append(db, 1, [user("never happened")])
                raise RuntimeError("rolled back")

            with pytest.raises(RuntimeError):
                await store._writer.run(append_and_fail)
            begun = await begin(store, message("three", id="3"))
            assert [entry.text for entry in begun.history] == ["one", "hi", "two"]
            assert begun.opened.session.id == session.id

    async def test_a_cancelled_caller_harms_no_other(self, path: Path) -> None:
        async with opened(path) as store:
            gone = asyncio.create_task(store.accept(message(id="gone"), key_of()))
            await asyncio.sleep(0)
            gone.cancel()
            await store.accept(message(id="here"), key_of())
            assert "here" in {item.message.id for item in await store.inbox(InboxState.WAITING)}

    async def test_a_loop_that_ended_while_waiting_harms_no_other(self, path: Path) -> None:
        async with opened(path) as store:

            async def leave() -> None:
                task = asyncio.create_task(store.accept(message(id="gone"), key_of()))
                await asyncio.sleep(0)
                task.cancel()

            for _ in range(20):
                thread = threading.Thread(target=lambda: asyncio.run(leave()))
                thread.start()
                await asyncio.to_thread(thread.join)
            assert not (await store.accept(message(id="here"), key_of())).duplicate

    async def test_readers_whose_loop_has_ended_harm_no_other(self, path: Path) -> None:
        async with opened(path) as store:
            session = await exchange(store)

            def leave_at_once() -> None:
                loop = asyncio.new_event_loop()
                task = loop.create_task(store.session(session.id))
                loop.run_until_complete(asyncio.sleep(0))
                loop.close()
                del task

            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # a task that was left pending is the very thing this is about
                for _ in range(20):
                    await asyncio.to_thread(leave_at_once)
                gc.collect()
            async with asyncio.timeout(20):
                assert await store.session(session.id) == session

    async def test_nobody_is_left_waiting_by_a_close(self, path: Path) -> None:
        for _ in range(20):
            async with opened(path) as store:
                asked = [
                    asyncio.create_task(ask)
                    for n in range(20)
                    for ask in (
                        store.sessions(),
                        store.search("x"),
                        store.accept(message(id=str(n)), key_of()),
                    )
                ]
                await asyncio.sleep(0)
                await asyncio.gather(store.close(), store.close())
                async with asyncio.timeout(20):
                    answers = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(answer) for answer in answers} <= {list, Accepted, StoreUnavailable}

    async def test_a_busy_check_that_is_cancelled_harms_no_other(self, path: Path) -> None:
        def cancelled(_: SessionId) -> bool:
            raise asyncio.CancelledError

        async with opened(path) as store:
            session = await exchange(store)
            store._clock.advance(hours=2)  # type: ignore[attr-defined]  # a FrozenClock
            asked = replace(
                opening(policy=ResetPolicy(idle_after=timedelta(hours=1))), is_busy=cancelled
            )
            async with asyncio.timeout(20):
                kept, _ = await asyncio.gather(
                    store.open(asked), store.accept(message(id="2"), key_of())
                )
            assert kept.session.id == session.id

    @pytest.mark.parametrize("error", [StopIteration, GeneratorExit, KeyError])
    async def test_whatever_an_operation_raises_nobody_waits_for_ever(
        self, path: Path, error: type[BaseException]
    ) -> None:
        def fail(_: sqlite3.Connection) -> None:
            raise error

        async with opened(path) as store:
            async with asyncio.timeout(20):
                results = await asyncio.gather(
                    store._writer.run(fail),
                    store.accept(message(), key_of()),
                    return_exceptions=True,
                )
            assert isinstance(results[0], BaseException)
            assert isinstance(results[1], Accepted)

    async def test_a_closed_store_says_so(self, path: Path) -> None:
        async with opened(path) as store:
            pass
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.accept(message(), key_of())
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.sessions()
        await store.close()

    async def test_reading_a_long_list_does_not_wait_for_writers(self, path: Path) -> None:
        async with opened(path) as store:
            at_work, release = threading.Event(), threading.Event()
            await exchange(store)
            held = asyncio.create_task(
                store._writer.run(lambda _: (at_work.set(), release.wait(timeout=30)))
            )
            await wait_until(at_work.is_set)
            assert len(await store.sessions()) == 1
            release.set()
            await held


class TestRuns:
    async def test_a_turn_that_died_with_its_daemon_begins_again(self, path: Path) -> None:
        claim = Claim(
            inbox=(InboxId(1),), opening=opening(), entries=(user("question"),), history=50
        )
        async with opened(path) as store:
            await store.accept(message("question"), key_of())
            first = await store.begin(claim)
        async with opened(path) as store:
            again = await store.begin(claim)
            with pytest.raises(AlreadySettled, match="being worked on"):
                await store.begin(claim)
            assert (again.turn, again.attempt) == (first.turn, 2)
            assert await texts(store, first.opened.session) == ["question"]


class TestDamage:
    async def test_a_flipped_byte_in_an_entry_is_found_reported_and_hides_no_other(
        self, path: Path
    ) -> None:
        async with opened(path) as store:
            session = await exchange(store, "original", answer="kept")
        tamper(path, "UPDATE entries SET text = 'Original' WHERE text = 'original'")
        assert asked(path, "PRAGMA integrity_check") == [("ok",)]

        async with opened(path) as store:
            transcript = await store.transcript(session.id)
            assert [entry.text for entry in transcript.entries] == ["kept"]
            assert transcript.damaged == (1,)
            assert store.damage is None
            assert not (await store.accept(message(id="2"), key_of())).duplicate
        assert asked(path, "SELECT place, row FROM damaged") == [("entries", "1")]

    async def test_after_a_corrupt_page_was_seen_nothing_is_written(self, path: Path) -> None:
        async with opened(path) as store:
            session = await exchange(store)
            store._writer.report_damage("SQLite finds it damaged")
            with pytest.raises(StoreDamaged, match="turngate restore --state-dir"):
                await store.accept(message(id="2"), key_of())
            with pytest.raises(StoreDamaged):
                await store.rename(session.id, "x")

    @pytest.mark.parametrize(
        ("tampering", "verb"),
        [
            ("UPDATE sessions SET title = 'forged'", lambda store, session: store.open(opening())),
            (
                "UPDATE sessions SET input = input + 1",
                lambda store, session: store.session(session.id),
            ),
            (
                "UPDATE entries SET sender = 'forged'",
                lambda store, session: begin(store, message(id="3")),
            ),
            (
                "UPDATE inbox SET message = replace(message, 'wait', 'flip')",
                lambda store, _: store.inbox(InboxState.WAITING),
            ),
            ("UPDATE outbox SET text = 'forged'", lambda store, _: store.outbox(PartState.PENDING)),
            (
                "UPDATE inbox SET state = 'weiting'",
                lambda store, _: store.inbox(InboxState.WAITING),
            ),
            (
                "UPDATE outbox SET state = 'pendinG'",
                lambda store, _: store.outbox(PartState.PENDING),
            ),
        ],
        ids=[
            "session row",
            "session totals",
            "entry in a turn",
            "inbox",
            "outbox",
            "inbox state",
            "outbox state",
        ],
    )
    async def test_every_row_that_matters_is_watched_and_set_aside_alone(
        self,
        path: Path,
        tampering: str,
        verb: Callable[[SqliteStore, Session], AsyncIterator[object]],
    ) -> None:
        async with opened(path) as store:
            session = await exchange(store)
            await store.accept(message("wait", id="2"), key_of())
        tamper(path, tampering)

        async with opened(path) as store:
            with contextlib.suppress(Refused):
                await verb(store, session)
            assert not (await store.accept(message(id="4"), key_of())).duplicate
            assert store.damage is None
        assert asked(path, "SELECT 1 FROM damaged")

    @pytest.mark.parametrize(
        "tampering",
        [
            "UPDATE entries SET text = CAST(x'ff6869' AS TEXT) WHERE seq = 1",
            "UPDATE entries SET text = NULL, body = 'no JSON' WHERE seq = 1",
        ],
        ids=["no UTF-8", "no JSON"],
    )
    async def test_an_entry_that_became_rubbish_hides_no_other_and_quotes_nobody(
        self, path: Path, tampering: str
    ) -> None:
        async with opened(path) as store:
            session = await exchange(store, "private", answer="kept")
        tamper(path, tampering)

        async with opened(path) as store:
            transcript = await store.transcript(session.id)
            assert [entry.text for entry in transcript.entries] == ["kept"]
            assert [hit.entry.text for hit in await store.search("kept")] == ["kept"]
            assert not (await store.accept(message(id="2"), key_of())).duplicate
        ((reason,),) = asked(path, "SELECT reason FROM damaged")
        assert "private" not in str(reason)

    async def test_an_answer_never_ends_up_in_another_conversation(self, path: Path) -> None:
        async with opened(path) as store:
            begun = await begin(store, message(source=dm("1")))
            other = await exchange(store, source=dm("2"))
        tamper(path, "UPDATE turns SET session = 2 WHERE n = 1")

        async with opened(path) as store:
            with pytest.raises(AlreadySettled, match="turn 1 is failed"):
                await store.finish(begun.turn, Outcome(entries=(assistant("for 1 alone"),)))
            assert await texts(store, other) == ["hello", "hi"]

    async def test_a_flipped_byte_anywhere_is_damage_or_nothing_never_a_raw_error(
        self, path: Path
    ) -> None:
        async with opened(path) as store:
            for number in range(12):
                await exchange(
                    store, f"question {number}", id=str(number), source=dm(str(number % 3))
                )
        whole = path.read_bytes()
        for offset in range(0, len(whole), 997):
            # What is damaged is left as it is, its log with it.
            for left in (path.with_name("turngate.db-wal"), path.with_name("turngate.db-shm")):
                left.unlink(missing_ok=True)
            path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0x81]) + whole[offset + 1 :])
            async with asyncio.timeout(20):
                await use_everything(path)

    async def test_a_database_cut_short_is_refused(self, path: Path) -> None:
        async with opened(path) as store:
            await exchange(store)
        whole = path.read_bytes()
        path.write_bytes(whole[:-100])

        with pytest.raises(StoreDamaged, match="is cut short"):
            await SqliteStore.connect(path, FrozenClock())

    async def test_a_damaged_session_row_hides_no_other_session(self, path: Path) -> None:
        async with opened(path) as store:
            await exchange(store, source=dm("1"))
            other = await exchange(store, source=dm("2"))
        tamper(path, "UPDATE sessions SET title = 'forged' WHERE n = 1")

        async with opened(path) as store:
            assert await store.sessions() == [other]
            assert store.damage is None

    async def test_a_file_that_is_no_database_is_refused_and_left_alone(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"this is not a database, it is a letter" * 100)
        before = path.read_bytes()

        with pytest.raises(StoreDamaged, match="not a database"):
            await SqliteStore.connect(path, FrozenClock())
        assert path.read_bytes() == before

    async def test_another_programs_database_is_refused_and_left_alone(self, path: Path) -> None:
        path.parent.mkdir()
        tamper(path, "CREATE TABLE recipes (name TEXT)")
        before = path.read_bytes()

        with pytest.raises(StoreDamaged, match="not one of Turngate's"):
            await SqliteStore.connect(path, FrozenClock())
        assert path.read_bytes() == before
        assert not path.with_name("turngate.db-wal").exists()

    async def test_a_damaged_page_is_reported_with_the_cure(self, path: Path) -> None:
        async with opened(path) as store:
            for number in range(200):
                session = await exchange(store, "x" * 500, id=str(number))
        pages = bytearray(path.read_bytes())
        for page in range(3, len(pages) // 4096):
            pages[page * 4096 : page * 4096 + 64] = b"\xff" * 64
        path.write_bytes(pages)

        with pytest.raises(StoreDamaged, match="turngate restore"):
            async with opened(path) as store:
                await store.transcript(session.id)

    async def test_a_lost_database_is_never_replaced_by_an_empty_one(self, path: Path) -> None:
        async with opened(path) as store:
            await exchange(store)
            log = path.with_name("turngate.db-wal").read_bytes()
        path.unlink()
        path.with_name("turngate.db-wal").write_bytes(log)

        with pytest.raises(StoreDamaged, match="is missing, but its log"):
            await SqliteStore.connect(path, FrozenClock())
        assert not path.exists()


class TestOpening:
    async def test_a_newer_schema_is_refused_before_any_write(self, path: Path) -> None:
        async with opened(path) as store:
            await exchange(store)
        tamper(path, "PRAGMA user_version = 999")
        before = path.read_bytes()

        with pytest.raises(StoreTooNew, match=r"schema 999.*install the version that wrote it"):
            await SqliteStore.connect(path, FrozenClock())
        assert path.read_bytes() == before

    async def test_a_new_database_is_ours_and_private(self, path: Path) -> None:
        async with opened(path):
            pass
        assert asked(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    async def test_a_folder_that_cannot_be_made_is_a_clear_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")

        with pytest.raises(StoreUnavailable, match="choose another state_dir"):
            await SqliteStore.connect(tmp_path / "file" / "turngate.db", FrozenClock())

    async def test_a_folder_that_may_not_be_written_is_a_clear_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o555)
            child = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "tests.contracts.opening_child",
                    str(Path(folder, "turngate.db")),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
        assert child.stdout.startswith("StoreUnavailable: ")
        assert "check the folder's owner and permissions" in child.stdout

    async def test_a_path_that_cannot_be_opened_is_a_clear_error(self, path: Path) -> None:
        path.mkdir(parents=True)

        with pytest.raises(StoreUnavailable, match="check the folder's owner and permissions"):
            await SqliteStore.connect(path, FrozenClock())

    def test_a_migration_that_fails_leaves_nothing_behind(self, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "any.db", isolation_level=None)) as db:
            with pytest.raises(sqlite3.Error):
                migrate(db, [(1, "CREATE TABLE one (x);\nCREATE TABLE one (x);\n")])
            assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
            assert db.execute("PRAGMA user_version").fetchone() == (0,)

    async def test_the_next_migration_keeps_what_is_there(self, path: Path) -> None:
        async with opened(path) as store:
            session = await exchange(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            newest = our_scripts()[-1][0]
            migrate(db, [*our_scripts(), (newest + 1, "CREATE TABLE later (x);\n")])
            assert db.execute("PRAGMA user_version").fetchone() == (newest + 1,)
            db.execute(f"PRAGMA user_version = {newest}")

        async with opened(path) as store:
            assert await store.sessions() == [session]

    async def test_a_start_that_died_while_making_the_database_is_made_good(
        self, path: Path
    ) -> None:
        path.parent.mkdir()
        path.with_name("turngate.db.new").write_bytes(b"half of it")

        async with opened(path) as store:
            await exchange(store)
        assert {file.name for file in path.parent.iterdir()} == {"turngate.db", "turngate.mark"}

    async def test_an_emptied_database_is_never_taken_for_a_new_one(self, path: Path) -> None:
        async with opened(path) as store:
            await exchange(store)
        path.write_bytes(b"")

        with pytest.raises(StoreDamaged, match="is cut short"):
            await SqliteStore.connect(path, FrozenClock())

    async def test_a_locked_database_is_waited_for_then_reported(self, path: Path) -> None:
        store = await SqliteStore.connect(path, FrozenClock(), lock_timeout=0.1)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            results = await asyncio.gather(
                *(store.accept(message(id=str(n)), key_of()) for n in range(50)),
                return_exceptions=True,
            )
            other.execute("ROLLBACK")
        assert {type(result) for result in results} == {StoreUnavailable}
        assert "another process holds the database locked" in str(results[0])
        assert not (await store.accept(message(id="later"), key_of())).duplicate
        await store.close()

    async def test_a_full_disk_is_reported_and_heals_by_itself(self, path: Path) -> None:
        async with opened(path) as store:
            session = await exchange(store)
            pages = await store._writer.run(
                lambda db: db.execute("PRAGMA page_count").fetchone()[0]
            )
            await store._writer.run(
                lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone()
            )
            with pytest.raises(StoreUnavailable, match="may not grow any further"):
                await add_entries(store, session.id, [assistant("x" * 100_000)])
            await store._writer.run(
                lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchone()
            )
            await add_entries(store, session.id, [assistant("fits again")])
            assert await texts(store, session) == ["hello", "hi", "fits again"]


class TestSearchIndex:
    async def test_the_index_follows_behind_by_itself(self, path: Path) -> None:
        async with opened(path) as store:
            await exchange(store, "needle")
            await wait_until(
                lambda: asked(path, "SELECT through FROM entry_index_progress") == [(2,)]
            )
            assert len(await store.search("needle")) == 1

    async def test_it_keeps_pace_with_writers_that_never_rest(self, path: Path) -> None:
        async with opened(path) as store:
            session = (await store.open(opening())).session
            lags = []
            for number in range(40):
                await asyncio.gather(
                    *(add_entries(store, session.id, [user(f"{number}-{n}")]) for n in range(200))
                )
                rows = asked(
                    path,
                    "SELECT (SELECT max(seq) FROM entries) - through FROM entry_index_progress",
                )
                lags.append(rows[0][0])
        assert max(lags) <= 2048

    async def test_what_an_older_version_indexed_is_indexed_again(self, path: Path) -> None:
        """Finding C15: it split words in another way."""
        async with opened(path) as store:
            await exchange(store, "一下OpenAI的")
            await indexed(store)
        tamper(path, "CREATE VIRTUAL TABLE entry_index USING fts5(words, content='')")

        async with opened(path) as store:
            await indexed(store)
            assert len(await store.search("openai")) == 1
        assert asked(path, "SELECT name FROM sqlite_schema WHERE name = 'entry_index'") == []

    async def test_a_search_finds_what_is_indexed_and_what_is_not_yet(self, path: Path) -> None:
        async with opened(path) as store:
            await exchange(store, "needle one")
            await indexed(store)
            await exchange(store, "needle two", id="2")
            assert [hit.entry.text for hit in await store.search("needle")] == [
                "needle two",
                "needle one",
            ]
            assert [hit.entry.text for hit in await store.search("needle", limit=1)] == [
                "needle two"
            ]

    async def test_indexed_words_that_were_edited_or_deleted_are_gone(self, path: Path) -> None:
        async with opened(path) as store:
            session = await exchange(store, "alpha beta", answer="gamma")
            await indexed(store)
            first, second = (await store.transcript(session.id)).entries
            await store.edit_entry(session.id, first.id, (user("delta").content[0],))
            await store.delete_entry(session.id, second.id)
            found = [
                [hit.entry.text for hit in await store.search(word)]
                for word in ("alpha", "delta", "gamma")
            ]
            assert found == [[], ["delta"], []]
            await store.delete(session.id)
            assert await store.search("delta") == []
            assert (
                await store._reader.rows(
                    "SELECT rowid FROM entry_words WHERE entry_words MATCH 'delta'"
                )
                == []
            )

    async def test_without_fts5_everything_is_still_found(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Stands for an SQLite that was built without it; there is no way to take it out of this
        # one.
        monkeypatch.setattr(search_index, "_has_fts5", lambda _: False)
        async with opened(path) as store:
            session = await exchange(store, "plain needle")
            await store.edit_entry(
                session.id,
                (await store.transcript(session.id)).entries[1].id,
                (user("pin").content[0],),
            )
            assert [hit.entry.text for hit in await store.search("needle")] == ["plain needle"]
            assert len(await store.search("pin")) == 1
        assert asked(path, "SELECT name FROM sqlite_schema WHERE name = 'entry_words'") == []

    async def test_a_store_that_gains_fts5_indexes_what_it_has(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as without:
            without.setattr(
                search_index, "_has_fts5", lambda _: False
            )  # as above: another build of SQLite
            async with opened(path) as store:
                await exchange(store, "old needle")
        async with opened(path) as store:
            await indexed(store)
            assert len(await store.search("needle")) == 1


async def use_everything(path: Path) -> None:
    """Whatever state the file is in, only our own errors come out."""
    with contextlib.suppress(StoreError):
        async with opened(path) as store:
            for verb in (
                lambda: exchange(store, "again", id="again", source=dm("1")),
                store.sessions,
                lambda: store.inbox(*InboxState),
                lambda: store.outbox(*PartState),
                lambda: store.search("question"),
                lambda: store.prune(
                    empty_after=timedelta(0), archive_after=timedelta(0), forget_after=timedelta(0)
                ),
            ):
                with contextlib.suppress(StoreError):
                    await verb()


async def wait_until(condition: Callable[[], bool]) -> None:
    """Until it holds; a test that waits in vain is ended by the runner's patience, ten seconds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.05)


class TestMemory:
    async def test_the_history_kept_in_memory_is_bounded_by_sessions(self, path: Path) -> None:
        async with opened(path) as store:
            for number in range(300):
                await exchange(store, source=dm(str(number)))
            assert len(store._recent._tails) == 256

    @pytest.mark.parametrize(
        "giant",
        [
            user("x" * 1_000_000),
            replace(
                assistant(""),
                tool_calls=(ToolCall(id="1", name="write", arguments="x" * 1_000_000),),
            ),
            replace(assistant(""), reasoning=Reasoning(text="x" * 1_000_000)),
        ],
        ids=["text", "tool call", "reasoning"],
    )
    async def test_a_giant_transcript_is_not_kept_in_memory(self, path: Path, giant: Entry) -> None:
        async with opened(path) as store:
            session = await exchange(store)
            await add_entries(store, session.id, [giant])
            await begin(store, message(id="2"))
            assert store._recent._tails == {}

    async def test_history_from_memory_and_from_disk_are_the_same(self, path: Path) -> None:
        async with opened(path) as store:
            for number in range(80):
                await exchange(store, f"q{number}", id=str(number))
            warm = await begin(store, message(id="warm"))
            await store.finish(warm.turn, Outcome())
        async with opened(path) as store:
            cold = await begin(store, message(id="cold"))
        assert len(warm.history) == 50
        assert cold.history[:-1] == warm.history[1:]
