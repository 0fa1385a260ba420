"""
The daemon is killed while a program works for it: nothing of the program stays, and nobody runs it
again unasked.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.rig import PATIENCE, Rig
from tests.programs import is_gone, program

# Beside itself it leaves somebody who wants to outlive everything.
BODY = """
import pathlib
os.chdir({folder!r})
fcntl.flock(os.open("lock", os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)
def once_there(name):
    while not os.path.exists(name): time.sleep(0.01)
words = sys.stdin.read()
with open("runs", "a") as runs: runs.write(words)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path("both").touch()
        wait()
    os._exit(0)
once_there("both")
once_there("speak")
say(words)
once_there("finish")
"""


def rig_in(folder: Path, **agent: object) -> Rig:
    """With such a program for an agent."""
    return Rig(
        folder, agent={"kind": "command", "argv": program(BODY.format(folder=str(folder))), **agent}
    )


def until(holds: Callable[[], bool]) -> None:
    """It must come to hold soon."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(folder: Path) -> int:
    """How often a program was started."""
    return len((folder / "runs").read_text().splitlines())


def allow(folder: Path, *names: str) -> None:
    """Let programs go on."""
    for name in names:
        (folder / name).touch()


@pytest.mark.parametrize("allowed", [(), ("speak",)], ids=["at its start", "mid-stream"])
def test_a_killed_daemon_leaves_no_process_and_its_turn_is_told_and_not_run_again(
    tmp_path: Path, allowed: tuple[str, ...]
) -> None:
    with rig_in(tmp_path) as rig:
        allow(tmp_path, *allowed)
        rig.start()
        rig.say("a")
        until((tmp_path / "both").exists)
        rig.kill()
        until(lambda: is_gone(tmp_path))

        rig.start()
        assert rig.settle()
        verdict = rig.verdict()
        assert (verdict.lost, verdict.noticed) == ([], 1)
        assert runs(tmp_path) == 1


@pytest.mark.parametrize(
    ("point", "noticed", "started"),
    [
        ("turn-started", 1, 0),
        ("mid-stream", 1, 1),
        ("turn-finishing", 1, 1),
        ("turn-finished", 0, 1),
        ("sending", 0, 1),
    ],
)
def test_wherever_the_daemon_dies_nothing_is_left_or_lost_or_done_twice(
    tmp_path: Path, point: str, noticed: int, started: int
) -> None:
    with rig_in(tmp_path) as rig:
        allow(tmp_path, "speak", "finish")
        (tmp_path / "runs").touch()
        rig.start(f"{point}:1")
        rig.say("a")
        assert rig.ended() == -signal.SIGKILL
        until(lambda: not (tmp_path / "lock").exists() or is_gone(tmp_path))

        rig.start()
        assert rig.settle()
        verdict = rig.verdict()
        assert (verdict.lost, verdict.twice, verdict.noticed) == ([], [], noticed)
        assert runs(tmp_path) == started


def test_a_program_that_may_be_run_again_is(tmp_path: Path) -> None:
    with rig_in(tmp_path, repeatable=True) as rig:
        rig.start()
        token = rig.say("a")
        until((tmp_path / "both").exists)
        rig.kill()
        until(lambda: is_gone(tmp_path))

        allow(tmp_path, "speak", "finish")
        rig.start()
        assert rig.settle()
        verdict = rig.verdict()
        assert (verdict.lost, verdict.twice, verdict.noticed) == ([], [], 0)
        assert (tmp_path / "runs").read_text().split() == [token, token]


def test_a_daemon_that_is_told_to_stop_ends_its_programs(tmp_path: Path) -> None:
    with rig_in(tmp_path) as rig:
        rig.start()
        rig.say("a")
        until((tmp_path / "both").exists)
        assert rig.kill(signal.SIGTERM) == 0
        assert is_gone(tmp_path)
