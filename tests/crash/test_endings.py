"""The real daemon ends what is due by itself and tells its agent, killed in between or not."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.crash.agents import AT_WORK
from tests.crash.rig import PATIENCE, Rig

IDLE = 1.5
LISTENING = ("command", "http", "python")


def endings(folder: Path, count: int) -> list[dict[str, Any]]:
    """What agents were told, once they were told that often."""
    file = folder / "endings"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        told = file.read_text().splitlines() if file.exists() else []
        if len(told) >= count:
            return [json.loads(line) for line in told]
        time.sleep(0.05)
    raise AssertionError(f"nobody was told {count} times")


def in_store(rig: Rig, query: str) -> list[tuple[Any, ...]]:
    """As it is on disk."""
    with closing(sqlite3.connect(rig.state / "turngate.db")) as db:
        return db.execute(query).fetchall()


@pytest.mark.parametrize("kind", LISTENING)
def test_a_conversation_that_rests_is_ended_before_the_next_message_and_its_agent_is_told(
    tmp_path: Path, kind: str
) -> None:
    with AT_WORK[kind](tmp_path) as agent, Rig(tmp_path, agent=agent, idle=IDLE) as rig:
        rig.start()
        rig.say("a", "remember the milk")
        assert rig.settle()
        (told,) = endings(tmp_path, 1)

        assert (told["type"], told["session"]["reason"]) == ("session_end", "idle")
        said = [entry["content"][0]["text"] for entry in told["history"]]
        assert len(said) == 2
        assert "remember the milk" in said[0]
        assert in_store(rig, "SELECT end_reason, current FROM sessions") == [("idle", 1)]

        rig.say("a", "and now")
        assert rig.settle()
        assert (rig.verdict().lost, rig.verdict().twice) == ([], [])
        assert len(in_store(rig, "SELECT id FROM sessions")) == 2
        assert rig.kill(signal.SIGTERM) == 0


def test_a_daemon_that_was_killed_between_the_end_and_the_telling_tells_after_its_return(
    tmp_path: Path,
) -> None:
    with AT_WORK["python"](tmp_path) as agent, Rig(tmp_path, agent=agent, idle=IDLE) as rig:
        rig.start("session-ended:1")
        rig.say("a", "remember the milk")
        assert rig.ended() == -signal.SIGKILL
        assert in_store(rig, "SELECT end_reason FROM sessions") == [("idle",)]

        rig.start()
        (told,) = endings(tmp_path, 1)
        rig.say("a", "and now")
        assert rig.settle()

        assert [told["session"]["id"]] == [
            row[0] for row in in_store(rig, "SELECT id FROM sessions ORDER BY n LIMIT 1")
        ]
        assert (rig.verdict().lost, rig.verdict().twice) == ([], [])


def test_an_agent_that_fails_is_tried_three_times_across_restarts_and_then_let_go(
    tmp_path: Path,
) -> None:
    (tmp_path / "fails").touch()
    with AT_WORK["python"](tmp_path) as agent, Rig(tmp_path, agent=agent, idle=IDLE) as rig:
        rig.start()
        rig.say("a", "remember the milk")
        assert len(endings(tmp_path, 1)) == 1
        rig.kill()
        assert in_store(rig, "SELECT attempts FROM endings") == [(1,)]
        with closing(sqlite3.connect(rig.state / "turngate.db")) as db, db:
            db.execute(
                "UPDATE endings SET attempts = 2, not_before = 0"
            )  # as after another try, half an hour later
        rig.start()
        assert len(endings(tmp_path, 2)) == 2
        deadline = time.monotonic() + PATIENCE
        while in_store(rig, "SELECT * FROM endings") and time.monotonic() < deadline:
            time.sleep(0.05)
        rig.kill(signal.SIGTERM)

        assert in_store(rig, "SELECT * FROM endings") == []
        assert len(endings(tmp_path, 2)) == 2
        assert (tmp_path / "daemon.log").read_text().count(
            "an agent could not be notified that a session ended"
        ) == 1
