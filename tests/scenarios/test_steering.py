"""What is said to an agent while it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

from tests.at_work import at_work, policy_for
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
    Usage,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.transcript import Text
from turngate.gateway.turns.lanes import LaneRules, WhenBusy

STEERING = LaneRules(when_busy=WhenBusy.STEER, debounce=timedelta(0))


class Listener:
    """
    Works until it is told to be quick, and says what it heard. Deaf ones hear nothing; odd ones
    break; silent ones say all that they have to say before.
    """

    def __init__(self, *, deaf: bool = False, odd: bool = False, silent: bool = False) -> None:
        self.heard: list[str] = []
        self.turns: list[Turn] = []
        self.quick = asyncio.Event()
        self._deaf, self._odd, self._silent = deaf, odd, silent

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self.turns.append(turn)
        if self._silent:
            yield Text(turn.messages[-1].text)
        await self.quick.wait()
        if not self._silent:
            yield Text(" + ".join([turn.messages[-1].text, *self.heard]))
        yield Usage(output=1)
        yield Done()

    async def steer(self, turn: TurnId, text: str) -> bool:
        if self._odd:
            raise RuntimeError("odd")
        if self._deaf:
            return False
        self.heard.append(text)
        return True


def memory() -> tuple[MemoryStore, LoopClock]:
    clock = LoopClock()
    return MemoryStore(clock), clock


@hurried
class TestSteering:
    async def test_more_words_reach_the_turn_that_runs_and_are_answered_with_it(self) -> None:
        agent = Listener()
        async with at_work(policy_for(agent), *memory(), rules=STEERING) as work:
            await work.say("paint it")
            await later(1)
            await work.say("in blue")
            await work.say("quickly")
            await later(1)
            agent.quick.set()
            await later(1)

            assert work.adapter.texts == ["paint it + in blue + quickly"]
            assert await work.texts() == [
                "paint it",
                "in blue",
                "quickly",
                "paint it + in blue + quickly",
            ]
            assert await work.store.inbox(InboxState.WAITING, InboxState.RUNNING) == []
            assert len(agent.turns) == 1

    async def test_ids_stay_hidden_from_it(self) -> None:
        agent = Listener()
        async with at_work(
            policy_for(agent, privacy_key=bytes(32)), *memory(), rules=STEERING
        ) as work:
            await work.say("call me")
            await later(1)
            await work.say("at +49 170 1234567")
            await later(1)
            agent.quick.set()
            await later(1)

            assert "1234567" not in agent.heard[0]
            assert work.adapter.texts == ["call me + at +49 170 1234567"]

    async def test_one_that_does_not_listen_is_asked_afterwards(self) -> None:
        for agent in (Listener(deaf=True), Listener(odd=True)):
            async with at_work(policy_for(agent), *memory(), rules=STEERING) as work:
                await work.say("one")
                await later(1)
                await work.say("two")
                await later(1)
                agent.quick.set()
                await later(1)

                assert work.adapter.texts == ["one", "two"]

    async def test_what_it_says_nothing_after_is_answered_by_a_turn_of_its_own(self) -> None:
        agent = Listener(silent=True)
        async with at_work(policy_for(agent), *memory(), rules=STEERING) as work:
            await work.say("one")
            await later(1)
            await work.say("two")
            await work.say("three")
            await later(1)
            agent.quick.set()
            await later(1)

            assert agent.heard == ["two", "three"]
            assert work.adapter.texts == ["one", "three"]
            assert [[message.text for message in turn.messages] for turn in agent.turns] == [
                ["one"],
                ["two", "three"],
            ]
            assert await work.store.inbox(InboxState.WAITING, InboxState.RUNNING) == []

    async def test_what_comes_too_late_is_answered_by_a_turn_of_its_own(self) -> None:
        agent = Listener()
        async with at_work(policy_for(agent), *memory(), rules=STEERING) as work:
            await work.say("one")
            agent.quick.set()
            await later(5)
            agent.heard.clear()
            await work.say("two")
            await later(5)

            assert work.adapter.texts == ["one", "two"]
