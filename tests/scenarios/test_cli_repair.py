"""`turngate repair` and retries of unreadable events from the command line, without a daemon."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands import turngate
from tests.fakes import message
from tests.talk import exchange, key_of
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import MessageKind
from turngate.gateway.stores.sqlite import SqliteStore


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


def filled(state: Path) -> SessionId:
    """A conversation, and an event that could not be read."""

    async def fill() -> SessionId:
        store = await SqliteStore.connect(state / "turngate.db", SystemClock())
        session = await exchange(store, "one")
        event = replace(message(id="9"), kind=MessageKind.UNREADABLE, raw='{"new": 1}', text="")
        await store.set_aside(event, key_of(), "this version cannot read it")
        await store.close()
        return session.id

    return asyncio.run(fill())


def test_a_whole_database_needs_no_repair(state: Path) -> None:
    filled(state)

    shown = turngate(state, "repair")
    assert (shown.returncode, shown.stdout) == (0, "Every row is what was written.\n")


def test_a_damaged_session_is_shown_and_then_rebuilt(state: Path) -> None:
    """Finding C3."""
    session = filled(state)
    with closing(sqlite3.connect(state / "turngate.db")) as db:
        db.execute("UPDATE sessions SET preview = 'forged'")
        db.commit()

    listed = turngate(state, "sessions", "list", "--json")
    status = turngate(state, "status")
    shown = turngate(state, "repair")
    applied = turngate(state, "repair", "--apply", "--json")
    again = turngate(state, "sessions", "list", "--json")

    assert json.loads(listed.stdout) == {"sessions": []}
    assert "1 damaged row is set aside; `turngate repair` tells more." in status.stdout
    assert "can be rebuilt" in shown.stdout
    assert "Nothing was changed; `turngate repair --apply`" in shown.stdout
    done = json.loads(applied.stdout)
    assert (done["applied"], done["damaged"][0]["repaired"]) == (True, True)
    (found,) = json.loads(again.stdout)["sessions"]
    assert (found["id"], found["preview"]) == (session, "one")


def test_an_event_that_could_not_be_read_is_listed_shown_and_dropped(state: Path) -> None:
    """Finding H2: it was lost without a trace."""
    filled(state)
    (row,) = json.loads(turngate(state, "queue", "list", "--json").stdout)["inbox"]
    status = json.loads(turngate(state, "status", "--json").stdout)

    assert (row["state"], row["reason"]) == ("dead", "this version cannot read it")
    assert status["inbox"]["dead"] == 1
    assert '{"new": 1}' in turngate(state, "queue", "show", row["id"]).stdout

    retried = turngate(state, "queue", "retry", row["id"])
    assert retried.returncode == 1
    assert "only a running daemon can read it again" in retried.stderr

    assert turngate(state, "queue", "drop", row["id"]).returncode == 0
    assert json.loads(turngate(state, "queue", "list", "--json").stdout)["inbox"] == []
