"""Which ends of the daemon are crashes, and which are stops and reboots."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import FrozenClock
from turngate.gateway.daemon.run_record import PreviousRun, RunRecord


def record(folder: Path, clock: FrozenClock) -> RunRecord:
    return RunRecord(folder / "run.json", folder / "exit-status", clock)


def begun(folder: Path, clock: FrozenClock, *, crashes: int = 0) -> RunRecord:
    made = record(folder, clock)
    made.begin("first", crashes)
    clock.advance(seconds=5)
    return made


def test_the_first_start_has_no_previous_run(tmp_path: Path) -> None:
    assert record(tmp_path, FrozenClock()).previous() == PreviousRun()


def test_an_end_without_a_stop_is_a_crash(tmp_path: Path) -> None:
    clock = FrozenClock()
    begun(tmp_path, clock)

    assert record(tmp_path, clock).previous() == PreviousRun(run="first", crashes=1)


def test_a_stop_is_no_crash(tmp_path: Path) -> None:
    clock = FrozenClock()
    begun(tmp_path, clock, crashes=2).stopped()

    assert record(tmp_path, clock).previous() == PreviousRun(run="first", crashes=0)


def test_crashes_in_a_row_are_counted(tmp_path: Path) -> None:
    clock = FrozenClock()
    begun(tmp_path, clock, crashes=2)

    assert record(tmp_path, clock).previous().crashes == 3


def test_a_run_that_lived_for_long_ends_a_crash_loop(tmp_path: Path) -> None:
    clock = FrozenClock()
    begun(tmp_path, clock, crashes=2)
    clock.advance(hours=1)

    assert record(tmp_path, clock).previous().crashes == 1


def test_a_machine_that_started_again_is_no_crash(tmp_path: Path) -> None:
    clock = FrozenClock()
    clock.advance(hours=1)
    begun(tmp_path, clock)

    assert record(tmp_path, FrozenClock()).previous().crashes == 0


@pytest.mark.parametrize(
    ("status", "crashes"),
    [
        ("signal killed KILL", 0),
        ("signal killed TERM", 0),
        ("timeout killed KILL", 0),
        ("signal killed SEGV", 1),
        ("core-dump dumped ABRT", 1),
        ("watchdog killed ABRT", 1),
        ("oom-kill killed KILL", 1),
        ("exit-code exited 1", 1),
        ("", 1),
        ("no such words at all", 1),
    ],
)
def test_what_systemd_saw_tells_a_signal_from_a_crash(
    tmp_path: Path, status: str, crashes: int
) -> None:
    clock = FrozenClock()
    begun(tmp_path, clock)
    (tmp_path / "exit-status").write_text(f"{status}\n")

    assert record(tmp_path, clock).previous().crashes == crashes


def test_the_status_of_an_earlier_run_says_nothing_about_this_one(tmp_path: Path) -> None:
    clock = FrozenClock()
    (tmp_path / "exit-status").write_text("signal killed KILL\n")
    begun(tmp_path, clock)

    assert record(tmp_path, clock).previous().crashes == 1


@pytest.mark.parametrize("written", ["", "{", "[]", '{"run": 5}', '{"run": "x"}', "\udcff"])
def test_an_unreadable_record_is_no_crash(tmp_path: Path, written: str) -> None:
    (tmp_path / "run.json").write_bytes(written.encode(errors="surrogateescape"))

    assert record(tmp_path, FrozenClock()).previous() == PreviousRun()


def test_a_link_in_the_place_of_the_draft_leaves_its_target_as_it_is(tmp_path: Path) -> None:
    """Finding R25."""
    precious = tmp_path / "precious"
    precious.write_text("do not lose this")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "run.json.new").symlink_to(precious)

    begun(folder, FrozenClock())

    assert precious.read_text() == "do not lose this"
    assert (folder / "run.json").is_file()


def test_a_folder_that_takes_no_writes_stops_nothing(tmp_path: Path) -> None:
    made = record(tmp_path / "missing", FrozenClock())
    made.begin("first", 0)
    made.stopped()

    assert made.previous() == PreviousRun()
