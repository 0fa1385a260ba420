"""
A backup under load, a daemon that is killed, a restore: nothing stored before is lost, nothing
answered twice.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.commands import turngate
from tests.crash.rig import Rig


@contextmanager
def talking(rig: Rig) -> Iterator[None]:
    """People in five chats who do not stop."""
    is_over = threading.Event()

    def talk() -> None:
        for number in count():
            if is_over.wait(0.01):
                return
            rig.say(f"chat{number % 5}", "and some words")

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def found(state: Path, token: str) -> bool:
    """Whether somebody said it, as far as the command line knows."""
    return token in turngate(state, "sessions", "search", token, "--json").stdout


def backed_up_under_load(rig: Rig, file: Path) -> str:
    """What was said and stored before the backup began."""
    rig.start()
    first = rig.say("first", "long before")
    rig.settle()
    with talking(rig):
        made: subprocess.CompletedProcess[str] = turngate(rig.state, "backup", str(file))
    assert made.returncode == 0, made.stderr
    rig.say("first", "after the backup")
    assert rig.settle()
    rig.kill()
    return first


@pytest.mark.parametrize(
    ("kind", "loses_the_database"),
    [("finding", False), ("catching-up", False), ("catching-up", True)],
)
def test_what_was_said_before_is_there_and_nothing_is_answered_twice(
    tmp_path: Path, kind: str, loses_the_database: bool
) -> None:
    """
    `catching-up` reads again what was said while nobody listened: what was answered since the
    backup is not new.
    """
    file = tmp_path / "backup.db"
    with Rig(tmp_path, kind=kind) as rig:
        first = backed_up_under_load(rig, file)
        if loses_the_database:
            (rig.state / "turngate.db").write_bytes(b"not a database any more" * 1000)
        restored = turngate(rig.state, "restore", str(file))
        assert restored.returncode == 0, restored.stderr

        rig.start()
        rig.say("first", "after the restore")
        assert rig.settle()

        verdict = rig.verdict()
        assert (verdict.lost, verdict.twice, verdict.marked) == ([], [], 0)
        assert found(rig.state, first)


def test_a_backup_is_as_good_in_another_folder(tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "backup.db", tmp_path / "elsewhere"
    with Rig(tmp_path) as rig:
        first = backed_up_under_load(rig, file)
        assert turngate(elsewhere, "restore", str(file)).returncode == 0
        rig.state = elsewhere

        rig.start()
        rig.say("first", "in another folder")
        assert rig.settle()

        verdict = rig.verdict()
        assert (verdict.lost, verdict.twice, verdict.marked) == ([], [], 0)
        assert found(elsewhere, first)
