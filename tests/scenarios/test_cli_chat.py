"""`turngate chat` in a pipe and at a terminal, through a daemon and without one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.commands import (
    PATIENCE,
    TURNGATE,
    Terminal,
    environment,
    errors_without_reader,
    in_terminal,
    scripted_gateway,
    turngate,
)
from tests.tiny_terminal import TinyTerminal

SEQUENCE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|[\r\x01\x02]")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


def plain(output: str) -> str:
    """Without colours and drawing."""
    return SEQUENCE.sub("", output)


def test_a_pipe_gets_the_answer_and_nothing_else(state: Path) -> None:
    with scripted_gateway(state):
        result = turngate(state, "chat", said="hello\nworld\n")

    assert (result.returncode, result.stdout, result.stderr) == (0, "You said: hello\nworld\n", "")


def test_commands_in_a_pipe_are_said_in_their_turn(state: Path) -> None:
    with scripted_gateway(state):
        result = turngate(state, "chat", said="one\n/new\ntwo\n/nobody knows\n")

    assert result.stdout == "You said: one\n**/new** was done\nYou said: two\n/nobody knows\n"


def test_an_answer_in_a_pipe_is_as_it_is(state: Path) -> None:
    with scripted_gateway(state):
        result = turngate(state, "chat", said="**bold** \x1b[31m grün\n")

    assert result.stdout == "You said: **bold** \x1b[31m grün\n"


def test_a_refused_message_is_told_on_stderr(state: Path) -> None:
    with scripted_gateway(state):
        result = turngate(state, "chat", said="refuse this\n/new\n")

    assert (result.returncode, result.stdout, result.stderr) == (1, "", "not now; say it later\n")


def alone_with(state: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """One message to a program, in a gateway that the command starts itself."""
    config = state.parent / "turngate.yaml"
    config.write_text(json.dumps({"agents": {"main": {"kind": "command", "argv": argv}}}))
    return turngate(state, "chat", "--config", str(config), said="hello\n")


def test_a_pipe_without_an_answer_fails_and_says_why_on_stderr(state: Path) -> None:
    """Finding M4: the excuse was on stdout, where the answer goes, and the exit status 0."""
    result = alone_with(state, "false")

    assert (result.returncode, result.stdout) == (1, "")
    assert "There is no answer: exit status 1" in result.stderr


def test_of_an_answer_that_broke_off_a_pipe_gets_the_words_and_a_failure(state: Path) -> None:
    """Finding M4."""
    result = alone_with(state, "sh", "-c", "echo half of it; exit 3")

    assert (result.returncode, result.stdout) == (1, "half of it\n")
    assert "(incomplete: exit status 3" in result.stderr


def test_secrets_that_only_the_service_can_read_are_not_looked_for(state: Path) -> None:
    config = state.parent / "turngate.yaml"
    config.write_text("agents: {main: {kind: openai, model: m, api_key: '${credential:key}'}}\n")
    with scripted_gateway(state):
        result = turngate(state, "chat", "--config", str(config), said="hello\n")
    alone = turngate(state, "chat", "--config", str(config), said="hello\n")

    assert (result.returncode, result.stdout, result.stderr) == (0, "You said: hello\n", "")
    assert alone.returncode == 78
    assert "the credential key needs a service manager" in alone.stderr


@pytest.mark.parametrize(
    ("said", "reason"),
    [("x" * 10_000_000, "more than 1,048,576 bytes"), ("", "the input is empty")],
)
def test_what_is_no_message_is_told_before_anybody_is_asked(
    state: Path, said: str, reason: str
) -> None:
    result = turngate(state, "chat", said=said)

    assert (result.returncode, result.stdout) == (1, "")
    assert reason in result.stderr
    assert not state.exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["chat", "status", "sessions list"])
def test_a_stream_that_the_caller_closed_is_no_reason_to_break_down(
    state: Path, command: str, closed: str
) -> None:
    script = f'echo hi | (exec "$0" {command} --state-dir "$1" {closed})'

    result = subprocess.run(
        ["/bin/sh", "-c", script, TURNGATE, str(state)],
        env=environment(state.parent),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert "Traceback" not in result.stderr
    # 3: no daemon runs.
    expected = {"status": 3, "chat": 1 if "<&-" in closed else 0}
    assert result.returncode == expected.get(command, 0)


def test_a_reader_that_has_gone_ends_the_chat_quietly(state: Path) -> None:
    with scripted_gateway(state):
        errors = errors_without_reader(state, "chat", said="hello")

    assert errors == ""


def asking(folder: Path) -> tuple[str, str]:
    """The option for a config whose agent asks a question."""
    config = folder / "asking.yaml"
    config.write_text(
        'agents: {main: {kind: python, object: "tests.browser.asking_agent:build"}}\n'
        "web: {listen: null}\n"
    )
    return "--config", str(config)


def test_a_question_at_a_terminal_is_answered_with_its_number(state: Path, tmp_path: Path) -> None:
    with in_terminal(state, "chat", *asking(tmp_path)) as terminal:
        terminal.wait_for("chat> ")
        terminal.type("ask me\n")
        asked = plain(terminal.wait_for("answer> "))
        terminal.type("what is that\n")
        hint = plain(terminal.wait_for("answer> "))
        terminal.type("3\n")
        answer = plain(terminal.wait_for("chat> "))
        terminal.type("\x04")

        assert terminal.end() == 0
    assert asked.index("These are the words before it.") < asked.index("Shall I go on?")
    assert "still open: write the number" in " ".join(hint.split())
    assert "You chose Later." in answer
    assert "I read what is that." in answer


def test_ctrl_c_at_a_question_stops_the_turn(state: Path, tmp_path: Path) -> None:
    with in_terminal(state, "chat", *asking(tmp_path)) as terminal:
        terminal.wait_for("chat> ")
        terminal.type("ask me\n")
        terminal.wait_for("answer> ")
        terminal.type("\x03")
        assert "Stopped." in plain(terminal.wait_for("chat> "))
        terminal.type("\x04")

        assert terminal.end() == 0


def test_a_question_in_a_pipe_ends_with_an_error(state: Path, tmp_path: Path) -> None:
    result = turngate(state, "chat", *asking(tmp_path), said="ask me\n")

    assert result.returncode == 1
    assert result.stdout == ""
    assert "nobody can answer it in a pipe: “Shall I go on?”" in result.stderr


def test_a_daemon_that_dies_in_the_middle_is_told(state: Path) -> None:
    with scripted_gateway(state) as daemon, in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("slow\n")
        terminal.wait_for("You said: slow")
        daemon.send_signal(signal.SIGKILL)
        terminal.wait_for("the daemon went away")
        assert terminal.end() == 1


def test_without_a_daemon_the_gateway_works_inside(state: Path) -> None:
    result = turngate(state, "chat", said="hello\n/help\n")

    assert (result.returncode, result.stderr) == (0, "")
    assert "hello" in result.stdout
    assert "/help" in result.stdout
    listed = json.loads(turngate(state, "sessions", "list", "--json").stdout)["sessions"]
    assert [session["key"] for session in listed] == ["agent:main:local:dm:cli"]
    assert sorted(file.name for file in state.iterdir()) == [
        "privacy.key",
        "run.json",
        "turngate.db",
        "turngate.lock",
        "turngate.mark",
    ]


def test_a_named_session_is_a_conversation_of_its_own(state: Path) -> None:
    turngate(state, "chat", "--session", "work", said="hello")

    listed = json.loads(turngate(state, "sessions", "list", "--json").stdout)["sessions"]

    assert [session["key"] for session in listed] == ["agent:main:local:dm:cli:work"]


def test_two_chats_without_a_daemon_share_one_gateway(state: Path) -> None:
    with in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        result = turngate(state, "chat", "--session", "other", said="hello")
        terminal.type("\x04")
        assert terminal.end() == 0

    assert result.returncode == 0
    assert "hello" in result.stdout


def test_at_a_terminal_the_answer_is_rendered_and_the_prompt_comes_back(state: Path) -> None:
    with scripted_gateway(state), in_terminal(state, "chat", "--session", "work") as terminal:
        welcome = terminal.wait_for("work> ")
        terminal.type("some **bold** words\n")
        answer = terminal.wait_for("work> ")
        terminal.type("\x04")

        assert terminal.end() == 0
    assert plain(welcome).startswith(
        "Turngate chat, conversation “work”. /help lists the commands, Ctrl-D leaves.\n"
    )
    assert "You said: some bold words" in plain(answer)
    assert "\x1b[1mbold\x1b[0m" in answer


def test_a_line_that_ends_in_a_backslash_goes_on(state: Path) -> None:
    with scripted_gateway(state), in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("- one\\\n")
        terminal.wait_for("... ")
        terminal.type("- two\n")
        answer = plain(terminal.wait_for("chat> "))

    assert "• two" in answer


def test_lines_pasted_together_are_one_message(state: Path) -> None:
    with scripted_gateway(state), in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("\x1b[200~x\n\n- one\n- two\x1b[201~\n")
        answer = plain(terminal.wait_for("chat> "))

    assert "• two" in answer


def test_tools_are_shown_as_they_are_used(state: Path) -> None:
    with scripted_gateway(state), in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("tool\n")
        answer = plain(terminal.wait_for("chat> "))

    assert answer.count("• look README.md") == 1


def test_a_refusal_at_the_terminal_is_told_and_the_chat_goes_on(state: Path) -> None:
    with scripted_gateway(state), in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("refuse\n")
        refused = plain(terminal.wait_for("chat> "))
        terminal.type("hello\n")
        terminal.wait_for("You said: hello")

    assert "Not sent: not now; say it later" in refused


def test_ctrl_c_stops_the_answer_and_at_the_prompt_it_leaves(state: Path) -> None:
    with scripted_gateway(state), in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("slow\n")
        terminal.wait_for("You said: slow")
        terminal.type("\x03")
        stopped = plain(terminal.wait_for("chat> "))

        # Python's readline shows its prompt a moment before it waits for signals: what comes in
        # between needs one more.
        assert terminal.end(pressing="\x03") == 0
    assert "/stop was done" in stopped
    screen = TinyTerminal()
    screen.write(terminal.output)
    assert screen.text.count("You said: slow") == 1
    assert "You said: slow (incomplete)\n\n/stop was done\n\nchat>" in screen.text


def test_a_second_ctrl_c_does_not_wait_any_longer(state: Path) -> None:
    with scripted_gateway(state) as daemon, in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("slow\n")
        terminal.wait_for("You said: slow")
        daemon.send_signal(signal.SIGSTOP)
        terminal.type("\x03")
        time.sleep(0.2)  # two keys at once are one interrupt
        terminal.type("\x03")
        terminal.wait_for("Left early")

        assert terminal.end() == 0


def test_tab_completes_commands_and_the_arrow_keys_bring_back_what_was_said(state: Path) -> None:
    with scripted_gateway(state):
        with in_terminal(state, "chat") as terminal:
            terminal.wait_for("chat> ")
            terminal.type("/ne\t\n")
            terminal.wait_for("was done")
            leave(terminal)
        with in_terminal(state, "chat") as terminal:
            terminal.wait_for("chat> ")
            terminal.type("\x1b[A\n")
            terminal.wait_for("was done")
            leave(terminal)

    history = state / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line) for line in history.read_text().splitlines()] == ["/new", "/new"]


def leave(terminal: Terminal) -> None:
    terminal.wait_for("chat> ")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_the_history_is_bounded_and_a_broken_one_is_no_obstacle(state: Path) -> None:
    state.mkdir()
    lines = ["not json", '{"a": 1}', *(json.dumps(f"line {number}") for number in range(1500))]
    (state / "chat_history").write_text("\n".join(lines))

    with scripted_gateway(state), in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("last\n")
        terminal.wait_for("You said: last")
        leave(terminal)

    kept = [json.loads(line) for line in (state / "chat_history").read_text().splitlines()]
    assert len(kept) == 1000
    assert kept[-2:] == ["line 1499", "last"]


def test_what_others_said_meanwhile_is_shown_before_the_next_prompt(state: Path) -> None:
    with scripted_gateway(state), in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        turngate(state, "chat", said="from elsewhere")
        terminal.type("\n")
        terminal.wait_for("You said: from elsewhere")


def test_a_chat_inside_can_be_killed_and_the_next_needs_no_cleaning(state: Path) -> None:
    with in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        pid = int((state / "turngate.lock").read_text().split()[0])
        subprocess.run(["kill", "-9", str(pid)], check=True)  # noqa: S607 - the system's own
        terminal.end()

    result = turngate(state, "chat", said="hello")

    assert (result.returncode, result.stderr) == (0, "")


def test_what_was_said_inside_is_there_afterwards(state: Path) -> None:
    with in_terminal(state, "chat") as terminal:
        terminal.wait_for("chat> ")
        terminal.type("hello\n")
        terminal.wait_for("You said")
        leave(terminal)

    shown = json.loads(turngate(state, "sessions", "list", "--json").stdout)["sessions"]
    assert [session["messages"] for session in shown] == [2]
