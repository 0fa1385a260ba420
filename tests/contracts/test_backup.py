"""
A backup is one moment of the database, whole and verified; a restore loses nothing and repeats
nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.contracts.test_sqlite import asked, opened, tamper
from tests.fakes import NOON, dm, message
from tests.talk import begin, exchange, key_of, texts
from turngate.gateway.domain.crashpoints import UPKEEP_POINTS
from turngate.gateway.domain.errors import (
    Refused,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.outbox import PartState, Sent
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.stores.sqlite.backup import back_up
from turngate.gateway.stores.sqlite.post_restore import REASON
from turngate.gateway.stores.sqlite.restore import restore
from turngate.gateway.stores.sqlite.verify import CHECKED, verify

RESTORE_STEPS = [point for point in UPKEEP_POINTS if point.startswith("restore")]

KILLED = """
import os, signal, sys
from pathlib import Path
from turngate.gateway.domain.crashpoints import arm
from turngate.gateway.stores.sqlite.restore import restore
from tests.fakes import NOON
arm(lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == sys.argv[1] else None)
restore(Path(sys.argv[2]), Path(sys.argv[3]), NOON)
"""
WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from turngate.gateway.domain.errors import StoreError
from turngate.gateway.stores.sqlite.backup import back_up
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    back_up(Path(sys.argv[1]), Path(sys.argv[2]))
except StoreError as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database goes."""
    return tmp_path / "state" / "turngate.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where the backup goes."""
    return tmp_path / "backup.db"


async def filled(path: Path, *said: str) -> None:
    """A database in which that was said, each answered and delivered."""
    async with opened(path) as store:
        for number, text in enumerate(said):
            await exchange(store, text, id=f"{text}-{number}")
        for part in await store.outbox(PartState.PENDING):
            await store.record_sent(part.id, Sent(message_id="p", at=NOON))


def open_files(path: Path) -> int:
    """How often this process has the database, its log and the like open."""
    files = [Path(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names are enough
    return sum(file.is_symlink() and str(file.readlink()).startswith(str(path)) for file in files)


async def said_in(path: Path) -> list[str]:
    """What people said there."""
    async with opened(path) as store:
        found = [await texts(store, session) for session in await store.sessions()]
    return [text for session in found for text in session if text != "hi"]


def beside(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


def flip(path: Path, words: bytes) -> None:
    """One bit of the first letter of these words, wherever they stand."""
    found = bytearray(path.read_bytes())
    at = found.index(words)
    found[at] ^= 1
    path.write_bytes(bytes(found))


class TestBackingUp:
    async def test_what_was_acknowledged_before_it_began_is_in_it_while_others_go_on(
        self, path: Path, target: Path
    ) -> None:
        numbers = count()

        async def talk(store: SqliteStore, acknowledged: list[str]) -> None:
            while True:
                text = f"text {next(numbers)}"
                await exchange(store, text, id=text)
                acknowledged.append(text)

        async with opened(path) as store:
            acknowledged: list[str] = []
            talking = [asyncio.create_task(talk(store, acknowledged)) for _ in range(8)]
            while len(acknowledged) < 100:
                await asyncio.sleep(0.01)
            before = list(acknowledged)
            await store.back_up(target)
            assert len(acknowledged) > len(before)
            for each in talking:
                each.cancel()
            await asyncio.gather(*talking, return_exceptions=True)

        assert set(before) <= {text for (text,) in asked(target, "SELECT text FROM entries")}
        assert verify(target).rows_checked

    async def test_it_is_for_its_owner_alone_and_nothing_is_left_beside_it(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one")
        contents = back_up(path, target)

        assert (contents.sessions, contents.entries, contents.open_work) == (1, 2, 0)
        assert target.stat().st_mode & 0o777 == 0o600
        assert beside(target) == ["backup.db", "state"]

    async def test_it_leaves_as_many_files_open_as_there_were(
        self, path: Path, target: Path
    ) -> None:
        async with opened(path) as store:
            await exchange(store, "hello")
            await store.sessions()
            before = open_files(path)
            for _ in range(3):
                await store.back_up(target)
            assert open_files(path) == before

    async def test_a_copy_of_a_damaged_database_is_no_backup_and_leaves_the_earlier_one(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one", "a longer text with a byte to flip")
        target.write_text("the earlier one")
        flip(path, b"longer text")

        with pytest.raises(StoreDamaged, match=r"row \d+ of entries is not what was written"):
            back_up(path, target)
        assert (target.read_text(), beside(target)) == ("the earlier one", ["backup.db", "state"])

    async def test_a_damaged_row_that_a_backup_finds_is_set_aside(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one", "a longer text with a byte to flip")
        flip(path, b"longer text")

        async with opened(path) as store:
            await store.back_up(target)
            assert not (await store.accept(message("more", id="more"), key_of())).duplicate
        assert asked(target, "SELECT place FROM damaged") == [("entries",)]
        restore(target, path, NOON)

    async def test_a_damaged_page_is_found(self, path: Path, target: Path) -> None:
        await filled(path, *(f"text {number} " * 20 for number in range(200)))
        page = (
            int(
                asked(path, "SELECT rootpage FROM sqlite_master WHERE name = 'entries_of_session'")[
                    0
                ][0]
            )
            - 1
        )
        with path.open("r+b") as file:
            file.seek(page * 4096)
            file.write(os.urandom(4096))

        with pytest.raises(StoreDamaged, match="removed"):
            back_up(path, target)
        assert not target.exists()

    async def test_a_state_that_does_not_exist_is_found(self, path: Path, target: Path) -> None:
        await filled(path, "one")
        tamper(path, "UPDATE inbox SET state = 'dona'")

        with pytest.raises(StoreDamaged, match="row 1 of inbox"):
            back_up(path, target)

    async def test_every_table_with_a_checksum_is_checked(self, path: Path) -> None:
        await filled(path)
        tables = asked(
            path, "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%checksum%'"
        )

        assert {each.table for each in CHECKED} == {name for (name,) in tables}

    async def test_a_disk_without_room_is_told_and_leaves_nothing(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one")
        child = [sys.executable, "-c", WITHOUT_ROOM, str(path), str(target)]
        said = subprocess.run(child, capture_output=True, text=True, check=True).stdout

        assert said.startswith("StoreUnavailable: ")
        assert str(target.parent) in said
        assert beside(target) == ["state"]

    async def test_one_that_nobody_waits_for_any_more_is_broken_off(
        self, path: Path, target: Path
    ) -> None:
        async with opened(path) as store:
            await exchange(store)
            working = asyncio.create_task(store.back_up(target))
            await asyncio.sleep(0)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            await exchange(store, id="2")

        assert beside(target) == ["state"]

    async def test_two_at_once_into_one_file_do_not_mix(self, path: Path, target: Path) -> None:
        await filled(path, "one")
        again: list[str] = []

        def tell(what: str, done: int, whole: int) -> None:
            with pytest.raises(Refused, match="being written by another"):
                back_up(path, target)
            again.append(what)

        back_up(path, target, tell)

        assert again
        assert verify(target).entries == 2

    def test_where_there_is_no_database_there_is_no_backup(self, path: Path, target: Path) -> None:
        with pytest.raises(Refused, match="no database"):
            back_up(path, target)
        assert not target.exists()


class TestRestoring:
    async def test_what_was_said_then_is_back_and_what_was_there_is_kept(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        await filled(path, "two")

        restored = restore(target, path, NOON)

        assert await said_in(path) == ["one"]
        assert restored.aside is not None
        restore(restored.aside, path, NOON + timedelta(seconds=1))
        assert await said_in(path) == ["one", "two"]

    async def test_a_log_of_the_old_one_goes_with_it_and_never_into_the_new_one(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        child = [sys.executable, "-m", "tests.contracts.acknowledging_child", str(path)]
        with subprocess.Popen(child, stdout=subprocess.PIPE) as killed:
            assert killed.stdout is not None
            killed.stdout.readline()
            killed.kill()
        assert path.with_name("turngate.db-wal").stat().st_size

        restored = restore(target, path, NOON)

        assert await said_in(path) == ["one"]
        assert asked(path, "SELECT count(*) FROM inbox WHERE state != 'done'") == [(0,)]
        assert restored.aside is not None
        async with opened(restored.aside) as store:
            assert await store.inbox(InboxState.WAITING)

    @pytest.mark.parametrize("step", RESTORE_STEPS)
    async def test_a_kill_at_any_step_leaves_the_old_one_or_the_new_one(
        self, path: Path, target: Path, step: str
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        await filled(path, "two")
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, step, str(target), str(path)], check=False
        )

        assert killed.returncode == -signal.SIGKILL
        if step == "restore-copied":
            assert await said_in(path) == ["one", "two"]
            restore(target, path, NOON)
        assert await said_in(path) == ["one"]
        aside = next(path.parent.glob("turngate.db.replaced-*Z"))
        assert await said_in(aside) == ["one", "two"]
        restore(target, path, NOON + timedelta(seconds=1))
        assert not list(path.parent.glob("*.part*")) + list(path.parent.glob("*restored*"))

    @pytest.mark.parametrize(
        ("spoil", "error"),
        [
            (lambda file: file.write_text("words"), StoreDamaged),
            (lambda file: file.write_bytes(b""), StoreDamaged),
            (lambda file: file.write_bytes(file.read_bytes()[:-4096]), StoreDamaged),
            (lambda file: flip(file, b"one"), StoreDamaged),
            (lambda file: tamper(file, "PRAGMA application_id = 7"), StoreDamaged),
            (lambda file: tamper(file, "PRAGMA user_version = 999"), StoreTooNew),
            (lambda file: file.unlink(), Refused),
        ],
        ids=["text", "empty", "cut", "flipped", "foreign", "newer", "missing"],
    )
    async def test_what_cannot_be_restored_changes_nothing(
        self, path: Path, target: Path, spoil: object, error: type[StoreError]
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        await filled(path, "two")
        spoil(target)  # type: ignore[operator]
        before = beside(path)

        with pytest.raises(error):
            restore(target, path, NOON)
        assert (await said_in(path), beside(path)) == (["one", "two"], before)

    async def test_the_database_itself_is_no_backup(self, path: Path) -> None:
        await filled(path, "one")
        with pytest.raises(Refused, match="the database itself"):
            restore(path, path, NOON)

    async def test_a_damaged_database_is_replaced_and_kept_as_it_is(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        path.write_bytes(os.urandom(5000))
        damaged = path.read_bytes()

        restored = restore(target, path, NOON)

        assert await said_in(path) == ["one"]
        assert restored.aside is not None
        assert restored.aside.read_bytes() == damaged

    async def test_a_folder_without_a_database_gets_one(
        self, path: Path, target: Path, tmp_path: Path
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()

        assert restore(target, elsewhere / "turngate.db", NOON).aside is None
        assert await said_in(elsewhere / "turngate.db") == ["one"]

    async def test_what_root_restores_belongs_to_whoever_has_the_folder(
        self, path: Path, target: Path, tmp_path: Path
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        os.chown(elsewhere, *((65534, 65534) if os.geteuid() == 0 else (-1, -1)))

        restore(target, elsewhere / "turngate.db", NOON)

        assert (elsewhere / "turngate.db").owner() == elsewhere.owner()


class TestWhatHappenedSince:
    async def test_open_work_rests_until_somebody_takes_it_up(
        self, path: Path, target: Path
    ) -> None:
        async with opened(path) as store:
            await exchange(store, id="1")
            await begin(store, message("being answered", id="2"))
            await store.accept(message("waits", id="3"), key_of())
        back_up(path, target)
        restore(target, path, NOON)

        async with opened(path) as store:
            assert await store.inbox(InboxState.WAITING, InboxState.RUNNING) == []
            assert await store.outbox(PartState.PENDING, PartState.SENDING, PartState.FAILED) == []
            dead = await store.inbox(InboxState.DEAD)
            assert [(item.message.text, item.reason) for item in dead] == [
                ("being answered", REASON),
                ("waits", REASON),
            ]
            assert [part.reason for part in await store.outbox(PartState.DEAD)] == [REASON]
            again = [await store.requeue(item.id) for item in dead]
            assert [item.state for item in again] == [InboxState.RUNNING, InboxState.WAITING]
            await store.requeue_part((await store.outbox(PartState.DEAD))[0].id)

    async def test_what_only_moved_goes_on(self, path: Path, target: Path, tmp_path: Path) -> None:
        async with opened(path) as store:
            await exchange(store, id="1")
            await store.accept(message("waits", id="3"), key_of())
        back_up(path, target)
        elsewhere = tmp_path / "turngate.db"
        restore(target, elsewhere, NOON, moved=True)

        async with opened(elsewhere) as store:
            assert [item.message.text for item in await store.inbox(InboxState.WAITING)] == [
                "waits"
            ]
            assert len(await store.outbox(PartState.PENDING)) == 1
            assert (await store.account("telegram", "main")).received_at == NOON

    async def test_a_message_answered_since_is_known_and_one_not_answered_is_taken_again(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        async with opened(path) as store:
            await exchange(store, "answered since", id="2")
            await store.accept(message("not answered", id="3"), key_of())
        restore(target, path, NOON)

        async with opened(path) as store:
            assert (await store.accept(message("answered since", id="2"), key_of())).duplicate
            assert not (await store.accept(message("not answered", id="3"), key_of())).duplicate

    async def test_nothing_is_read_again_if_nobody_knows_what_was_answered_since(
        self, path: Path, target: Path
    ) -> None:
        await filled(path, "one")
        back_up(path, target)
        path.write_bytes(os.urandom(5000))
        restore(target, path, NOON)

        async with opened(path) as store:
            noted = await store.account("telegram", "main")
        assert (noted.received_at, noted.behind_since) == (None, None)

    async def test_no_number_is_given_twice(self, path: Path, target: Path) -> None:
        await filled(path, "one")
        back_up(path, target)
        async with opened(path) as store:
            since = await store.accept(message(id="8"), key_of())
        restore(target, path, NOON)

        async with opened(path) as store:
            new = await store.accept(message(id="9"), key_of(dm("7")))
        assert new.id > since.id


async def test_a_start_that_cannot_keep_a_copy_before_it_migrates_changes_nothing(
    path: Path,
) -> None:
    """
    The schema of today, said to be older: what would be migrated is not touched before its copy is
    whole.
    """
    await filled(path, "one")
    tamper(path, "PRAGMA user_version = 0")
    path.with_name("backups").write_text("no folder")
    before = path.read_bytes()

    with pytest.raises(StoreUnavailable, match="Nothing was changed"):
        await said_in(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (0,)
    assert path.read_bytes() == before
