"""
Turns that died with their daemon: run again if they may, three times at most, and never without a
word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.at_work import AtWork, at_work, policy_for
from tests.fakes import NOON, ScriptedAgent, message
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Tool,
    ToolStatus,
    Turn,
)
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.store_values import Begun, InboxItem
from turngate.gateway.domain.transcript import Origin, Text
from turngate.gateway.rules.outcomes import MOST_CRASHES, given_up
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.sqlite import SqliteStore

TOO_OFTEN = (
    "I tried 3 times to answer this and was cut off each time, so I leave it. Write "
    "again, or /retry."
)
NOT_AGAIN = (
    "I was interrupted while working on this, and doing it again could do harm. /retry "
    "runs it again."
)


async def echo(turn: Turn) -> AsyncIterator[AgentEvent]:
    yield Text(" + ".join(message.text for message in turn.messages))
    yield Done()


async def never(turn: Turn) -> AsyncIterator[AgentEvent]:
    await asyncio.Event().wait()
    yield Done()


def not_repeatable(agent: ScriptedAgent) -> Policy:
    policy = policy_for(agent)
    return replace(policy, agents={"main": replace(policy.agents["main"], repeatable=False)})


@asynccontextmanager
async def life(path: Path, policy: Policy, *, crashes: int = 0) -> AsyncIterator[AtWork]:
    """
    One run of the daemon over the same database. Leaving it cuts everything off, as a crash does.

    `crashes`: how often it has crashed before this run; 0 if it was killed from outside.
    """
    store = await SqliteStore.connect(path / "turngate.db", SystemClock())
    last_run = path / "last-run"
    await store.count_crash(last_run.read_text() if crashes else None)
    last_run.write_text(store.run)
    async with at_work(policy, store, SystemClock()) as work:
        await work.delivery.recover()
        await work.pipeline.recover(crashes=crashes)
        yield work
    await store.close()


async def begun(work: AtWork, attempt: int = 1) -> InboxItem:
    """The row of the turn, once it has been begun so often."""
    while not (
        found := [
            row for row in await work.store.inbox(InboxState.RUNNING) if row.attempts == attempt
        ]
    ):
        await asyncio.sleep(0.001)
    return found[0]


async def until(work: AtWork, state: InboxState) -> InboxItem:
    while not (found := await work.store.inbox(state)):
        await asyncio.sleep(0.001)
    return found[0]


async def test_a_turn_that_crashed_three_times_alone_is_given_up_with_a_notice_and_its_lane_goes_on(
    tmp_path: Path,
) -> None:
    killer = policy_for(ScriptedAgent(answer=never))
    async with life(tmp_path, killer) as work:
        await work.say("deadly", id="m1")
        await begun(work)
        await work.say("harmless", id="m2")
    for attempt in range(2, MOST_CRASHES + 2):
        async with life(tmp_path, killer, crashes=1) as work:
            await begun(work, attempt)

    agent = ScriptedAgent(answer=echo)
    async with life(tmp_path, policy_for(agent), crashes=1) as work:
        await work.adapter.until_sent(2)
        dead = await until(work, InboxState.DEAD)
        await until(work, InboxState.DONE)

        assert [(part.text, part.reply_to) for part in work.adapter.sent] == [
            (TOO_OFTEN, "m1"),
            ("harmless", "m2"),
        ]
        assert (dead.message.text, dead.reason) == (
            "deadly",
            "the daemon crashed 3 times while this ran alone",
        )
        assert [[each.text for each in turn.messages] for turn in agent.turns] == [["harmless"]]
        assert await work.texts() == ["deadly", TOO_OFTEN, "harmless", "harmless"]
        assert (await work.store.depth()).inbox_dead == 1
        assert (await work.entries())[1].origin is Origin.COMMAND


async def test_a_dead_letter_is_not_tried_again_by_the_next_start(tmp_path: Path) -> None:
    killer = policy_for(ScriptedAgent(answer=never))
    async with life(tmp_path, killer) as work:
        await work.say("deadly")
        await begun(work)
    for attempt in range(2, MOST_CRASHES + 2):
        async with life(tmp_path, killer, crashes=1) as work:
            await begun(work, attempt)
    async with life(tmp_path, killer, crashes=1) as work:
        await until(work, InboxState.DEAD)
        await work.adapter.until_sent(1)

    agent = ScriptedAgent(answer=echo)
    async with life(tmp_path, policy_for(agent)) as work:
        await work.say("next", id="next")
        await work.adapter.until_sent(1)

        assert [[each.text for each in turn.messages] for turn in agent.turns] == [["next"]]


async def test_a_turn_that_died_once_is_answered_by_the_second_try(tmp_path: Path) -> None:
    async with life(tmp_path, policy_for(ScriptedAgent(answer=never))) as work:
        await work.say("hello")
        await begun(work)

    async with life(tmp_path, policy_for(ScriptedAgent(answer=echo))) as work:
        await work.adapter.until_sent(1)

        assert work.adapter.texts == ["hello"]
        assert await work.texts() == ["hello", "hello"]


async def test_an_agent_that_must_not_be_asked_twice_is_not(tmp_path: Path) -> None:
    async with life(tmp_path, not_repeatable(ScriptedAgent(answer=never))) as work:
        await work.say("pay the bill")
        await begun(work)

    agent = ScriptedAgent(answer=echo)
    async with life(tmp_path, not_repeatable(agent)) as work:
        failed = await until(work, InboxState.FAILED)
        await work.adapter.until_sent(1)

        assert work.adapter.texts == [NOT_AGAIN]
        assert (failed.reason, agent.turns) == ("interrupted, and must not run again by itself", [])


async def test_what_counts_is_who_was_asked_and_not_who_would_be_asked_now(tmp_path: Path) -> None:
    async with life(tmp_path, not_repeatable(ScriptedAgent(answer=never))) as work:
        await work.say("pay the bill")
        await begun(work)

    agent = ScriptedAgent(answer=echo)
    async with life(tmp_path, policy_for(agent)) as work:
        await until(work, InboxState.FAILED)

        assert agent.turns == []


async def test_a_turn_that_showed_a_tool_at_work_is_not_run_again(tmp_path: Path) -> None:
    tool_shown = asyncio.Event()

    async def with_a_tool(turn: Turn) -> AsyncIterator[AgentEvent]:
        yield Tool(id="t1", name="rm", status=ToolStatus.STARTED)
        tool_shown.set()
        await asyncio.Event().wait()

    async with life(tmp_path, policy_for(ScriptedAgent(answer=with_a_tool))) as work:
        await work.say("clean up")
        await tool_shown.wait()

    agent = ScriptedAgent(answer=echo)
    async with life(tmp_path, policy_for(agent)) as work:
        await until(work, InboxState.FAILED)
        await work.adapter.until_sent(1)

        assert (work.adapter.texts, agent.turns) == ([NOT_AGAIN], [])


@pytest.mark.parametrize("how", ["/retry", "queue retry"])
async def test_what_was_given_up_is_done_when_somebody_wants_it(tmp_path: Path, how: str) -> None:
    async with life(tmp_path, not_repeatable(ScriptedAgent(answer=never))) as work:
        await work.say("pay the bill")
        await begun(work)

    agent = ScriptedAgent(answer=echo)
    async with life(tmp_path, not_repeatable(agent)) as work:
        failed = await until(work, InboxState.FAILED)
        await work.adapter.until_sent(1)
        if how == "/retry":
            await work.say("/retry", id="again")
        else:
            work.pipeline.resume(await work.store.requeue(failed.id))
        await work.adapter.until_sent(2)

        assert work.adapter.texts == [NOT_AGAIN, "pay the bill"]
        assert [turn.messages[-1].text for turn in agent.turns] == ["pay the bill"]


class TestGivenUp:
    def begun(
        self,
        attempt: int,
        *,
        alone_crashes: int = 0,
        repeatable: bool = True,
        preview: str | None = None,
    ) -> Begun:
        return Begun(
            turn=1,  # type: ignore[arg-type]
            opened=None,  # type: ignore[arg-type]
            user_entries=(),
            history=(),
            attempt=attempt,
            repeatable=repeatable,
            preview=preview,
            alone_crashes=alone_crashes,
        )

    @pytest.mark.parametrize(
        ("attempt", "crashes", "repeatable"),
        [(1, 0, True), (2, 1, True), (3, 2, True), (50, 2, True), (1, 0, False)],
    )
    def test_a_turn_that_may_run_is_not_given_up(
        self, attempt: int, crashes: int, repeatable: bool
    ) -> None:
        begun = self.begun(attempt, alone_crashes=crashes, repeatable=repeatable)

        assert given_up(begun, message(), NOON) is None

    @pytest.mark.parametrize(
        ("crashes", "repeatable", "dead"), [(3, True, True), (3, False, True), (0, False, False)]
    )
    def test_only_what_crashed_too_often_is_a_dead_letter(
        self, crashes: int, repeatable: bool, dead: bool
    ) -> None:
        begun = self.begun(4, alone_crashes=crashes, repeatable=repeatable)
        outcome = given_up(begun, message(), NOON)

        assert outcome is not None
        assert (outcome.dead, bool(outcome.failure), len(outcome.parts), len(outcome.entries)) == (
            dead,
            True,
            1,
            1,
        )

    def test_the_notice_takes_the_place_of_what_was_being_shown(self) -> None:
        outcome = given_up(self.begun(4, alone_crashes=3, preview="p7"), message(), NOON)

        assert outcome is not None
        assert outcome.parts[0].edits == "p7"
