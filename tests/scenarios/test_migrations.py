"""
A new version meets the database of the one before: killed, without room, locked, or going back,
nothing is lost.

The next version is this one with two more migrations, in a folder of its own, and is started as
itself.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands import PATIENCE, ROOT, environment, turngate
from tests.contracts.test_backup import filled
from turngate.gateway.stores.sqlite.migrations import (
    APPLICATION_ID,
    Script,
    migrate,
    our_scripts,
)
from turngate.gateway.stores.sqlite.verify import verify

NEWEST = max(number for number, _ in our_scripts())
MADE_UP: list[Script] = [
    (
        NEWEST + 1,
        """
        CREATE TABLE notes (n INTEGER PRIMARY KEY, seq INTEGER NOT NULL, words TEXT NOT NULL);
        INSERT INTO notes (seq, words) SELECT seq, text FROM entries WHERE text IS NOT NULL;
        CREATE INDEX notes_by_seq ON notes (seq);
        ALTER TABLE entries ADD COLUMN noted INTEGER;
        UPDATE entries SET noted = 1;
        """,
    ),
    (NEWEST + 2, "CREATE TABLE more (x);\nINSERT INTO more SELECT count(*) FROM notes;\n"),
]
LARGE: Script = (
    NEWEST + 1,
    "CREATE TABLE large (x);\nINSERT INTO large VALUES (zeroblob(4000000));\n",
)

# Dies at the point of a migration that it is told by number; 0: at none.
ARMED = """
import os, signal, sys
from turngate.gateway.domain.crashpoints import arm
left = int(sys.argv.pop(1))
def tell(name):
    global left
    left -= name.startswith("migration")
    if name.startswith("migration") and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
arm(tell)
"""
STARTS = f"{ARMED}\nfrom turngate.gateway.__main__ import main\nmain()\n"
MIGRATES = f"""{ARMED}
import json, sqlite3
from turngate.gateway.stores.sqlite.migrations import migrate
db = sqlite3.connect(sys.argv[1], isolation_level=None)
migrate(db, [tuple(script) for script in json.load(sys.stdin)])
db.close()
"""
IN_A_SMALL_WORLD = (
    "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Where the daemon of both versions works."""
    return tmp_path / "state"


@pytest.fixture
def database(state: Path) -> Path:
    return state / "turngate.db"


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """The folder it runs from."""
    folder = tmp_path / "next"
    shutil.copytree(
        ROOT / "turngate", folder / "turngate", ignore=shutil.ignore_patterns("__pycache__")
    )
    schema = folder / "turngate" / "gateway" / "stores" / "sqlite" / "schema"
    for number, script in MADE_UP:
        (schema / f"{number:03}_made_up.sql").write_text(script)
    return folder


def run_next(
    next_version: Path, state: Path, *arguments: str, die_at: int = 0, first: str = ""
) -> subprocess.Popen[str]:
    """A command of the next version, `run` included."""
    return subprocess.Popen(
        [sys.executable, "-c", first + STARTS, str(die_at), *arguments, "--state-dir", str(state)],
        cwd=next_version,
        env=environment(state.parent, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran_next(
    next_version: Path, state: Path, *arguments: str, die_at: int = 0, first: str = ""
) -> tuple[int, str]:
    """Its status, and what it said of its errors."""
    with run_next(next_version, state, *arguments, die_at=die_at, first=first) as child:
        _, errors = child.communicate(timeout=PATIENCE)
    return child.returncode, errors


def without_web(folder: Path) -> str:
    file = folder / "next.yaml"
    file.write_text("web: {listen: null}\n")
    return str(file)


def of_the_first_schema(path: Path) -> None:
    """As the first version left it, with rows in several tables."""
    path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        migrate(db, our_scripts()[:1])
        for number in range(50):
            text = f"what was said {number}"
            db.execute(
                "INSERT INTO entries (session, role, origin, at, text, checksum) VALUES (1, "
                "'user', 'chat', 1, ?, 7)",
                (text,),
            )
            db.execute(
                "INSERT INTO inbox (key, message, state, attempts, received_at, settled_at, "
                "checksum)"
                " VALUES ('k', '{}', 'done', 1, 1, 1, 7)"
            )
            db.execute("INSERT INTO seen VALUES (?, ?, 1)", (text, number))


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """What people said and what was heard of, in the columns that every version has."""
    with closing(sqlite3.connect(path)) as db:
        return {
            "entries": db.execute(
                "SELECT seq, session, role, text, checksum FROM entries ORDER BY seq"
            ).fetchall(),
            "inbox": db.execute("SELECT n, key, message, state FROM inbox ORDER BY n").fetchall(),
            "seen": db.execute("SELECT * FROM seen ORDER BY event").fetchall(),
        }


def schema(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrated(
    path: Path, scripts: list[Script], *, die_at: int = 0, first: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", first + MIGRATES, str(die_at), str(path)],
        input=json.dumps(scripts),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_a_kill_at_every_statement_of_every_migration_loses_nothing(database: Path) -> None:
    of_the_first_schema(database)
    before, scripts = contents(database), [*our_scripts(), *MADE_UP]
    version, point, kills = schema(database), 1, 0
    while migrated(database, scripts, die_at=point).returncode == -signal.SIGKILL:
        assert contents(database) == before
        # What was finished is not begun again, so the points are counted anew behind it.
        version, point, kills = (
            schema(database),
            point + 1 if schema(database) == version else 1,
            kills + 1,
        )

    assert kills >= 2 + sum(script.count(";") for _, script in MADE_UP)
    assert (contents(database), schema(database)) == (before, NEWEST + 2)


def test_a_disk_that_is_full_in_the_middle_leaves_what_was_there(database: Path) -> None:
    of_the_first_schema(database)
    scripts = [*our_scripts(), LARGE]
    assert migrated(database, our_scripts()).returncode == 0
    before = contents(database)

    full = migrated(database, scripts, first=IN_A_SMALL_WORLD)

    assert full.returncode == 1
    assert (contents(database), schema(database)) == (before, NEWEST)
    assert migrated(database, scripts).returncode == 0
    assert (contents(database), schema(database)) == (before, NEWEST + 1)


def test_a_database_that_somebody_has_locked_is_migrated_when_he_has_let_go(database: Path) -> None:
    of_the_first_schema(database)
    scripts = [*our_scripts(), *MADE_UP]
    before = contents(database)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as db,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            migrate(db, scripts)
        other.execute("ROLLBACK")
    assert contents(database) == before

    assert migrated(database, scripts).returncode == 0
    assert contents(database) == before


class TestTheNextVersion:
    """As an operator meets it: the daemon itself."""

    async def test_killed_on_its_way_it_has_kept_a_copy_and_goes_on_the_next_time(
        self, next_version: Path, state: Path, database: Path
    ) -> None:
        await filled(database, "one", "two")
        before, config = contents(database), without_web(state.parent)

        died, _ = ran_next(next_version, state, "run", "--config", config, die_at=3)

        assert died == -signal.SIGKILL
        assert (contents(database), schema(database)) == (before, NEWEST)
        kept = state / "backups" / f"turngate-before-{NEWEST + 1:03}.db"
        assert verify(kept).entries == 4
        with run_next(next_version, state, "run", "--config", config) as child:
            assert child.stdout is not None
            assert "The gateway runs" in child.stdout.readline()
            child.terminate()
            child.communicate(timeout=PATIENCE)
        assert child.returncode == 0
        assert (contents(database), schema(database)) == (before, NEWEST + 2)
        with closing(sqlite3.connect(database)) as db:
            assert db.execute("SELECT x FROM more").fetchall() == [(4,)]

    async def test_without_room_for_a_copy_it_does_not_start_says_why_and_changes_nothing(
        self, next_version: Path, state: Path, database: Path
    ) -> None:
        await filled(database, *(f"{number} {'word ' * 500}" for number in range(300)))
        before = database.read_bytes()
        assert len(before) > 1_000_000

        status, errors = ran_next(
            next_version,
            state,
            "run",
            "--config",
            without_web(state.parent),
            first=IN_A_SMALL_WORLD,
        )

        assert status == 74
        assert "a copy of it is kept" in errors
        assert "Nothing was changed" in errors
        assert database.read_bytes() == before

    async def test_what_it_wrote_is_refused_by_this_one_with_the_cure_and_its_copy_leads_back(
        self, next_version: Path, state: Path, database: Path
    ) -> None:
        await filled(database, "one")
        before = contents(database)
        assert ran_next(next_version, state, "status")[0] == 3
        newer = database.read_bytes()

        refused = turngate(state, "run", "--config", without_web(state.parent))

        assert refused.returncode == 74
        assert f"schema {NEWEST + 2}" in refused.stderr
        assert "restore a backup made before the upgrade" in refused.stderr
        assert database.read_bytes() == newer
        kept = state / "backups" / f"turngate-before-{NEWEST + 1:03}.db"
        assert turngate(state, "restore", str(kept)).returncode == 0
        assert contents(database)["entries"] == before["entries"]

    async def test_it_restores_a_backup_of_this_one(
        self, next_version: Path, state: Path, database: Path
    ) -> None:
        await filled(database, "one")
        before, file = contents(database), state.parent / "backup.db"
        assert turngate(state, "backup", str(file)).returncode == 0

        status, errors = ran_next(next_version, state, "restore", str(file))

        assert (status, errors) == (0, "")
        assert (contents(database)["entries"], schema(database)) == (before["entries"], NEWEST + 2)


def test_the_made_up_migrations_are_ours(database: Path) -> None:
    """A database that is not ours would be refused, and the tests above would show nothing."""
    of_the_first_schema(database)
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
