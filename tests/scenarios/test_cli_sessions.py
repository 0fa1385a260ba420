"""`sessions`, `status` and `web link`, as an operator meets them, with a daemon and without one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.commands import errors_without_reader, in_terminal, scripted_gateway, turngate
from tests.contracts.test_control_sessions import ENTRY, SESSION, STATUS, TOKENS
from tests.fakes import add_entries, assistant, dm, message
from tests.talk import begin, exchange
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Outcome
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.stores.sqlite import SqliteStore

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202egnp.exe\u2066 [bold]x[/bold] :smile: \r\n\x00end"
# What a terminal would act on: every control but the newline, and whatever turns the writing round.
HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


def fill(state: Path, work: Callable[[Store], Awaitable[Session]]) -> Session:
    """Let something have been said."""

    async def opened() -> Session:
        with take_lock(state) as lock:
            store = await SqliteStore.connect(lock.state.database, SystemClock())
            session = await work(store)
            await store.close()
            return session

    return asyncio.run(opened())


def talk(
    state: Path,
    text: str = "where is the green bottle",
    *,
    user: str = "42",
    title: str | None = None,
) -> Session:
    async def work(store: Store) -> Session:
        session = await exchange(
            store, text, source=dm(user), id=f"{user}-{text[:8]}", answer="in the cellar"
        )
        await store.rename(session.id, title)
        return session

    return fill(state, work)


def test_the_listing_is_one_document_of_the_shape_of_the_contract(state: Path) -> None:
    session = talk(state)

    result = turngate(state, "sessions", "list", "--json")

    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert set(document) == {"sessions"}
    assert [set(one) for one in document["sessions"]] == [SESSION]
    assert set(document["sessions"][0]["tokens"]) == TOKENS
    assert document["sessions"][0]["id"] == session.id


def test_one_session_is_one_document_of_the_shape_of_the_contract(state: Path) -> None:
    session = talk(state)

    result = turngate(state, "sessions", "show", session.id[:8], "--json")

    document = json.loads(result.stdout)
    assert set(document) == SESSION | {"entries"}
    assert [set(entry) for entry in document["entries"]] == [ENTRY, ENTRY]
    assert document["entries"][0]["content"] == [
        {"type": "text", "text": "where is the green bottle"}
    ]


def test_the_status_is_one_document_of_the_shape_of_the_contract(state: Path) -> None:
    document = json.loads(turngate(state, "status", "--json").stdout)

    assert set(document) == STATUS
    assert (document["ready"], document["pid"], document["since"]) == (False, None, None)
    assert {name: set(document[name]) for name in ("lanes", "inbox", "outbox", "store")} == {
        "lanes": {"busy", "waiting"},
        "inbox": {"waiting", "dead"},
        "outbox": {"waiting", "dead"},
        "store": {"ok", "reason", "damaged_rows", "log_bytes", "no_checkpoint_since"},
    }


def test_people_get_a_table(state: Path) -> None:
    session = talk(state, title="Bottles")

    result = turngate(state, "sessions", "list")

    head, row = result.stdout.splitlines()
    assert head.split() == ["ID", "TITLE", "WHERE", "MESSAGES", "USED"]
    assert row.split() == [session.id[:10], "Bottles", "telegram", "dm", "2", "just", "now"]


def test_a_listing_can_be_narrowed(state: Path) -> None:
    talk(state, user="1", title="One")
    two = talk(state, user="2", title="Two")
    turngate(state, "sessions", "archive", two.id)

    def titles(*options: str) -> list[str]:
        listed = json.loads(turngate(state, "sessions", "list", "--json", *options).stdout)[
            "sessions"
        ]
        return [one["title"] for one in listed]

    assert titles() == ["Two", "One"]
    assert titles("--archived") == ["Two"]
    assert titles("--no-archived") == ["One"]
    assert titles("--owner", "telegram:1") == ["One"]
    assert titles("--key", two.key) == ["Two"]
    assert titles("--limit", "1") == ["Two"]
    assert titles("--active-within", "1h") == ["Two", "One"]


def test_people_see_fifty_and_are_told_of_more(state: Path) -> None:
    async def work(store: Store) -> Session:
        return [await exchange(store, id=str(n), source=dm(str(n))) for n in range(60)][-1]

    fill(state, work)

    few = turngate(state, "sessions", "list")
    all_of_them = turngate(state, "sessions", "list", "--limit", "100")
    documents = json.loads(turngate(state, "sessions", "list", "--json").stdout)["sessions"]

    assert (len(few.stdout.splitlines()), few.stderr) == (
        51,
        "There are more than 50; --limit shows them.\n",
    )
    assert (len(all_of_them.stdout.splitlines()), all_of_them.stderr) == (61, "")
    assert len(documents) == 60


def test_a_transcript_is_shown_and_searched(state: Path) -> None:
    session = talk(state)

    shown = turngate(state, "sessions", "show", session.id)
    last = turngate(state, "sessions", "show", session.id, "--last", "1")
    found = turngate(state, "sessions", "search", "green", "bottle")
    nothing = turngate(state, "sessions", "search", "red")

    assert "where is the green bottle\n" in shown.stdout
    assert "in the cellar\n" in shown.stdout
    assert "where is the green bottle" not in last.stdout.partition("\nassistant")[2]
    assert "in the cellar" in last.stdout
    assert f"{session.id[:10]}" in found.stdout
    assert "user: where is the green bottle" in found.stdout
    assert nothing.stdout.startswith("Nothing found.")


@pytest.mark.parametrize("command", [("list",), ("show",), ("search", "bottle")])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_hostile_text_reaches_no_terminal(
    state: Path, command: tuple[str, ...], options: tuple[str, ...]
) -> None:
    session = talk(state, f"bottle {HOSTILE}", title=HOSTILE)
    arguments = (*command, session.id) if command == ("show",) else command

    result = turngate(state, "sessions", *arguments, *options)

    assert result.returncode == 0
    assert HARMFUL.findall(result.stdout) == []
    assert "[bold]x[/bold] :smile:" in result.stdout


def test_what_is_typed_wrong_is_not_thrown_back_at_the_terminal(state: Path) -> None:
    result = turngate(state, "sessions", "show", "s_\x1b[31m")

    assert result.returncode == 1
    assert result.stderr == (
        "there is no session s_\ufffd[31m; `turngate sessions list` shows those there are\n"
    )


def test_an_export_goes_to_standard_output_or_into_a_file(state: Path) -> None:
    session = talk(state)
    file = state / "export.jsonl"

    printed = turngate(state, "sessions", "export", session.id)
    written = turngate(state, "sessions", "export", session.id, "--output", str(file))

    assert [json.loads(line)["type"] for line in printed.stdout.splitlines()] == [
        "session",
        "entry",
        "entry",
        "end",
    ]
    assert file.read_text() == printed.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert written.stdout == f"Wrote 4 lines to {file}.\n"
    assert not file.with_name("export.jsonl.part").exists()


def test_an_export_that_cannot_be_written_leaves_nothing_behind(state: Path) -> None:
    session = talk(state)

    nowhere = turngate(
        state, "sessions", "export", session.id, "--output", str(state / "no" / "file")
    )
    nobody = turngate(state, "sessions", "export", "s_nobody", "--output", str(state / "file"))

    assert nowhere.returncode == 1
    assert (
        "cannot be written (No such file or directory); choose another --output" in nowhere.stderr
    )
    assert nobody.returncode == 1
    assert not (state / "file").exists()
    assert not (state / "file.part").exists()


def test_each_change_says_what_it_did(state: Path) -> None:
    session = talk(state)
    files = SessionFiles(state / "files")
    workdir = Path(files.workdir(session.id))

    renamed = turngate(state, "sessions", "rename", session.id, "Plans \x1b[31m")
    archived = turngate(state, "sessions", "archive", session.id)
    back = turngate(state, "sessions", "archive", session.id, "--undo")
    aimed = turngate(state, "sessions", "goal", session.id, "Ship it")
    marked = turngate(state, "sessions", "important", session.id)
    edited = turngate(state, "sessions", "edit", session.id, "1", "-", said="hello again")
    shown = turngate(state, "sessions", "show", session.id)
    turngate(state, "sessions", "important", session.id, "--undo")
    reset = turngate(state, "sessions", "reset", session.id, "--json")
    resumed = turngate(state, "sessions", "resume", session.id)
    pruned = turngate(state, "sessions", "prune", "--empty-after", "0s")
    deleted = turngate(state, "sessions", "delete", session.id, "--yes")
    none = turngate(state, "sessions", "list")

    named = f"{session.id} “Plans [31m” (2 messages).\n"
    assert renamed.stdout == f"Renamed: {named}"
    assert archived.stdout == f"Archived: {named}"
    assert back.stdout == f"Unarchived: {named}"
    assert aimed.stdout == f"Set the goal: {named}"
    assert marked.stdout == f"Marked as important: {named}"
    assert edited.stdout == f"Edited: {named}"
    assert "hello again" in shown.stdout
    assert "Ship it" in shown.stdout
    assert json.loads(reset.stdout)["id"] != session.id
    assert resumed.stdout == f"Resumed: {named}"
    said = (
        "Deleted 1 session and 0 messages, archived 0 old sessions, deleted 0 records of settled "
        "work.\n"
    )
    assert pruned.stdout == said
    assert deleted.stdout == f"Deleted: {named}"
    assert none.stdout == "No sessions found.\n"
    assert not workdir.parent.exists()


def test_a_clean_up_does_what_the_config_says_and_for_once_something_else(state: Path) -> None:
    async def talk_that_is_over(store: Store) -> Session:
        begun = await begin(store, message())
        await store.finish(begun.turn, Outcome(entries=(assistant("hi"),)))
        return begun.opened.session

    session = fill(state, talk_that_is_over)
    folder = Path(SessionFiles(state / "files").workdir(session.id)).parent
    config = state.parent / "turngate.yaml"
    config.write_text("sessions: {keep: 1ms, clean_up: {every: null, archive_after: 1ms}}\n")

    kept = turngate(state, "sessions", "prune", "--config", str(config), "--keep", "3650d")
    gone = turngate(state, "sessions", "prune", "--config", str(config), "--json")

    assert kept.stdout.startswith("Deleted 0 sessions and 0 messages, archived 1 old session,")
    assert json.loads(gone.stdout) == {"deleted": 1, "archived": 0, "entries": 2, "forgotten": 0}
    assert not folder.exists()


def test_an_ambiguous_beginning_names_the_candidates(state: Path) -> None:
    one, two = talk(state, user="1"), talk(state, user="2")

    result = turngate(state, "sessions", "show", "s_")

    assert result.returncode == 1
    assert result.stderr == f"2 sessions begin with s_: {two.id}, {one.id}; write more of the id\n"


def test_nothing_is_deleted_without_a_terminal_and_without_yes(state: Path) -> None:
    session = talk(state)

    result = turngate(state, "sessions", "delete", session.id)

    assert result.returncode == 2
    assert "pass --yes" in result.stderr
    assert turngate(state, "sessions", "show", session.id).returncode == 0


@pytest.mark.parametrize(("answer", "is_gone"), [("y", True), ("n", False)])
def test_on_a_terminal_deleting_asks_first(state: Path, answer: str, is_gone: bool) -> None:
    session = talk(state, title="Bottles")

    with in_terminal(state, "sessions", "delete", session.id[:8]) as terminal:
        terminal.wait_for(f"Delete {session.id} “Bottles” (2 messages) permanently? [y/N]:")
        terminal.type(f"{answer}\n")
        terminal.end()

    assert (turngate(state, "sessions", "show", session.id).returncode == 1) is is_gone


@pytest.mark.parametrize(
    "arguments",
    [
        ("sessions",),
        ("sessions", "show"),
        ("sessions", "list", "--limit", "0"),
        ("sessions", "list", "--active-within", "soon"),
        ("sessions", "prune", "--empty-after", "1"),
        ("web",),
        ("chat", "--session", ""),
        ("chat", "--session", "0"),
        ("chat", "--session", "a\x1b[31m"),
    ],
)
def test_wrong_usage_exits_2(state: Path, arguments: tuple[str, ...]) -> None:
    result = turngate(state, *arguments)

    assert result.returncode == 2
    assert result.stdout + result.stderr
    assert not state.exists()


def test_a_duration_that_is_none_is_told_with_its_cure(state: Path) -> None:
    result = turngate(state, "sessions", "list", "--active-within", "soon", COLUMNS="200")

    assert (
        "this is not a duration; write a number and a unit: 90s, 30m, 24h, 7d or 600ms"
        in result.stderr
    )


@pytest.mark.parametrize(
    "arguments", [("sessions", "list"), ("status",), ("web", "link"), ("chat",)]
)
def test_a_state_folder_that_cannot_be_used_exits_74(
    state: Path, arguments: tuple[str, ...]
) -> None:
    state.touch()

    result = turngate(state, *arguments, said="hello")

    assert result.returncode == 74
    assert result.stderr == (
        f"state folder {state} is not writable (Not a directory); pass --state-dir or fix its "
        "permissions\n"
    )


def test_a_store_that_is_damaged_exits_74(state: Path) -> None:
    state.mkdir()
    (state / "turngate.db").write_bytes(b"this is no database" * 1000)

    result = turngate(state, "sessions", "list")

    assert result.returncode == 74
    assert result.stderr


def test_a_holder_that_does_not_answer_exits_73_and_is_named(state: Path) -> None:
    with take_lock(state):
        result = turngate(state, "sessions", "list")

    assert result.returncode == 73
    assert result.stderr == (
        f"process {os.getpid()} holds {state} but does not answer; "
        "it may be starting or stopping: try again, or stop it\n"
    )


@pytest.mark.parametrize("command", [("status",), ("web", "link"), ("chat",)])
def test_a_daemon_that_is_stuck_is_named_after_five_seconds(
    state: Path, command: tuple[str, ...]
) -> None:
    """Finding R11. The kernel takes connections for a process that is stopped."""
    with scripted_gateway(state) as stuck:
        stuck.send_signal(signal.SIGSTOP)
        result = turngate(state, *command, said="hello")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"process {stuck.pid} holds {state} and does not answer; see its log, or restart it\n"
    )


def test_a_wrong_config_exits_78(state: Path) -> None:
    (state.parent / "turngate.yaml").write_text("sesions: {}\n")

    result = turngate(state, "sessions", "list")

    assert result.returncode == 78
    assert "did you mean sessions?" in result.stderr


def test_commands_at_once_wait_for_each_other(state: Path) -> None:
    talk(state)

    async def many() -> list[int | None]:
        commands = [
            asyncio.to_thread(turngate, state, "sessions", "list", "--json") for _ in range(6)
        ]
        return [result.returncode for result in await asyncio.gather(*commands)]

    assert asyncio.run(many()) == [0] * 6


def test_a_running_daemon_is_asked(state: Path) -> None:
    session = talk(state)

    with scripted_gateway(state) as daemon:
        status = json.loads(turngate(state, "status", "--json").stdout)
        people = turngate(state, "status")
        renamed = turngate(state, "sessions", "rename", session.id, "Plans")
        listed = json.loads(turngate(state, "sessions", "list", "--json").stdout)
        exported = turngate(state, "sessions", "export", session.id)
        missing = turngate(state, "sessions", "show", "s_nobody")
        deleted = turngate(state, "sessions", "delete", session.id, "--yes")

        assert set(status) == STATUS
        assert (status["ready"], status["pid"]) == (True, daemon.pid)
        assert people.stdout.startswith(f"The daemon is ready (pid {daemon.pid}, started ")
        assert renamed.stdout == f"Renamed: {session.id} “Plans” (2 messages).\n"
        assert [one["title"] for one in listed["sessions"]] == ["Plans"]
        assert len(exported.stdout.splitlines()) == 4
        assert missing.returncode == 1
        assert missing.stderr.startswith("there is no session s_nobody")
        assert deleted.returncode == 0


def test_after_a_kill_commands_and_the_next_daemon_need_no_cleaning(state: Path) -> None:
    session = talk(state)
    with scripted_gateway(state) as daemon:
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        assert (state / "control.sock").exists()

    alone = turngate(state, "sessions", "show", session.id)
    with scripted_gateway(state):
        asked = turngate(state, "sessions", "show", session.id)

    assert (alone.returncode, asked.returncode) == (0, 0)
    assert alone.stdout == asked.stdout


def test_a_state_folder_far_down_works_with_a_daemon_and_without(tmp_path: Path) -> None:
    state = tmp_path.joinpath(*["far" * 12] * 5)
    session = talk(state)

    with scripted_gateway(state):
        asked = turngate(state, "sessions", "show", session.id)
    alone = turngate(state, "sessions", "show", session.id)

    assert (asked.returncode, alone.returncode) == (0, 0)


def test_a_web_link_comes_from_the_daemon(state: Path) -> None:
    with scripted_gateway(state):
        result = turngate(state, "web", "link")

    assert (result.returncode, result.stdout) == (0, "http://127.0.0.1:8765/enter/once\n")


def test_without_a_daemon_there_is_no_web_link(state: Path) -> None:
    result = turngate(state, "web", "link")

    assert result.returncode == 1
    assert result.stderr == f"no daemon runs for {state}; start it with `turngate run`\n"


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(state: Path) -> None:
    async def work(store: Store) -> Session:
        session = await exchange(store)
        await add_entries(store, session.id, [assistant("x" * 1000) for _ in range(500)])
        return session

    session = fill(state, work)

    result = errors_without_reader(state, "sessions", "show", session.id)

    assert result == ""


def test_what_takes_long_is_seen_to_be_at_work(state: Path) -> None:
    with scripted_gateway(state) as daemon:
        daemon.send_signal(signal.SIGSTOP)
        with in_terminal(state, "status") as terminal:
            terminal.wait_for("working ...")
            daemon.send_signal(signal.SIGCONT)
            terminal.wait_for("The daemon is ready")

            assert terminal.end() == 0


def test_without_a_terminal_nothing_but_the_document_is_printed(state: Path) -> None:
    with scripted_gateway(state) as daemon:
        daemon.send_signal(signal.SIGSTOP)
        resumed = threading.Timer(3, daemon.send_signal, [signal.SIGCONT])
        resumed.start()
        result = turngate(state, "status", "--json")
        resumed.join()

    assert (result.returncode, result.stderr) == (0, "")
    assert set(json.loads(result.stdout)) == STATUS
