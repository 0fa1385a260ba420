"""`queue` and `trace` as an operator meets them, through the daemon and without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.commands import daemon, in_terminal, turngate
from tests.contracts.test_control_queue import ROW, STEP
from tests.fakes import message
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.ids import InboxId
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.store_values import Opening
from turngate.gateway.rules.session_keys import build_session_key
from turngate.gateway.stores.sqlite import SqliteStore

HERE = SessionSource.terminal(None)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


@pytest.fixture(params=["alone", "daemon"])
def anyhow(request: pytest.FixtureRequest, state: Path) -> Iterator[str]:
    """With a daemon and without, over a folder in which one message was refused."""
    refused(state)
    with daemon(state) if request.param == "daemon" else nullcontext():
        yield request.param


def refused(state: Path, text: str = "one too many") -> InboxId:
    """Let a message have been refused with its words."""

    async def work() -> InboxId:
        with take_lock(state) as lock:
            store = await SqliteStore.connect(lock.state.database, SystemClock())
            key = build_session_key(HERE)
            accepted = await store.accept(message(text, id="m1", source=HERE), key)
            session = (await store.open(Opening(key=key, source=HERE))).session
            await store.refuse(
                [accepted.id], "too many messages wait", session=session.id, parts=()
            )
            await store.close()
            return accepted.id

    return asyncio.run(work())


def document(state: Path, *arguments: str) -> dict[str, object]:
    """What `--json` says: one document, and nothing else anywhere."""
    result = turngate(state, *arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("anyhow")
def test_the_queue_and_its_rows_have_the_shape_of_the_contract(state: Path) -> None:
    listed = document(state, "queue", "list")
    assert set(listed) == {"inbox", "outbox"}
    (row,) = listed["inbox"]  # type: ignore[misc]
    assert set(row) == ROW
    assert (row["state"], row["reason"], listed["outbox"]) == (
        "refused",
        "too many messages wait",
        [],
    )

    shown = document(state, "queue", "show", row["id"])
    assert set(shown) == ROW | {"text", "steps", "raw"}
    assert shown["text"] == "one too many"

    for name in (row["id"], "m1"):
        trace = document(state, "trace", name)
        assert set(trace) == {"message", "steps"}
        assert all(set(step) == STEP for step in trace["steps"])  # type: ignore[attr-defined]
        assert [step["step"] for step in trace["steps"]][-1] == "refused"  # type: ignore[attr-defined]


def test_what_is_retried_is_answered_by_the_daemon_or_by_the_next_one(
    state: Path, anyhow: str
) -> None:
    again = document(state, "queue", "retry", "in1")
    assert (set(again), again["state"]) == (ROW, "waiting")

    with daemon(state) if anyhow == "alone" else nullcontext():
        while document(state, "trace", "in1")["message"]["state"] != "done":  # type: ignore[index]
            pass
        assert document(state, "queue", "list")["inbox"] == []
    result = turngate(state, "sessions", "search", "many", "--json")
    assert "one too many" in result.stdout


@pytest.mark.usefixtures("anyhow")
def test_what_is_dropped_is_gone_with_its_words(state: Path) -> None:
    assert document(state, "queue", "drop", "in1") == {"id": "in1"}

    shown = document(state, "queue", "show", "in1")
    assert (shown["state"], shown["reason"], shown["text"]) == ("refused", "dropped by hand", "")
    again = turngate(state, "queue", "retry", "in1")
    assert (again.returncode, again.stdout) == (1, "")
    assert "inbound message 1 is refused" in again.stderr


@pytest.mark.usefixtures("anyhow")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("queue", "show", "in99"), "there is no inbound message 99"),
        (("queue", "retry", "out99"), "no part"),
        (("queue", "drop", "nonsense"), "such as in12 and out7"),
        (("trace", "nowhere"), "there is no message nowhere"),
    ],
)
def test_what_is_not_there_is_an_error_on_stderr_alone(
    state: Path, arguments: tuple[str, ...], words: str
) -> None:
    for more in ((), ("--json",)):
        result = turngate(state, *arguments, *more)

        assert (result.returncode, result.stdout) == (1, "")
        assert words in result.stderr


def test_an_empty_queue_says_so(state: Path) -> None:
    assert turngate(state, "queue", "list").stdout == "No waiting work and no dead letters.\n"


@pytest.mark.usefixtures("anyhow")
def test_people_read_a_table_and_a_life_in_lines(state: Path) -> None:
    listed = turngate(state, "queue", "list").stdout
    assert listed.splitlines()[0].split() == ["ID", "STATE", "WHERE", "AGE", "TRIES", "REASON"]
    assert "too many messages wait" in listed
    assert "one too many" in turngate(state, "queue", "show", "in1").stdout

    head, *steps = turngate(state, "trace", "m1").stdout.splitlines()
    assert head == "in1 (m1) is refused"
    assert [line.split()[-1] for line in steps][:1] == ["local"]


def test_words_that_would_harm_a_terminal_do_not_reach_it(state: Path) -> None:
    refused(state, "\x1b]0;owned\x07red\u202egnp.exe")

    with in_terminal(state, "queue", "show", "in1") as terminal:
        terminal.end()

    assert "\x1b]0;" not in terminal.output
    assert "\u202e" not in terminal.output
