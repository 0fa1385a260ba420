"""A row that is damaged while its turn runs: the message is answered without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.at_work import at_work, policy_for
from tests.contracts.test_sqlite import tamper
from tests.fakes import ScriptedAgent
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import AgentEvent, Done, Turn
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.transcript import Text
from turngate.gateway.stores.sqlite import SqliteStore


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE turns SET checksum = checksum + 1 WHERE n = 1",
        "UPDATE turns SET session = 99 WHERE n = 1",
        "UPDATE sessions SET title = 'bad', checksum = 1 WHERE n = 1",
    ],
)
async def test_a_turn_damaged_while_it_runs_is_run_again_at_once(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "state" / "turngate.db"
    begun, go = asyncio.Event(), asyncio.Event()

    async def waits(turn: Turn) -> AsyncIterator[AgentEvent]:
        begun.set()
        await go.wait()
        yield Text("answered")
        yield Done()

    store = await SqliteStore.connect(path, SystemClock())
    async with at_work(policy_for(ScriptedAgent(answer=waits)), store, SystemClock()) as work:
        await work.say("hello")
        await asyncio.wait_for(begun.wait(), 10)
        tamper(path, damage)
        go.set()

        async with asyncio.timeout(5):
            while await store.inbox(InboxState.WAITING, InboxState.RUNNING, limit=9):
                await asyncio.sleep(0.05)
