"""Whoever reads the log of the real daemon: in a terminal, not at all, and too slowly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from tests.commands import PATIENCE, TURNGATE, environment, in_terminal, turngate

CONFIG = "web: {listen: null}\nlog: {level: debug}\nturns: {debounce: 10ms, drain: 1s}\n"


def started(state: Path, stderr: int) -> subprocess.Popen[str]:
    """The daemon, with its log going there."""
    config = state.parent / "turngate.yaml"
    config.write_text(CONFIG)
    child = subprocess.Popen(
        [TURNGATE, "run", "--config", str(config), "--state-dir", str(state)],
        env=environment(state.parent, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    assert child.stdout is not None
    assert "gateway runs" in child.stdout.readline()
    return child


def stopped(child: subprocess.Popen[str]) -> int:
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=PATIENCE)
    return child.returncode


def test_a_daemon_whose_log_nobody_reads_any_more_goes_on_and_ends_well(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = started(tmp_path / "state", writer)
    os.close(writer)
    os.close(reader)

    assert "hello" in turngate(tmp_path / "state", "chat", said="hello").stdout
    assert stopped(child) == 0


def test_nor_does_it_wait_for_one_who_reads_too_slowly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filled = 0
    while filled < 1_000_000:
        try:
            filled += os.write(writer, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    child = started(tmp_path / "state", writer)
    os.close(writer)

    assert "hello" in turngate(tmp_path / "state", "chat", said="hello").stdout
    assert stopped(child) == 0
    os.close(reader)


def test_nor_does_a_full_disk_behind_the_log_end_it(tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    child = started(tmp_path / "state", full)
    os.close(full)

    assert "hello" in turngate(tmp_path / "state", "chat", said="hello").stdout
    assert stopped(child) == 0


def test_people_at_a_terminal_get_colours_and_those_who_want_none_do_not(tmp_path: Path) -> None:
    (tmp_path / "turngate.yaml").write_text(CONFIG)
    for env, line in (
        (
            {},
            r"\x1b\[2m\d\d:\d\d:\d\d\x1b\[0m \x1b\[32mINFO   \x1b\[0m the gateway started +\x1b\[2maction=started",  # noqa: E501
        ),
        ({"NO_COLOR": "1"}, r"\d\d:\d\d:\d\d INFO    the gateway started +action=started"),
        ({"TERM": "dumb"}, r"\d\d:\d\d:\d\d INFO    the gateway started +action=started"),
    ):
        with in_terminal(tmp_path / "state", "run", **env) as terminal:
            terminal.wait_for("Ctrl-C stops it")
            terminal.type("\x03")
            terminal.end()
            shown = terminal.output
        assert re.search(line, shown), shown
        assert ("\x1b" in shown) is not bool(env)
