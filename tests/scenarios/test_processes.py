"""Programs that are started and ended, with real processes that do their worst to stay."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.programs import ENV, is_gone, program
from turngate.gateway.agents.program import (
    Program,
    said_status,
    start,
)
from turngate.gateway.domain.errors import AgentError, AgentRefused

DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say()
        wait()
    os._exit(0)
"""
STUBBORN = {
    "waits": "say(); wait()",
    "ignores SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN); say(); wait()",
    "is stopped": "say(); os.kill(os.getpid(), signal.SIGSTOP)",
    "has children": "[os.fork() for _ in range(3)]; say(); wait()",
    "has a daemon": f"{DAEMON}wait()",
    "has become a daemon": DAEMON,
    "only forks": "signal.signal(signal.SIGTERM, signal.SIG_IGN); say()\nwhile True: os.fork() "
    "and os._exit(0)",
    "has threads": "import threading; threading.Thread(target=wait).start(); say(); os.fork(); "
    "wait()",
}

# The numbers 32 and 33 are the C library's own: nobody else can set them, and it may leave them
# ignored.
OF_THE_C_LIBRARY = 0b11 << 31


async def ready(body: str, folder: Path) -> Program:
    """One that has said so."""
    running = await start(program(body), env=ENV, cwd=str(folder))
    assert await running.stdout.readline() == b"ready\n"
    return running


def children() -> set[str]:
    """Of this process, zombies among them."""
    return {
        each
        for file in Path("/proc/self/task").glob("*/children")
        for each in file.read_text().split()
    }


@pytest.mark.parametrize("body", STUBBORN.values(), ids=STUBBORN)
async def test_nothing_is_left_of_a_program_that_was_ended(body: str, tmp_path: Path) -> None:
    running = await ready(body, tmp_path)
    await running.end()
    assert is_gone(tmp_path)


@pytest.mark.parametrize("body", STUBBORN.values(), ids=STUBBORN)
async def test_nobody_is_left_as_a_zombie(body: str, tmp_path: Path) -> None:
    before = children()
    running = await ready(body, tmp_path)
    assert children() > before
    await running.end()
    assert children() == before


async def test_what_a_program_leaves_running_ends_with_it(tmp_path: Path) -> None:
    running = await ready(DAEMON, tmp_path)
    assert await running.status() == 0
    assert await running.stdout.read() == b""  # its daemon held the other end
    assert is_gone(tmp_path)
    await running.end()


async def test_a_program_is_asked_to_end_before_it_is_made_to(tmp_path: Path) -> None:
    body = (
        "signal.signal(signal.SIGTERM, lambda *_: (open('asked', 'w'), os._exit(0))); say(); wait()"
    )
    running = await ready(body, tmp_path)
    await running.end()
    assert (tmp_path / "asked").exists()


async def test_a_program_that_kills_its_guardian_ends_with_it(tmp_path: Path) -> None:
    body = (
        "child = os.fork(); (say(), wait()) if not child else time.sleep(0.1); "
        "os.kill(os.getppid(), 9); wait()"
    )
    running = await ready(body, tmp_path)
    with pytest.raises(AgentError, match="lost from sight"):
        await running.status()
    await running.end()
    assert is_gone(tmp_path)


ESCAPES = """
guardian = os.getppid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say()
        wait()
    os._exit(0)
time.sleep(0.2)
"""


@pytest.mark.parametrize("attack", ["SIGKILL", "SIGSTOP"])
async def test_what_left_the_session_does_not_outlive_an_attack_on_the_guardian(
    attack: str, tmp_path: Path
) -> None:
    """Finding R14: the child lived on, whether the guardian was killed or stopped."""
    before = children()
    running = await ready(f"{ESCAPES}os.kill(guardian, signal.{attack}); wait()", tmp_path)
    await asyncio.sleep(0.3)
    await running.end()

    assert is_gone(tmp_path)
    assert children() == before


async def test_what_only_forks_does_not_outlive_its_guardian_either(tmp_path: Path) -> None:
    """Finding R14."""
    flight = "while True: os.fork() and os._exit(0)"
    body = f"{ESCAPES}os.kill(guardian, signal.SIGKILL)"
    running = await ready(body.replace("wait()", flight, 1), tmp_path)
    await asyncio.sleep(0.3)
    await running.end()

    assert is_gone(tmp_path)


async def test_other_programs_and_children_of_ours_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = await ready("say(); wait()", tmp_path / "other")
    ours = await asyncio.create_subprocess_exec("sleep", "60")
    apart = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    await asyncio.sleep(0.05)
    running = await ready("say(); os.kill(os.getppid(), 9); wait()", tmp_path)
    await running.end()

    assert not is_gone(tmp_path / "other")
    assert (ours.returncode, apart.returncode) == (None, None)
    for process in (ours, apart):
        process.kill()
        assert await process.wait() == -9
    await other.end()


async def test_a_program_does_not_outlive_its_guardian_even_if_nobody_is_there_to_end_it(
    tmp_path: Path,
) -> None:
    running = await ready("say(); wait()", tmp_path)
    os.kill(running._guardian.pid, signal.SIGKILL)
    while not is_gone(tmp_path):
        await asyncio.sleep(0.005)
    await running.end()


async def test_ending_twice_is_harmless(tmp_path: Path) -> None:
    running = await ready("say()", tmp_path)
    await running.end()
    await running.end()


async def test_a_program_that_nobody_reads_from_can_be_ended(tmp_path: Path) -> None:
    running = await ready(
        "say()\nwhile True: os.write(1, bytes(65536)); os.write(2, bytes(65536))", tmp_path
    )
    await running.end()
    assert is_gone(tmp_path)


async def test_a_program_that_never_reads_can_be_ended(tmp_path: Path) -> None:
    running = await ready("say(); wait()", tmp_path)
    running.stdin.write(bytes(1_000_000))
    await running.end()
    assert is_gone(tmp_path)


@pytest.mark.parametrize(
    ("body", "status"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("", 0)]
)
async def test_how_a_program_ended_is_known(body: str, status: int, tmp_path: Path) -> None:
    running = await start(program(body), env=ENV, cwd=str(tmp_path))
    assert await running.status() == status
    await running.end()


def test_how_a_program_ended_can_be_told() -> None:
    assert [said_status(each) for each in (0, 3, -9, -200)] == [
        "exit status 0",
        "exit status 3",
        "ended by SIGKILL",
        "ended by signal 200",
    ]


async def test_a_program_sees_its_own_environment_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS_ALONE", "secret")
    given = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "EMPTY": "", "ÜMLAUT": "a=b\nc"}
    running = await start(["env", "-0"], env=given, cwd=str(tmp_path))
    seen = (await running.stdout.read()).decode().split("\0")
    await running.end()
    assert sorted(filter(None, seen)) == sorted(f"{name}={value}" for name, value in given.items())


async def test_a_program_gets_its_arguments_as_they_are(tmp_path: Path) -> None:
    words = ["", " ", "$HOME", "a\nb", "ü", "--"]
    running = await start(["printf", "%s|", *words], env=ENV, cwd=str(tmp_path))
    assert (await running.stdout.read()).decode() == "".join(f"{word}|" for word in words)
    await running.end()


async def test_a_program_works_in_its_folder_in_a_group_of_its_own(tmp_path: Path) -> None:
    running = await start(
        program("say(f'{os.getcwd()} {os.getpgid(0) == os.getpid()}')"), env=ENV, cwd=str(tmp_path)
    )
    assert (await running.stdout.read()).decode() == f"{tmp_path} True\n"
    await running.end()


async def test_a_program_finds_no_open_files_and_no_ignored_signals(tmp_path: Path) -> None:
    show = "cat /proc/self/status | grep SigIgn; ls /proc/self/fd | wc -w"
    running = await start(["sh", "-c", show], env=ENV, cwd=str(tmp_path))
    _, ignored, files = (await running.stdout.read()).decode().split()
    await running.end()

    assert int(ignored, 16) & ~OF_THE_C_LIBRARY == 0
    assert files == "4"  # the fourth is the listing's own


async def test_a_program_has_no_more_memory_than_it_is_given(tmp_path: Path) -> None:
    running = await start(
        program("say(len(bytes(400_000_000)))"), env=ENV, cwd=str(tmp_path), memory=200_000_000
    )
    assert await running.status() == 1
    await running.end()
    assert "MemoryError" in running.last_words()


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["nonesuch"], "nonesuch cannot be started: No such file or directory"),
        (["./plain"], "plain cannot be started: Permission denied"),
        (["./broken"], "broken cannot be started: Exec format error"),
        (["/"], "cannot be started: Permission denied"),
        (["a\0b"], "NUL"),
    ],
)
async def test_a_program_that_cannot_be_started_says_why(
    argv: list[str], why: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").touch(0o600)
    (tmp_path / "broken").touch(0o700)
    (tmp_path / "broken").write_bytes(b"\x00\x01")
    with pytest.raises(AgentRefused, match=why):
        await start(argv, env=ENV, cwd=str(tmp_path))


async def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(AgentRefused, match="No such file or directory"):
        await start(["true"], env=ENV, cwd=str(tmp_path / "missing"))


async def test_giving_up_while_a_program_starts_leaves_nothing(tmp_path: Path) -> None:
    before = children()
    for delay in (0.0, 0.002, 0.01, 0.02, 0.03):
        starting = asyncio.ensure_future(start(program("wait()"), env=ENV, cwd=str(tmp_path)))
        await asyncio.sleep(delay)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await (await starting).end()
    assert children() == before


async def test_its_last_words_are_for_whoever_wants_quotes_without_what_is_secret(
    tmp_path: Path,
) -> None:
    body = (
        "[print(n, os.environ['KEY'], '\\x1b[31m', file=sys.stderr) for n in range(5000)]; "
        "sys.exit(1)"
    )
    with capture_logs() as logs:
        running = await start(program(body), env=ENV | {"KEY": "canary-key"}, cwd=str(tmp_path))
        await running.status()
        await running.end()
    (log,) = logs
    assert log["said"].split(" / ") == [f"{number} ***  [31m" for number in range(4980, 5000)]
    assert log["log_level"] == "debug"


async def test_half_a_secret_is_not_in_the_log_either(tmp_path: Path) -> None:
    body = "sys.stderr.write(os.environ['KEY'] + '.' * (8192 - 6))"
    running = await start(program(body), env=ENV | {"KEY": "canary-canary"}, cwd=str(tmp_path))
    await running.status()
    await running.end()
    assert {*"".join(running.last_words())} == {"."}


async def test_its_guardian_shows_no_secret_to_other_users(tmp_path: Path) -> None:
    shown = "open(f'/proc/{os.getppid()}/%s').read()"
    body = f"say(repr({shown % 'cmdline'} + {shown % 'environ'}))"
    running = await start(
        [*program(body), "canary"], env=ENV | {"KEY": "canary"}, cwd=str(tmp_path)
    )
    assert b"canary" not in await running.stdout.read()
    await running.end()


async def test_its_guardian_takes_no_notice_of_signals_to_the_whole_service(tmp_path: Path) -> None:
    body = (
        "[os.kill(os.getppid(), each) for each in (signal.SIGTERM, signal.SIGINT, "
        "signal.SIGHUP)]; say(); sys.exit(7)"
    )
    running = await ready(body, tmp_path)
    assert await running.status() == 7
    await running.end()


async def test_a_program_runs_where_no_memory_may_become_code_and_no_right_be_gained(
    tmp_path: Path,
) -> None:
    """As the hardened service has it."""
    body = """
import ctypes
prctl = ctypes.CDLL(None).prctl
prctl(65, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3)
prctl(38, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3)
sys.path[:0] = {path!r}
import asyncio
import os
from turngate.gateway.agents.program import start
async def main():
    running = await start(["sh", "-c", "echo ready; sleep 1000 & setsid sleep 1000"], env={env!r}, cwd=".")
    say((await running.stdout.readline()).decode().strip())
    await running.end()
asyncio.run(main())
"""  # noqa: E501
    running = await ready(body.format(path=sys.path, env=ENV), tmp_path)
    assert await running.status() == 0
    await running.end()
    assert is_gone(tmp_path)


def test_the_signal_numbers_are_those_of_this_system() -> None:
    assert said_status(-signal.SIGSEGV) == "ended by SIGSEGV"
