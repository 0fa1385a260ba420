"""Conversations with an agent that holds them itself: what it remembers is what people see."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.acp_rig import AcpRig, is_running
from tests.at_work import AtWork, at_work
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.stores.sqlite import SqliteStore

CHILD = """
import asyncio, pathlib, sys
from tests.acp_rig import AcpRig, heard, words

async def main():
    rig = AcpRig(pathlib.Path(sys.argv[1]))
    async with rig.agent() as agent:
        print(words(await heard(agent, rig.turn("spawn"))), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def rig(tmp_path: Path) -> AcpRig:
    return AcpRig(tmp_path)


@asynccontextmanager
async def talking(rig: AcpRig, *flags: str) -> AsyncIterator[AtWork]:
    """A gateway whose agent is the scripted program. The store outlives it."""
    clock = SystemClock()
    store = await SqliteStore.connect(rig.folder / "store.db", clock)
    try:
        async with rig.agent(*flags) as agent:
            policy = Policy(
                agents={"main": ConfiguredAgent(name="main", agent=agent, has_workdir=True)},
                redact_emails=True,
            )
            async with at_work(
                policy, store, clock, files=SessionFiles(rig.folder / "files")
            ) as work:
                yield work
    finally:
        await store.close()


async def answered(work: AtWork, text: str) -> str:
    """What comes back for a message."""
    already = len(work.adapter.sent)
    await work.say(text, id=text)
    await work.adapter.until_sent(already + 1)
    return work.adapter.texts[-1].strip()


async def test_an_agent_remembers_by_itself_and_is_told_only_what_is_new(rig: AcpRig) -> None:
    async with talking(rig) as work:
        await answered(work, "one")
        await answered(work, "two")
        assert await answered(work, "recall") == "one | two | recall"

    assert [len(blocks) for blocks in rig.prompts()] == [2, 1, 1]


@pytest.mark.parametrize("command", ["/undo", "/retry"])
async def test_what_people_take_back_the_agent_does_not_remember(command: str, rig: AcpRig) -> None:
    async with talking(rig) as work:
        await answered(work, "one")
        await answered(work, "a mistake")
        await answered(work, command)
        remembered = await answered(work, "recall")

    assert "one" in rig.prompts()[2][0]["text"]
    assert "a mistake" not in rig.prompts()[2][0]["text"]
    assert remembered == {"/undo": "recall", "/retry": "a mistake | recall"}[command]


async def test_after_a_reset_it_is_another_conversation(rig: AcpRig) -> None:
    async with talking(rig) as work:
        await answered(work, "one")
        await answered(work, "/new")
        assert await answered(work, "recall") == "recall"


async def test_after_a_restart_of_everything_it_goes_on(rig: AcpRig) -> None:
    async with talking(rig, "--load") as work:
        await answered(work, "one")
    async with talking(rig, "--load") as work:
        assert await answered(work, "recall") == "one | recall"


async def test_a_permission_is_given_by_a_number(rig: AcpRig) -> None:
    async with talking(rig) as work:
        question = await answered(work, "permission")
        await work.say("2")
        await work.adapter.until_sent(3)

    assert "2. allow always" in question
    assert any("outcome allow_always" in text for text in work.adapter.texts)


async def test_a_stop_keeps_what_was_said(rig: AcpRig) -> None:
    async with talking(rig) as work:
        await work.say("slow")
        while not rig.asked("prompt"):
            await asyncio.sleep(0.02)
        await work.say("/stop")
        await work.adapter.until_sent(2)

    assert len(rig.asked("cancel")) == 1
    assert rig.working() == 0


def test_a_kill_of_the_gateway_leaves_nothing_of_the_agent(rig: AcpRig) -> None:
    folder = str(rig.folder)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, folder], stdout=subprocess.PIPE, text=True
    ) as gateway:
        assert gateway.stdout is not None
        pids = list(map(int, gateway.stdout.readline().split()))
        assert len(pids) == 2
        assert all(map(is_running, pids))
        os.kill(gateway.pid, signal.SIGKILL)

    wait_until_gone(pids)


def wait_until_gone(pids: list[int]) -> None:
    """The guardian needs a moment. If they stay, the test is ended from outside."""
    while any(map(is_running, pids)):
        os.sched_yield()
