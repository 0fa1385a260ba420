"""Nobody takes all slots: not the users of an agent that is down (R7), not one person (R18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta

from tests.at_work import at_desk, at_work
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.domain.agent_events import AgentEvent, Done, Turn
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route
from turngate.gateway.turns.lanes import LaneRules

RULES = LaneRules(debounce=timedelta(0), concurrent=64, agents=2)
DEAD_USERS = 70


class Dead:
    """Accepts every turn and says nothing."""

    def __init__(self) -> None:
        self.at_once = self.most_at_once = 0

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await later(24 * 3600)
            yield Done()
        finally:
            self.at_once -= 1


class Healthy:
    """Answers at once."""

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        yield Text("here")
        yield Done()


def two_agents(dead: Dead) -> Policy:
    def tell(name: str, error: AgentError, *, again: bool) -> None:
        """Nobody looks."""

    def configured(name: str, agent: Agent) -> ConfiguredAgent:
        link = Link(name=name, agent=agent, attempts=3, first_token=120.0)
        return ConfiguredAgent(name=name, agent=FallbackAgent([link], tell))

    agents = {"main": configured("main", Healthy()), "dead": configured("dead", dead)}
    routes = [Route(chat=f"d{number}", agent="dead") for number in range(DEAD_USERS)]
    return Policy(agents=agents, routes=routes)


@hurried
async def test_a_dead_model_server_silences_nobody_else() -> None:
    """Finding R7: the person of the other agent got nothing in 60 s."""
    clock, dead = LoopClock(), Dead()
    async with at_work(two_agents(dead), MemoryStore(clock), clock, rules=RULES) as work:
        for number in range(DEAD_USERS):
            await work.say("hello?", source=at_desk(f"d{number}", f"user{number}"))
        await later(1)
        await work.say("and you?", source=at_desk("healthy", "ann"))
        await later(1)

        assert work.adapter.texts == ["here"]
        assert dead.most_at_once == 32


@hurried
async def test_the_users_of_a_dead_agent_are_told_in_time_and_not_one_batch_after_the_other() -> (
    None
):
    clock, dead = LoopClock(), Dead()
    async with at_work(two_agents(dead), MemoryStore(clock), clock, rules=RULES) as work:
        for number in range(DEAD_USERS):
            await work.say("hello?", source=at_desk(f"d{number}", f"user{number}"))
        await later(130)

        told = [text for text in work.adapter.texts if "There is no answer" in text]
        assert len(told) == DEAD_USERS
