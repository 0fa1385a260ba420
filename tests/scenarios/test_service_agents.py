"""
The daemon with agents that do not make it easy: one blocks the loop, one will not close, one is
new.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.service import Listener, reload, until_growing, until_logged, until_told
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.telegram import Telegram
from tests.telegram_daemon import PERSON, bot, config, daemon

AGENTS = """
import asyncio, pathlib, time

class House:
    def __init__(self, options):
        self.name, self.folder = options["name"], pathlib.Path(__file__).parent

    async def run(self, turn):
        asked = turn.messages[-1].text
        yield f"{self.name} begins. "
        if asked == "work":
            while not (self.folder / "enough").exists():
                await asyncio.sleep(0.01)
        if asked == "block":
            while not (self.folder / "enough").exists():
                time.sleep(0.01)
        yield f"{self.name} heard {asked}"

    async def close(self):
        with (self.folder / "closed").open("a") as file:
            file.write(f"{self.name}\\n")
        if self.name == "stubborn":
            await asyncio.Event().wait()

def broken(options):
    raise RuntimeError("not today")
"""


def agents(folder: Path, name: str, factory: str = "House") -> str:
    """Of a config with one agent of one's own, by whatever name it goes."""
    (folder / "house_agents.py").write_text(AGENTS)
    return (
        f"agents: {{main: {{kind: python, object: 'house_agents:{factory}', options: {{name: "
        f"{name}}}}}}}"
    )


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """A platform without rates."""
    async with in_process(Simulator(Telegram())) as remote:
        yield remote


async def test_a_new_agent_answers_the_next_turn_and_the_old_one_leaves_after_its_last(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more=agents(tmp_path, "ann"))
    async with daemon(file, PYTHONPATH=str(tmp_path)) as running:
        await sim.say("work", chat=PERSON, user=PERSON)
        await until_growing(sim)
        log = await reload(running, file, file.read_text().replace("name: ann", "name: bob"), 1)
        assert "changed=agents.main.options" in log
        assert not (tmp_path / "closed").exists()
        (tmp_path / "enough").touch()
        await until_told(sim, "ann heard work")
        await sim.say("hello", chat=PERSON, user=PERSON)
        await until_told(sim, "bob heard hello")
        assert (tmp_path / "closed").read_text() == "ann\n"
        assert await running.stop() == 0

    assert (tmp_path / "closed").read_text() == "ann\nbob\n"


async def test_an_agent_that_cannot_be_made_leaves_everything_as_it_was(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more=agents(tmp_path, "ann"))
    async with daemon(file, PYTHONPATH=str(tmp_path)) as running:
        written = file.read_text().replace("House", "broken").replace("50ms", "20ms")
        log = await reload(running, file, written, 1)
        await sim.say("still you?", chat=PERSON, user=PERSON)
        await until_told(sim, "ann heard still you?")
        assert await running.stop() == 0

    assert "nothing has changed" in log
    assert (tmp_path / "closed").read_text() == "ann\n"


async def test_of_what_must_not_run_again_a_stop_keeps_what_was_said(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(
        tmp_path, bot(sim), more=agents(tmp_path, "ann") + "\nturns: {debounce: 10ms, drain: 10ms}"
    )
    async with daemon(file, PYTHONPATH=str(tmp_path)) as running:
        await sim.say("work", chat=PERSON, user=PERSON)
        await until_growing(sim)
        assert await running.stop() == 0
    (said,) = await sim.texts()
    assert said.endswith("(incomplete: the gateway is being restarted)")
    assert len(said.split()) > 6

    async with daemon(file, PYTHONPATH=str(tmp_path)):
        await sim.say("and now?", chat=PERSON, user=PERSON)
        await until_told(sim, "ann heard and now?")
    assert said in await sim.texts()


async def test_what_will_not_close_is_left_and_the_daemon_ends_all_the_same(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more=agents(tmp_path, "stubborn") + "\nturns: {drain: 10ms}")
    async with daemon(file, PYTHONPATH=str(tmp_path)) as running:
        assert await running.stop() == 0

    assert (tmp_path / "closed").read_text() == "stubborn\n"
    assert "closing timed out" in (tmp_path / "log").read_text()


async def test_whoever_blocks_the_loop_is_named_and_the_watchdog_hears_nothing(
    sim: Remote, tmp_path: Path
) -> None:
    systemd = Listener(tmp_path)
    file = config(tmp_path, bot(sim), more=agents(tmp_path, "ann"))
    async with daemon(
        file, PYTHONPATH=str(tmp_path), NOTIFY_SOCKET=systemd.path, WATCHDOG_USEC="300000"
    ) as running:
        # The first turn of all makes the patterns of what must be hidden, which takes a busy
        # machine long enough.
        await sim.say("hello", chat=PERSON, user=PERSON)
        await until_told(sim, "ann heard hello")
        await systemd.until("WATCHDOG=1")
        before = file.with_name("log").read_text().count("the event loop is blocked")
        await sim.say("block", chat=PERSON, user=PERSON)
        log = await until_logged(file, "the event loop is blocked", times=before + 1)
        systemd.forget()
        await asyncio.sleep(1)
        assert systemd.forget() == []
        (tmp_path / "enough").touch()
        await systemd.until("WATCHDOG=1")
        await until_logged(file, "the event loop runs again")
        running.send(signal.SIGTERM)
        assert await running.ended() == 0
    systemd.close()

    assert "house_agents.py:" in log
    assert ":run" in log


async def test_a_second_signal_ends_a_daemon_whose_loop_is_stuck_in_its_closing(
    sim: Remote, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more=agents(tmp_path, "stubborn") + "\nturns: {drain: 1h}")
    async with daemon(file, PYTHONPATH=str(tmp_path)) as running:
        running.send(signal.SIGTERM)
        await until_logged(file, "action=stopping")
        assert await running.stop() == 0
