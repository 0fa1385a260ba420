"""The state folder: made for its owner alone, held by one process at a time, its keys made once."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from turngate.gateway.daemon.state_dir import (
    StateDir,
    access_warnings,
    read_or_make_key,
    take_lock,
    wait_for_lock,
)
from turngate.gateway.domain.errors import (
    CommandRuns,
    StateInUse,
    StoreDamaged,
    StoreUnavailable,
)

HOLDER = """
import sys
from pathlib import Path
from turngate.gateway.daemon.state_dir import take_lock
lock = take_lock(Path(sys.argv[1]), command=sys.argv[2] == "command")
print("held", flush=True)
sys.stdin.read()
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def holder(folder: Path, kind: str = "daemon") -> subprocess.Popen[str]:
    """Another process that has the lock."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def test_the_folder_and_its_missing_parents_are_for_the_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"

    with take_lock(folder) as lock:
        assert lock.state == StateDir(folder)
        assert (mode(folder), mode(folder.parent)) == (0o700, 0o700)
        assert mode(lock.state.lock_file) == 0o600


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir(mode=0o750)
    folder.chmod(0o750)

    take_lock(folder).release()

    assert mode(folder) == 0o750


def test_a_relative_folder_is_known_by_its_whole_path(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path), take_lock(Path("state")) as lock:
        assert lock.state.path == tmp_path / "state"


@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_file_in_place_of_the_folder_is_told_with_its_cure(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / below

    with pytest.raises(StoreUnavailable) as caught:
        take_lock(folder)

    assert str(caught.value) == (
        f"state folder {folder} is not writable (Not a directory); pass --state-dir or fix its "
        "permissions"
    )


def test_a_path_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="not a path"):
        take_lock(tmp_path / "nul\0byte")


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    with take_lock(tmp_path) as lock:
        assert lock.state.lock_file.read_text() == f"{os.getpid()}\n"

        with pytest.raises(StateInUse) as caught:
            take_lock(tmp_path)

    assert caught.value.pid == os.getpid()
    assert f"process {os.getpid()}" in str(caught.value)


def test_who_removes_the_lock_file_lets_nobody_in(tmp_path: Path) -> None:
    with take_lock(tmp_path) as lock:
        lock.state.lock_file.unlink()

        with pytest.raises(StateInUse, match="another process"):
            take_lock(tmp_path)

    take_lock(tmp_path).release()


def test_two_processes_never_hold_it_at_once(tmp_path: Path) -> None:
    child = holder(tmp_path)

    try:
        with pytest.raises(StateInUse) as caught:
            take_lock(tmp_path)
    finally:
        end(child)

    assert caught.value.pid == child.pid


def test_after_a_kill_the_next_one_needs_no_cleaning(tmp_path: Path) -> None:
    end(holder(tmp_path))

    with take_lock(tmp_path) as lock:
        assert lock.state.lock_file.read_text() == f"{os.getpid()}\n"


def test_who_waits_gets_it_when_it_is_released(tmp_path: Path) -> None:
    child = holder(tmp_path)
    assert child.stdin is not None
    child.stdin.close()

    take_lock(tmp_path, timeout=60).release()

    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def test_a_daemon_waits_for_a_command_and_says_for_which(tmp_path: Path) -> None:
    """Finding R12."""
    child = holder(tmp_path, "command")
    told = list[CommandRuns]()

    def tell(runs: CommandRuns) -> None:
        told.append(runs)
        end(child)

    with wait_for_lock(tmp_path, tell) as lock:
        assert lock.state.lock_file.read_text() == f"{os.getpid()}\n"

    assert [each.pid for each in told] == [child.pid]
    assert "a command; it is free when that has ended" in str(told[0])


def test_a_daemon_does_not_wait_for_another_daemon(tmp_path: Path) -> None:
    """Finding R12: a second daemon is to fail soon, with the status that ends its restarts."""
    told = list[CommandRuns]()

    with take_lock(tmp_path), pytest.raises(StateInUse) as caught:
        wait_for_lock(tmp_path, told.append)

    assert not isinstance(caught.value, CommandRuns)
    assert not told


def test_a_command_that_does_not_end_is_left_to_the_next_start(tmp_path: Path) -> None:
    """Finding R12."""
    with take_lock(tmp_path, command=True), pytest.raises(CommandRuns):
        wait_for_lock(tmp_path, lambda runs: None, longest=0.1)


def test_a_lock_file_that_is_a_link_leaves_its_target_as_it_is(tmp_path: Path) -> None:
    """Finding R25."""
    precious = tmp_path / "precious"
    precious.write_text("do not lose this")
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (folder / "turngate.lock").symlink_to(precious)

    with pytest.raises(StoreUnavailable, match=r"turngate\.lock is a link, which is not followed"):
        take_lock(folder)

    assert precious.read_text() == "do not lose this"


def test_a_folder_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    """Finding R25."""
    tmp_path.chmod(0o777)

    with pytest.raises(StoreUnavailable, match=r"written by everybody \(mode 0777\); run: chmod"):
        take_lock(tmp_path)


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding R25. Root may use every folder, so this test is somebody else."""
    if os.geteuid() == 0:
        os.chown(tmp_path, 54321, 54321)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(StoreUnavailable, match=r"belongs to another user \(uid \d+\); run as"):
        take_lock(tmp_path)


def test_a_folder_that_its_group_can_write_is_warned_of(tmp_path: Path) -> None:
    """Finding R25: common where every user has a group of their own, so it is not refused."""
    tmp_path.chmod(0o770)

    (warning,) = access_warnings(tmp_path)

    assert f"{tmp_path} can be written by its group (mode 0770)" in warning
    tmp_path.chmod(0o777)
    assert "can be written by everybody (mode 0777)" in access_warnings(tmp_path)[0]
    tmp_path.chmod(0o750)
    assert access_warnings(tmp_path) == ()
    assert access_warnings(tmp_path / "missing") == ()


def test_releasing_twice_is_releasing_once(tmp_path: Path) -> None:
    lock = take_lock(tmp_path)
    lock.release()

    with take_lock(tmp_path):
        lock.release()

        with pytest.raises(StateInUse):
            take_lock(tmp_path)


def test_a_key_is_made_once_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "privacy.key"

    key = read_or_make_key(path)

    assert len(key) == 32
    assert read_or_make_key(path) == key
    assert mode(path) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["privacy.key"]
    assert read_or_make_key(tmp_path / "web.key") != key


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_what_is_no_key_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "privacy.key"
    path.write_bytes(content)

    with pytest.raises(StoreDamaged, match=f"has {len(content)} bytes and is no key; restore it"):
        read_or_make_key(path)

    assert path.read_bytes() == content


def test_a_key_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "privacy.key"
    path.mkdir()

    with pytest.raises(StoreUnavailable, match="cannot be read"):
        read_or_make_key(path)


def test_a_key_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="not writable"):
        read_or_make_key(tmp_path / "missing" / "privacy.key")


def test_the_module_can_be_taken_before_anything_heavy() -> None:
    listed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, turngate.gateway.daemon.state_dir; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    ours = {name for name in listed.stdout.split() if name.startswith("turngate")}
    assert ours == {
        "turngate",
        "turngate.gateway",
        "turngate.gateway.daemon",
        "turngate.gateway.daemon.state_dir",
        "turngate.gateway.domain",
        "turngate.gateway.domain.errors",
    }
    assert "asyncio" not in listed.stdout.split()
