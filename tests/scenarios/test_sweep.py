"""
The sweep beside a gateway at work: what it must not end, and what people hear of what it has ended.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.configs import config_of
from tests.fakes import ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.daemon.app import running
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.daemon.sweep import Sweep, is_busy
from turngate.gateway.domain.agent_events import Ask
from turngate.gateway.domain.session import EndReason, ResetPolicy
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.session_lifecycle import ResetPolicies
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.turns.lanes import LaneRules

IDLE = ResetPolicies(default=ResetPolicy(idle_after=timedelta(hours=1)))


def sweep_beside(work: AtWork) -> Sweep:
    """As the daemon has it."""
    pipeline = work.pipeline
    return Sweep(
        policy=pipeline.policy,
        store=work.store,
        files=SessionFiles(Path("no-files-here")),
        clock=pipeline.clock,
        observer=work.observer,
        is_busy=partial(is_busy, pipeline),
    )


@hurried
class TestSweep:
    async def test_whoever_writes_after_it_is_told_once_that_a_conversation_is_over(self) -> None:
        clock = LoopClock()
        async with at_work(
            policy_for(ScriptedAgent(Text("hi")), resets=IDLE), MemoryStore(clock), clock
        ) as work:
            await work.say("first")
            await later(2 * 3600)
            assert [await sweep_beside(work).end_due() for _ in range(2)] == [1, 0]
            for text in ("second", "third"):
                await work.say(text)
                await later()

        assert "hi" in work.adapter.texts[0]
        assert ["/resume" in text for text in work.adapter.texts] == [False, True, False, False]
        assert len(await work.store.sessions()) == 2

    async def test_a_message_that_waits_for_the_rest_of_a_thought_makes_the_reset_itself(
        self,
    ) -> None:
        clock, rules = LoopClock(), LaneRules(debounce=timedelta(seconds=5))
        policy = policy_for(ScriptedAgent(Text("hi")), resets=IDLE)
        async with at_work(policy, MemoryStore(clock), clock, rules=rules) as work:
            await work.say("first")
            await later(2 * 3600)
            before = await work.session()
            await work.say("second")

            assert await sweep_beside(work).end_due() == 0
            await later()
            old, new = await work.store.session(before.id), await work.session()

        assert (old.end_reason, new.id != old.id) == (EndReason.IDLE, True)
        assert ["/resume" in text for text in work.adapter.texts] == [False, True, False]

    async def test_a_question_that_can_still_be_answered_keeps_a_conversation(self) -> None:
        clock, ask = LoopClock(), Ask(id="a", text="Go on?", options=("Yes", "No"))
        policy = policy_for(ScriptedAgent(ask), resets=IDLE, answer_within=timedelta(hours=5))
        async with at_work(policy, MemoryStore(clock), clock) as work:
            await work.say("first")
            await later(2 * 3600)
            assert await sweep_beside(work).end_due() == 0
            await later(4 * 3600)
            assert await sweep_beside(work).end_due() == 1

    async def test_a_summary_that_is_being_written_keeps_a_conversation(self) -> None:
        clock, go_on = LoopClock(), asyncio.Event()
        slow = ConfiguredAgent(name="slow", agent=ScriptedAgent(go_on, Text("short")))
        talker = ConfiguredAgent(name="main", agent=ScriptedAgent(Text("hi " * 50)))
        policy = Policy(
            agents={"main": talker, "slow": slow},
            summariser="slow",
            resets=IDLE,
            history=HistoryRules(keep_recent=1),
            idle_timeout=timedelta(days=1),
        )
        async with at_work(policy, MemoryStore(clock), clock) as work:
            for number in range(4):
                await work.say(f"a long story, part {number}")
                await later()
            session = await work.session()
            summarising = asyncio.create_task(
                work.pipeline.recorder.compaction.on_request(session, at_desk(), lambda stop: None)
            )
            await later(2 * 3600)
            assert await sweep_beside(work).end_due() == 0
            go_on.set()
            assert "summarised" in await summarising
            assert await sweep_beside(work).end_due() == 1


async def test_a_config_that_is_read_again_changes_what_the_sweep_goes_by(tmp_path: Path) -> None:
    text = f"state_dir: {tmp_path / 'state'}\nweb: {{listen: null}}\n"
    config = config_of(text)
    with take_lock(config.state_dir) as lock:
        async with running(config, lock, doors=False) as gateway:
            before = gateway.reload.sweep.rules
            await gateway.reload.take(
                config_of(text + "sessions: {keep: 90d, clean_up: {every: null}}\n")
            )
            after = gateway.reload.sweep.rules

    assert (before.every, before.keep) == (timedelta(hours=1), None)
    assert (after.every, after.keep, after.archive_after) == (
        None,
        timedelta(days=90),
        timedelta(days=30),
    )
