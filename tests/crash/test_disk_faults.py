"""
The disk fails under a daemon that works: nothing is acknowledged that is not stored, and `status`
says why.

What can heal does so by itself, and nothing is lost or answered twice. What cannot is never written
to again, and the command that restores it is named.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import zygote
from tests.commands import PATIENCE, TURNGATE, environment, turngate
from tests.crash.agents import Described
from tests.crash.daemon import TELEGRAM
from tests.crash.disk_faults import (
    FileSizeLimit,
    FullDisk,
    PageLimit,
    contents,
    cut_log,
    damage_pages,
    flip_a_byte_of,
    leave_killed,
    locked,
    log_of,
    replace_by_a_copy,
    small_disk,
)
from tests.crash.rig import Rig
from tests.full_length import is_full_length

LONG = "x" * 3000
BACKUP = "turngate-20260101T000000Z.db"


@contextmanager
def at_work(
    folder: Path,
    *,
    kind: str = "finding",
    megabytes: int | None = None,
    agent: Described | None = None,
) -> Iterator[Rig]:
    """A daemon that has answered something, on a disk of its own where it is to be a small one."""
    with ExitStack() as opened:
        if megabytes is not None:
            opened.enter_context(small_disk(folder / "state", megabytes))
        rig = opened.enter_context(Rig(folder, kind=kind, agent=agent))
        assert rig.start()
        yield rig


def talk(rig: Rig, *chats: str) -> set[str]:
    """Long messages: a short one might still find its place in a page that is there."""
    return {rig.say(chat, LONG) for chat in chats}


def restore_command(state: Path) -> str:
    """
    With a backup that the schedule made; one that it did not make is no reason to forget others.
    """
    backups = state / "backups"
    backups.mkdir(exist_ok=True)
    for name in ("turngate-20250101T000000Z.db", BACKUP, "zz-by-hand.db"):
        (backups / name).touch()
    return f"turngate restore --state-dir {state} {backups / BACKUP}"


@pytest.mark.parametrize(
    ("fault", "megabytes", "said"),
    [
        pytest.param(FullDisk(), 4, "the disk is full", id="small file system"),
        pytest.param(FileSizeLimit(), None, "file-size limit", id="file-size limit"),
        pytest.param(PageLimit(), None, "may not grow any further", id="page limit"),
    ],
)
def test_a_disk_without_room_holds_up_everything_and_loses_nothing(
    tmp_path: Path, fault: FullDisk | FileSizeLimit | PageLimit, megabytes: int | None, said: str
) -> None:
    with at_work(tmp_path, megabytes=megabytes) as rig:
        talk(rig, "a", "b")
        assert rig.settle()
        fault.begin(rig)
        talk(rig, *"abcdefgh")
        reason = rig.wait_for_store(said)
        late = talk(rig, "i", "j")
        time.sleep(1)

        assert "goes on by itself" in reason or "raise its page limit" in reason
        assert "The daemon is not ready" in (shown := turngate(rig.state, "status").stdout)
        assert f"THE STORE TAKES NO WRITES: {reason}\n" in shown
        assert late <= rig.unacknowledged()

        fault.end(rig)
        rig.wait_for_store(None)
        assert rig.settle()
        assert rig.verdict().is_clean
        assert rig.ask_quickly("status")["ready"] is True
        assert told_of_the_store(rig) <= 4


def told_of_the_store(rig: Rig) -> int:
    """Lines of the log: the trouble, as many ways as it shows in, and that it is over."""
    return sum("action=store" in line for line in rig.log.read_text().splitlines())


@contextmanager
def turngate_run(
    folder: Path, listener: socket.socket
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The daemon as a service manager starts it, and the address of its web door."""
    config, log = folder / "turngate.yaml", folder / "log"
    config.write_text("web:\n  listen: 127.0.0.1:0\n")
    command = [TURNGATE, "run", "--config", str(config), "--state-dir", str(folder / "state")]
    surroundings = environment(folder, NOTIFY_SOCKET=listener.getsockname())
    with (
        log.open("wb") as errors,
        zygote.Forked(command, env=surroundings, stdout=errors, stderr=errors) as daemon,
    ):
        try:
            wait_until(lambda: "address=" in log.read_text())
            yield daemon, re.search(r"address=(\S+)", log.read_text())[1]
        finally:
            daemon.terminate()


def readyz(address: str) -> tuple[int, dict[str, object]]:
    """What it says."""
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=30) as answer:  # noqa: S310 - ours, on loopback
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, json.load(exc)


def test_readyz_and_the_service_manager_are_told_why_before_any_message_comes(
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        with turngate_run(tmp_path, manager) as (daemon, address):
            assert readyz(address) == (200, {"ready": True, "reasons": []})

            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            wait_until(lambda: readyz(address)[0] == 503)
            (reason,) = readyz(address)[1]["reasons"]
            assert "the store does not take writes: a file may not grow any further" in reason
            while b"STATUS=The store takes no writes: a file may not grow" not in manager.recv(
                4096
            ):
                pass

            resource.prlimit(
                daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            wait_until(lambda: readyz(address)[0] == 200)


def test_a_real_adapter_acknowledges_nothing_while_the_disk_takes_nothing(tmp_path: Path) -> None:
    fault = FileSizeLimit()
    with at_work(tmp_path, kind=TELEGRAM) as rig:
        talk(rig, "a")
        assert rig.settle()
        fault.begin(rig)
        talk(rig, "a", "b", "a")
        rig.wait_for_store("file-size limit")
        fault.end(rig)
        assert rig.settle()
        assert rig.verdict().is_clean


def test_what_a_failing_disk_did_not_take_is_not_acknowledged_and_what_it_took_later_is_there(
    tmp_path: Path,
) -> None:
    """
    No fsync succeeds for a while; then the power is cut, so that only what reached the disk counts.
    """
    with Rig(tmp_path, with_power=True) as rig:
        assert rig.start()
        assert rig.power is not None
        talk(rig, "a", "b")
        assert rig.settle()
        rig.power.sicken()
        late = talk(rig, "a", "c")
        reason = rig.wait_for_store("the disk fails")
        assert "look into the kernel's log" in reason
        assert late <= rig.unacknowledged()

        rig.power.heal()
        rig.wait_for_store(None)
        assert rig.settle()
        rig.kill(signal.SIGKILL)
        assert rig.start()
        talk(rig, "a")
        assert rig.settle()
        assert rig.verdict().is_clean


def test_an_answer_that_was_being_made_when_the_disk_filled_is_kept_and_given_once(
    tmp_path: Path,
) -> None:
    """Its agent is not asked again: the answer waits in memory until it can be stored."""
    fault, runs, go = FileSizeLimit(), tmp_path / "runs", tmp_path / "go"
    slow = {
        "kind": "python",
        "object": "tests.crash.agents:Waiting",
        "options": {"folder": str(tmp_path)},
    }
    with at_work(tmp_path, agent=slow) as rig:
        token = rig.say("a", LONG)
        wait_until(runs.exists)
        fault.begin(rig)
        go.touch()
        talk(rig, *"bcdefgh")
        rig.wait_for_store("file-size limit")
        fault.end(rig)
        assert rig.settle()
        assert rig.verdict().is_clean
        assert runs.read_text().count(f"{token} ") == 1


@pytest.mark.parametrize(
    "seconds",
    [3, 30 if is_full_length() else 12],
    ids=["within patience", "far longer than patience"],
)
def test_a_lock_of_another_process_is_waited_for(tmp_path: Path, seconds: int) -> None:
    """The store waits for five seconds before it says no; then whoever asked asks again."""
    with at_work(tmp_path) as rig:
        with locked(rig.state):
            began = time.monotonic()
            talk(rig, *"abcab")
            rig.wait_for_store("another process")
            time.sleep(max(began + seconds - time.monotonic(), 0))
            assert rig.unacknowledged()
        rig.wait_for_store(None)
        assert rig.settle()
        assert rig.verdict().is_clean


def test_a_daemon_stops_in_time_though_another_process_never_lets_go(tmp_path: Path) -> None:
    with at_work(tmp_path) as rig:
        with locked(rig.state):
            talk(rig, *"abc")
            time.sleep(1)
            began = time.monotonic()
            assert rig.kill(signal.SIGTERM) == 0
            assert time.monotonic() - began < 5 + 5  # the drain, and what closing may take
        assert rig.start()
        assert rig.settle()
        assert rig.verdict().is_clean


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        pytest.param(
            lambda state: (state / "turngate.db").unlink(), "was deleted", id="database deleted"
        ),
        pytest.param(
            lambda state: replace_by_a_copy(state / "turngate.db"),
            "was replaced",
            id="database replaced",
        ),
        pytest.param(lambda state: log_of(state).unlink(), "was deleted", id="log deleted"),
        pytest.param(
            lambda state: replace_by_a_copy(log_of(state)), "was replaced", id="log replaced"
        ),
        pytest.param(lambda state: os.truncate(log_of(state), 5000), "was cut short", id="log cut"),
    ],
)
def test_files_that_are_lost_under_a_daemon_are_not_written_to(
    tmp_path: Path, break_it: Callable[[Path], None], said: str
) -> None:
    with at_work(tmp_path) as rig:
        talk(rig, "a", "b")
        assert rig.settle()
        command = restore_command(rig.state)
        break_it(rig.state)
        late = talk(rig, "a", "c")
        reason = rig.wait_for_store(said)
        left = contents(rig.state)
        late |= talk(rig, "d")
        time.sleep(1.5)

        assert reason.endswith(command)
        assert late <= rig.unacknowledged()
        assert contents(rig.state) == left
        assert rig.kill(signal.SIGTERM) == 0
        assert contents(rig.state) == left


def test_a_flipped_byte_concerns_its_own_row_only(tmp_path: Path) -> None:
    """Finding C3."""
    with at_work(tmp_path) as rig:
        token = rig.say("a", LONG)
        assert rig.settle()
        assert rig.kill(signal.SIGTERM) == 0
        flip_a_byte_of(rig.state / "turngate.db", f"{token} xxx")
        assert rig.start()
        talk(rig, "a", "b")  # the session of the first, with its preview, is read and damaged

        assert rig.settle()
        assert rig.verdict().is_clean
        assert rig.ask_quickly("status")["store"]["damaged_rows"] == 1
        repaired = turngate(rig.state, "repair", "--apply")
        assert "rebuilt" in repaired.stdout
        assert rig.ask_quickly("status")["store"]["damaged_rows"] == 0


def lose_everything(state: Path) -> None:
    """Whoever tidies up by a pattern."""
    for file in state.glob("turngate.db*"):
        file.unlink()


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        pytest.param(damage_pages, "damaged", id="damaged pages"),
        pytest.param(
            lambda state: cut_log(state, frames=1),
            "was cut, damaged or lost",
            id="log cut by a frame",
        ),
        pytest.param(
            lambda state: os.truncate(log_of(state), 9999),
            "was cut, damaged or lost",
            id="log cut in a frame",
        ),
        pytest.param(
            lambda state: flip_a_byte_of(log_of(state), "xxx"),
            "was cut, damaged",
            id="byte of the log flipped",
        ),
        pytest.param(
            lambda state: log_of(state).unlink(), "was cut, damaged or lost", id="log lost"
        ),
        pytest.param(
            lambda state: (state / "turngate.db").unlink(),
            "is missing, but its log",
            id="database lost",
        ),
        pytest.param(lose_everything, "is missing, and it was there before", id="both lost"),
    ],
)
def test_a_start_on_what_was_lost_is_refused_with_the_cure_and_changes_nothing(
    tmp_path: Path, break_it: Callable[[Path], None], said: str
) -> None:
    state = tmp_path / "state"
    leave_killed(state)
    break_it(state)
    command, left = restore_command(state), contents(state)

    started = turngate(state, "run")

    assert started.returncode == 74
    assert said in started.stderr
    assert started.stderr.endswith(f"{command}\n")
    assert contents(state) == left


def test_without_a_daemon_the_status_says_what_is_wrong_with_the_store(tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave_killed(state)
    lose_everything(state)
    command = restore_command(state)

    read, parsed = turngate(state, "status"), turngate(state, "status", "--json")

    assert (read.returncode, parsed.returncode) == (74, 74)
    assert "none can start with this store" in read.stdout
    assert read.stderr.endswith(f"{command}\n")
    document = json.loads(parsed.stdout)
    assert (document["ready"], document["pid"], document["inbox"]["waiting"]) == (False, None, None)
    store = document["store"]
    assert (store["ok"], store["reason"]) == (False, read.stderr.strip())


def wait_until(is_so: Callable[[], bool]) -> None:
    """Until it holds; a test that waits in vain is ended."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
