"""
The whole life of a message with a model behind it: everything is real but the people and the
model's mind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.oracle_store import MemoryStore
from tests.simulators.common import Simulator
from tests.simulators.models import KEY, Models
from tests.simulators.running import PATIENCE, Remote, in_process
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.ports.agent import Closes
from turngate.gateway.domain.transcript import Text
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.redaction import new_key

METHODS = {"openai": "completions", "anthropic": "messages"}
WORDS = [f"word{number} " for number in range(30)]

for_both = pytest.mark.parametrize("kind", list(METHODS))


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway, and the server of its model."""

    work: AtWork
    sim: Remote

    async def ask(self, text: str, *, answers: int = 1, source: SessionSource | None = None) -> str:
        """What comes back."""
        await self.work.say(text, source=source)
        async with asyncio.timeout(PATIENCE):
            await self.work.adapter.until_sent(answers)
        return self.work.adapter.texts[-1]


@asynccontextmanager
async def scene(kind: str, **decisions: object) -> AsyncIterator[Scene]:
    async with in_process(Simulator(Models())) as sim:
        spec = AgentSpec(name="main", kind=kind, url=f"{sim.url}/v1", api_key=KEY, model="m")
        agent = load_agent(spec)
        chain = FallbackAgent(
            [Link(name="main", agent=agent, attempts=3)], Observer().agent_unavailable
        )
        policy = policy_for(chain, privacy_key=new_key(), **decisions)
        async with at_work(policy, MemoryStore(SystemClock()), SystemClock()) as work:
            yield Scene(work, sim)
        assert isinstance(agent, Closes)
        await agent.close()
        assert await sim.violations() == []


@for_both
async def test_a_conversation_is_remembered_and_counted(kind: str) -> None:
    async with scene(kind) as at:
        assert await at.ask("hello") == "You said: hello"
        assert await at.ask("and again", answers=2) == "You said: and again"
        asked = (await at.sim.calls(method=METHODS[kind]))[-1]["parameters"]["messages"]
        session = await at.work.session()

    assert [message["role"] for message in asked if message["role"] != "system"] == [
        "user",
        "assistant",
        "user",
    ]
    assert session.tokens.input == 14
    assert session.tokens.cache_read == 8


@for_both
async def test_an_answer_that_breaks_off_stays_and_says_that_it_is_incomplete(kind: str) -> None:
    async with scene(kind) as at:
        await at.sim.do("script", pieces=WORDS)
        await at.sim.fault("cut")
        shown = await at.ask("go")
        kept = (await at.work.texts())[1]

    assert shown.startswith("word0 word1 ")
    assert "incomplete: the answer was cut off: the connection to the model broke" in shown
    assert kept.startswith("word0 word1 ")
    assert len(kept.split()) < len(WORDS)


@for_both
async def test_a_model_that_is_busy_is_asked_again_and_nobody_notices(kind: str) -> None:
    async with scene(kind) as at:
        await at.sim.fault("429", times=2, retry_after=0.01)
        assert await at.ask("hello") == "You said: hello"


@for_both
async def test_a_stop_closes_the_request(kind: str) -> None:
    async with scene(kind) as at:
        await at.sim.do("script", pieces=WORDS)
        await at.sim.fault("stall")
        await at.work.say("go")
        await at.sim.until(lambda: streaming(at, 1))
        await at.work.say("/stop")
        await at.sim.until(lambda: streaming(at, 0))


async def streaming(at: Scene, count: int) -> bool:
    return await at.sim.do("streaming") == count


@for_both
async def test_people_in_a_shared_chat_are_named_and_hidden(kind: str) -> None:
    group = SessionSource(
        platform="web", chat_type=ChatType.GROUP, chat_id="group-7", user_id="ann-12345"
    )
    async with scene(kind, per_user_in_groups=False) as at:
        await at.ask("I am here", source=group)
        await at.ask("me too", answers=2, source=replace(group, user_id="bob-67890"))
        told = repr((await at.sim.calls(method=METHODS[kind]))[-1]["parameters"]["messages"][-1])
        everything = repr(await at.sim.calls(method=METHODS[kind]))

    assert "[user_" in told
    assert "me too" in told
    assert "ann-12345" not in everything
    assert "bob-67890" not in everything


@for_both
async def test_thoughts_are_no_part_of_the_answer(kind: str) -> None:
    async with scene(kind) as at:
        await at.sim.do("script", thoughts=["secretly"], pieces=["openly"])
        assert await at.ask("go") == "openly"
        entry = (await at.work.entries(at_desk()))[-1]

    assert entry.content == (Text("openly"),)
    assert entry.reasoning is not None
    assert entry.reasoning.text == "secretly"
