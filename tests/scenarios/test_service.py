"""
The real daemon as hosts treat it: asked to stop once and twice, to read its config again, watched,
sandboxed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path

import pytest

from tests.commands import (
    PATIENCE,
    ROOT,
    TURNGATE,
    address_in,
    environment,
    in_terminal,
    turngate,
)
from tests.service import (
    Listener,
    reload,
    until_growing,
    until_logged,
    until_told,
)
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.telegram import TOKENS, Telegram
from tests.telegram_daemon import PERSON, bot, config, daemon
from turngate.gateway.daemon.shutdown import GOES_ON
from turngate.gateway.daemon.state_dir import take_lock

STRANGER = "72002"
# The echo agent takes more than a second for so many words.
LONG = "word " * 120 + "end"


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """A platform without rates."""
    async with in_process(Simulator(Telegram())) as remote:
        yield remote


@pytest.fixture
def systemd(tmp_path: Path) -> object:
    """To be told of what the daemon does."""
    listener = Listener(tmp_path)
    yield listener
    listener.close()


async def test_a_turn_that_fits_into_the_drain_is_finished_and_delivered(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(
        config(tmp_path, bot(sim), more="turns: {debounce: 10ms, drain: 60s}")
    ) as running:
        await sim.say(LONG, chat=PERSON, user=PERSON)
        await until_growing(sim)
        assert await running.stop() == 0

    (answer,) = await sim.messages()
    assert answer["text"].endswith("end")


async def test_nothing_more_is_taken_while_it_drains_and_the_next_start_has_it(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more="turns: {debounce: 10ms, drain: 60s}")
    async with daemon(file) as running:
        await sim.say(LONG, chat=PERSON, user=PERSON)
        await until_growing(sim)
        running.send(signal.SIGTERM)
        await until_logged(file, "action=stopping")
        late = await sim.say("too late", chat=PERSON, user=PERSON)
        assert await running.ended() == 0
    assert [each["acknowledged"] for each in await sim.updates() if each["id"] == late] == [False]

    async with daemon(file):
        await until_told(sim, "too late")


async def test_who_is_cut_off_is_told_once_and_answered_after_the_restart(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more="turns: {debounce: 10ms, drain: 10ms}")
    async with daemon(file) as running:
        await sim.say(LONG, chat=PERSON, user=PERSON)
        await until_growing(sim)
        assert await running.stop() == 0
    assert (await sim.texts()).count(GOES_ON) == 1
    assert not [text for text in await sim.texts() if text.endswith("end")]

    async with daemon(file) as running:
        await until_told(sim, "end")
        assert await running.stop() == 0
    texts = await sim.texts()
    assert texts.count(GOES_ON) == 1
    assert len([text for text in texts if text.endswith("end")]) == 1


async def test_last_words_that_could_not_be_said_are_not_said_after_the_restart(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(
        tmp_path, bot(sim), more="turns: {debounce: 10ms, drain: 10ms}\ndelivery: {stream: false}"
    )
    async with daemon(file) as running:
        await sim.fault("500", times=None, method="sendMessage")
        await sim.say(LONG, chat=PERSON, user=PERSON)

        async def is_being_answered() -> object:
            return await sim.calls(method="sendChatAction")

        await sim.until(is_being_answered)
        assert await running.stop() == 0
    assert await sim.calls(method="sendMessage")
    await sim.heal()

    async with daemon(file):
        await until_told(sim, "end")
    assert GOES_ON not in await sim.texts()


async def test_a_second_signal_does_not_wait_for_the_drain(sim: Remote, tmp_path: Path) -> None:
    file = config(
        tmp_path, bot(sim), more="turns: {debounce: 10ms, drain: 1h}\ndelivery: {stream: false}"
    )
    await sim.fault("half-open", times=None, method="sendMessage")
    async with daemon(file) as running:
        await sim.say("hello", chat=PERSON, user=PERSON)

        async def is_being_answered() -> object:
            return await sim.calls(method="sendMessage")

        await sim.until(is_being_answered)
        running.send(signal.SIGTERM)
        await until_logged(file, "action=stopping")
        assert await running.stop() == 0


def started(state: Path, file: Path, **env: str) -> subprocess.Popen[str]:
    """`turngate run`, from its very beginning."""
    return subprocess.Popen(
        [TURNGATE, "run", "--config", str(file), "--state-dir", str(state)],
        env=environment(file.parent, PYTHONUNBUFFERED="1", **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def without_web(folder: Path) -> Path:
    """A config with no door but the control socket."""
    file = folder / "plain.yaml"
    file.write_text("web: {listen: null}\n")
    return file


def until_locked(state: Path, process: subprocess.Popen[str]) -> None:
    """It has the state folder, and is about to import what is heavy."""
    lock = state / "turngate.lock"
    while not (lock.exists() and lock.read_text().strip()):
        assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it_in_order(number: signal.Signals, tmp_path: Path) -> None:
    state, file = tmp_path / "state", without_web(tmp_path)
    starting = started(state, file)
    until_locked(state, starting)
    starting.send_signal(number)
    output, log = starting.communicate(timeout=PATIENCE)
    assert (starting.returncode, output, "Traceback" in log) == (0, "", False)

    assert turngate(state, "status").returncode == 3


@pytest.mark.parametrize("from_the_start", [True, False], ids=["while it starts", "while it ends"])
def test_whoever_asks_again_and_again_gets_the_same_end(
    from_the_start: bool, tmp_path: Path
) -> None:
    state, file = tmp_path / "state", without_web(tmp_path)
    running = started(state, file)
    assert running.stdout is not None
    if from_the_start:
        until_locked(state, running)
    else:
        assert "The gateway runs" in running.stdout.readline()
    for number in cycle((signal.SIGTERM, signal.SIGINT)):
        if running.poll() is not None:
            break
        running.send_signal(number)
        time.sleep(0.005)
    _, log = running.communicate(timeout=PATIENCE)

    assert (running.returncode, "Traceback" in log) == (0, False)


def test_a_hangup_during_the_start_is_heard_when_it_can_be(tmp_path: Path) -> None:
    state, file = tmp_path / "state", without_web(tmp_path)
    starting = started(state, file)
    until_locked(state, starting)
    starting.send_signal(signal.SIGHUP)
    assert starting.stderr is not None
    lines = iter(starting.stderr)
    assert any("action=reloaded" in line for line in lines)
    starting.terminate()
    starting.communicate(timeout=PATIENCE)
    assert starting.returncode == 0


def test_of_twenty_that_start_at_once_one_runs_and_the_others_name_it(tmp_path: Path) -> None:
    state, file = tmp_path / "state", without_web(tmp_path)
    processes = [started(state, file) for _ in range(20)]
    first = int(next(iter(until_one_is_left(processes))))
    losers = [each for each in processes if each.pid != first]
    said = [each.communicate(timeout=PATIENCE)[1] for each in losers]
    assert [each.returncode for each in losers] == [73] * 19
    assert all(f"process {first};" in words for words in said)
    (winner,) = (each for each in processes if each.pid == first)
    assert winner.poll() is None
    winner.terminate()
    winner.communicate(timeout=PATIENCE)
    assert winner.returncode == 0


def until_one_is_left(processes: list[subprocess.Popen[str]]) -> set[int]:
    """Whoever has not given up."""
    while len(left := {each.pid for each in processes if each.poll() is None}) > 1:
        os.sched_yield()
    return left


def test_after_a_kill_the_next_start_needs_no_cleaning(tmp_path: Path) -> None:
    state, file = tmp_path / "state", without_web(tmp_path)
    for _ in range(3):
        running = started(state, file)
        assert running.stdout is not None
        assert "The gateway runs" in running.stdout.readline()
        running.kill()
        running.communicate(timeout=PATIENCE)


def test_who_finds_the_folder_taken_has_imported_nothing_heavy(tmp_path: Path) -> None:
    state, file = tmp_path / "state", without_web(tmp_path)
    running = started(state, file)
    assert running.stdout is not None
    assert "The gateway runs" in running.stdout.readline()
    second = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-m",
            "gateway",
            "run",
            "--config",
            str(file),
            "--state-dir",
            str(state),
        ],
        env=environment(tmp_path),
        cwd=Path(TURNGATE).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    running.terminate()
    running.communicate(timeout=PATIENCE)

    imported = {
        line.rpartition("|")[2].strip()
        for line in second.stderr.splitlines()
        if "import time:" in line
    }
    assert second.returncode == 73
    assert "turngate.gateway.daemon.state_dir" in imported
    assert not imported & {
        "asyncio",
        "aiohttp",
        "aiogram",
        "aiosqlite",
        "sqlite3",
        "structlog",
        "prometheus_client",
    }


async def test_a_service_that_starts_while_a_command_runs_waits_for_it(
    systemd: Listener, tmp_path: Path
) -> None:
    """Finding R12: with status 73 systemd would never start it again."""
    state, file = tmp_path / "state", without_web(tmp_path)
    with take_lock(state, command=True):
        waiting = started(state, file, NOTIFY_SOCKET=systemd.path)
        heard = await systemd.until(f"STATUS=Waiting for process {os.getpid()}, a command, to end.")
        assert "EXTEND_TIMEOUT_USEC=60000000" in heard
    assert "READY=1" in await systemd.until("READY=1")
    waiting.terminate()
    _, log = waiting.communicate(timeout=PATIENCE)

    assert waiting.returncode == 0
    assert log.count(f"waiting: state folder {state} is in use by process {os.getpid()}") == 1


async def test_a_reload_lets_people_in_and_out_without_a_restart(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim))
    closed = file.read_text()
    async with daemon(file) as running:
        await reload(
            running, file, closed.replace("allow: [", f'allow: ["telegram:{STRANGER}", '), 1
        )
        await sim.say("let me in", chat=STRANGER, user=STRANGER)
        await until_told(sim, "let me in", chat=STRANGER)
        await reload(running, file, closed, 2)
        await sim.say("still there?", chat=STRANGER, user=STRANGER)

        async def is_taken() -> bool:
            return all(each["acknowledged"] for each in await sim.updates())

        await sim.until(is_taken)
        log = await reload(running, file, closed, 3)

    assert not [text for text in await sim.texts() if "still there" in text]
    assert log.count("changed=access.allow") == 2
    assert log.count("changed=nothing") == 1
    assert STRANGER not in log


async def test_a_bad_file_leaves_everything_as_it_was_and_says_so(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim))
    async with daemon(file) as running:
        bad = (
            "access: {allow: []}\nturns: {drain: soon}\nplatforms: {telegram: [{token: "
            '"hush-hush"}]}\n'
        )
        log = await reload(running, file, bad, 1)
        await sim.say("am I still known?", chat=PERSON, user=PERSON)
        await until_told(sim, "am I still known?")

    assert "level=error action=reloaded" in log
    assert "nothing has changed" in log
    assert f"{file}:2:16: turns.drain" in await until_logged(file, "turns.drain")
    assert "hush-hush" not in (tmp_path / "log").read_text()


async def test_what_needs_a_restart_is_named_until_there_was_one(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim))
    before = file.read_text()
    async with daemon(file) as running:
        other = before.replace(TOKENS["main"], TOKENS["support"]).replace("50ms", "20ms")
        await reload(running, file, other, 1)
        log = await reload(running, file, other, 2)
        await sim.say("same bot?", chat=PERSON, user=PERSON)
        await until_told(sim, "same bot?")

    assert log.count("changed=turns.debounce needs_restart=platforms.telegram") == 1
    assert log.count("changed=nothing needs_restart=platforms.telegram") == 1
    assert TOKENS["support"] not in log


async def test_a_turn_in_progress_does_not_notice_a_reload(sim: Remote, tmp_path: Path) -> None:
    file = config(tmp_path, bot(sim))
    async with daemon(file) as running:
        await sim.say(LONG, chat=PERSON, user=PERSON)
        await until_growing(sim)
        await reload(
            running,
            file,
            file.read_text() + "agents: {main: {kind: echo, system_prompt: Be brief.}}\n",
            1,
        )
        await until_told(sim, "end")

    assert len(await sim.messages()) == 1


async def test_the_service_manager_is_told_what_goes_on(
    sim: Remote, systemd: Listener, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim))
    async with daemon(file, NOTIFY_SOCKET=systemd.path, WATCHDOG_USEC="300000") as running:
        assert "READY=1" in await systemd.until("READY=1")
        heard = await systemd.until("STATUS=Receiving from telegram/main.")
        heard += await systemd.until("WATCHDOG=1")
        assert not [line for line in heard if line.startswith("STOPPING")]
        running.send(signal.SIGHUP)
        assert "MONOTONIC_USEC" in "".join(await systemd.until("RELOADING=1"))
        await systemd.until("READY=1")
        running.send(signal.SIGTERM)
        assert "EXTEND_TIMEOUT_USEC=9500000" in await systemd.until("STOPPING=1")
        assert await running.ended() == 0


async def test_ready_does_not_wait_for_a_platform_that_is_down(
    sim: Remote, systemd: Listener, tmp_path: Path
) -> None:
    await sim.fault("500", times=None)
    async with daemon(config(tmp_path, bot(sim)), NOTIFY_SOCKET=systemd.path):
        await systemd.until("READY=1")
        await systemd.until("STATUS=Receiving from this machine alone; telegram/main is")


def test_the_one_time_link_is_for_people_and_not_for_a_log(tmp_path: Path) -> None:
    """Finding R22: the output of containers, supervisors and nohup is kept and read by others."""
    state, file = tmp_path / "state", tmp_path / "web.yaml"
    file.write_text("web: {listen: 127.0.0.1:0}\n")
    running = started(state, file)
    assert running.stdout is not None
    told = running.stdout.readline()
    assert told == (
        f"The gateway runs at {address_in(told)}. `turngate web link` makes a link for a browser "
        "on this machine.\n"
    )
    asked = turngate(state, "web", "link")
    running.terminate()
    output, log = running.communicate(timeout=PATIENCE)

    assert running.returncode == 0
    assert "code=" not in output + log
    assert "/enter?code=" in asked.stdout


def test_a_terminal_shows_the_one_time_link(tmp_path: Path) -> None:
    """Finding R22."""
    file = tmp_path / "web.yaml"
    file.write_text("web: {listen: 127.0.0.1:0}\n")
    with in_terminal(tmp_path / "state", "run", "--config", str(file)) as terminal:
        terminal.wait_for("/enter?code=")
        terminal.wait_for("The link works once")


async def test_a_notify_socket_that_nobody_reads_is_no_reason_to_fail(
    sim: Remote, tmp_path: Path
) -> None:
    async with daemon(
        config(tmp_path, bot(sim)), NOTIFY_SOCKET=str(tmp_path / "nowhere")
    ) as running:
        await sim.say("hello", chat=PERSON, user=PERSON)
        await until_told(sim, "hello")
        assert await running.stop() == 0


def under_unit(folder: Path, *options: str) -> tuple[str, ...]:
    """A command that starts others under the restrictions of the unit as it is rendered here."""
    unit = folder / "rendered.service"
    unit.write_text(turngate(folder / "state", "service", "print", "--system", *options).stdout)
    return sys.executable, str(ROOT / "tests" / "sandbox.py"), str(unit)


async def test_it_lives_under_the_strict_unit(sim: Remote, tmp_path: Path) -> None:
    file = config(tmp_path, bot(sim))
    async with daemon(file, under=under_unit(tmp_path)) as running:
        await sim.say(LONG, chat=PERSON, user=PERSON, file=("notes.txt", b"hello"))
        await until_told(sim, "end")
        await reload(running, file, file.read_text(), 1)
        assert await running.stop() == 0


def test_node_dies_under_the_strict_unit_which_is_why_there_is_a_drop_in(tmp_path: Path) -> None:
    command = [node(), "-e", "console.log('lives')"]
    strict = subprocess.run(
        [*under_unit(tmp_path), *command], capture_output=True, text=True, check=False
    )

    assert (strict.returncode < 0, strict.stdout) == (True, ""), "it is killed by a signal"


async def test_an_agent_on_node_answers_under_the_drop_in(sim: Remote, tmp_path: Path) -> None:
    script = "console.log('node heard ' + require('fs').readFileSync(0))"
    agents = (
        f'agents: {{main: {{kind: command, argv: ["{node()}", "-e", "{script}"], memory: 4GB}}}}'
    )
    file = config(tmp_path, bot(sim), more=agents)
    async with daemon(file, under=under_unit(tmp_path, "--run-as", "ann")) as running:
        await sim.say("hello", chat=PERSON, user=PERSON)
        await until_told(sim, "node heard hello")
        assert await running.stop() == 0


def node() -> str:
    """What coding agents run on."""
    found = shutil.which("node")
    assert found is not None, "node is missing; `make service` installs it"
    return found
