"""`turngate backup` and `turngate restore` as an operator uses them, with and without a daemon."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.commands import PATIENCE, daemon, in_terminal, turngate
from tests.contracts.test_backup import filled, flip
from turngate.gateway.stores.sqlite.verify import verify


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """In which something was said."""
    folder = tmp_path / "state"
    asyncio.run(filled(folder / "turngate.db", "one", "two"))
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the backup goes."""
    return tmp_path / "backup.db"


def sessions(state: Path) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(
        turngate(state, "sessions", "list", "--json").stdout
    )["sessions"]
    return listed


def test_a_backup_without_a_daemon_says_what_it_holds_and_what_it_leaves_out(
    state: Path, file: Path
) -> None:
    turngate(state, "status")
    key = (state / "privacy.key").read_bytes()
    result = turngate(state, "backup", str(file))

    assert (result.returncode, result.stderr) == (0, "")
    assert f"Wrote {file}: 1 session, 4 entries, " in result.stdout
    for word in ("privacy.key", "web.key", "config", "secrets", "files", "pseudonym"):
        assert word in result.stdout
    assert key not in file.read_bytes()
    assert verify(file).rows_checked


def test_it_can_be_put_back_and_everything_is_there(
    state: Path, file: Path, tmp_path: Path
) -> None:
    made = json.loads(turngate(state, "backup", str(file), "--json").stdout)
    before = sessions(state)
    result = turngate(tmp_path / "elsewhere", "restore", str(file), "--json")

    restored = json.loads(result.stdout)
    assert (
        (made["sessions"], made["entries"]) == (restored["sessions"], restored["entries"]) == (1, 4)
    )
    assert restored["replaced"] is None
    assert sessions(tmp_path / "elsewhere") == before


def test_what_was_there_is_kept_and_named(state: Path, file: Path) -> None:
    turngate(state, "backup", str(file))
    result = turngate(state, "restore", str(file))

    kept = re.search(r"kept as (\S+);", result.stdout)
    assert kept is not None
    assert verify(Path(kept[1])).entries == 4
    assert "turngate pair list" in result.stdout


def test_a_file_that_is_there_is_replaced_only_by_force(state: Path, file: Path) -> None:
    file.write_text("mine")
    refused = turngate(state, "backup", str(file))

    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert file.read_text() == "mine"
    assert turngate(state, "backup", str(file), "--force").returncode == 0
    assert verify(file).entries == 4


@pytest.mark.parametrize("name", ["turngate.db", "privacy.key", "new.db"])
def test_nothing_in_the_state_folder_can_be_overwritten(state: Path, name: str) -> None:
    before = (state / "turngate.db").read_bytes()
    refused = turngate(state, "backup", str(state / name), "--force")

    assert refused.returncode == 1
    assert "choose another folder" in refused.stderr
    assert (state / "turngate.db").read_bytes() == before


def test_a_damaged_backup_is_refused_before_anything_is_changed(state: Path, file: Path) -> None:
    turngate(state, "backup", str(file))
    flip(file, b"two")
    before = (state / "turngate.db").read_bytes()
    refused = turngate(state, "restore", str(file))

    assert refused.returncode == 74
    assert "Nothing was changed" in refused.stderr
    assert (state / "turngate.db").read_bytes() == before


def test_a_damaged_database_gives_no_backup(state: Path, file: Path) -> None:
    flip(state / "turngate.db", b"two")
    refused = turngate(state, "backup", str(file))

    assert refused.returncode == 74
    assert "removed" in refused.stderr
    assert not file.exists()


def test_a_folder_that_is_not_there_is_told(state: Path, tmp_path: Path) -> None:
    refused = turngate(state, "backup", str(tmp_path / "nowhere" / "backup.db"))

    assert refused.returncode == 74
    assert "No such file or directory" in refused.stderr


def test_a_restore_needs_the_daemon_to_be_down_and_a_backup_does_not(
    state: Path, file: Path
) -> None:
    with daemon(state) as running:
        assert turngate(state, "backup", str(file)).returncode == 0
        refused = turngate(state, "restore", str(file))
        status = json.loads(turngate(state, "status", "--json").stdout)
        people = turngate(state, "status").stdout

    assert refused.returncode == 73
    assert f"process {running.pid}" in refused.stderr
    assert verify(file).entries == 4
    assert status["backup"] == {"folder": str(state / "backups"), "last_at": None, "reason": None}
    assert f"No backup yet, in {state / 'backups'}." in people
    assert running.returncode == 0


def test_a_backup_of_a_killed_daemon_holds_what_is_in_its_log_alone(
    state: Path, file: Path
) -> None:
    with daemon(state) as running:
        turngate(state, "chat", said="said last\n")
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert turngate(state, "backup", str(file)).returncode == 0

    with closing(sqlite3.connect(file)) as db:
        assert ("said last",) in db.execute("SELECT text FROM entries").fetchall()


def test_the_newest_of_an_earlier_run_is_shown_by_the_status(state: Path) -> None:
    folder = state / "backups"
    folder.mkdir()
    (folder / "turngate-20260504T120000Z.db").write_text("an old one")
    with daemon(state):
        status = json.loads(turngate(state, "status", "--json").stdout)

    assert status["backup"]["last_at"] == "2026-05-04T12:00:00+00:00"


def until_told(state: Path, is_so: Callable[[dict[str, object]], object]) -> dict[str, object]:
    """What the status says of backups, once it says so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so(backup := json.loads(turngate(state, "status", "--json").stdout)["backup"]):
        assert time.monotonic() < deadline, backup
    return backup


def test_the_daemon_makes_them_by_itself_tells_what_fails_and_goes_on(state: Path) -> None:
    folder = state.parent / "elsewhere"
    folder.write_text("no folder")
    with daemon(state) as running:
        (state.parent / "daemon.yaml").write_text(
            "web: {listen: null}\nbackups: {every: 1s, keep: 2, folder: elsewhere}\n"
        )
        running.send_signal(signal.SIGHUP)
        failed = until_told(state, lambda backup: backup["reason"])
        people = turngate(state, "status").stderr
        folder.unlink()
        made = until_told(state, lambda backup: backup["last_at"] and not backup["reason"])

    assert (failed["folder"], failed["last_at"]) == (str(folder), None)
    assert "set backups.folder" in str(failed["reason"])
    assert "The last attempt failed: " in people
    assert made["folder"] == str(folder)
    kept = sorted(folder.iterdir())
    assert 1 <= len(kept) <= 2
    assert verify(kept[-1]).entries == 4
    assert re.fullmatch(r"turngate-\d{8}T\d{6}Z\.db", kept[-1].name)


def test_on_a_terminal_it_says_the_same(state: Path, file: Path) -> None:
    with in_terminal(state, "backup", str(file)) as terminal:
        terminal.wait_for("Left out: privacy.key")
        assert terminal.end() == 0
