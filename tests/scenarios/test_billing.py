"""What a conversation costs, who is charged, and what happens when a budget is used up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from tests.at_work import AtWork, at_desk, at_work, numbers
from tests.fakes import RecordingAdapter, ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Usage,
)
from turngate.gateway.domain.agent_events import Turn as AgentTurn
from turngate.gateway.domain.errors import AgentError, AgentUnavailable
from turngate.gateway.domain.messages import InboxState, SessionSource
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.transcript import Origin, Text
from turngate.gateway.domain.usage import (
    By,
    CostStatus,
    Model,
    Payer,
    Tokens,
)
from turngate.gateway.rules.authorization import Access, Direct
from turngate.gateway.rules.budgets import Budget, Budgets
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.pricing import Prices
from turngate.gateway.stores.sqlite import SqliteStore

MODEL = Model(name="gpt", provider="openai", base_url="http://127.0.0.1/v1")
PRICES = Prices(input=1.0, output=10.0)
ONE_DOLLAR = Usage(input=1_000_000)
USED_UP = "Today's budget of $1.00 is used up; it starts again at 00:00 UTC."


def memory() -> tuple[MemoryStore, LoopClock]:
    clock = LoopClock()
    return MemoryStore(clock), clock


def policy(agent: Agent, *, prices: Prices | None = PRICES, **budgets: Budget) -> Policy:
    configured = ConfiguredAgent(name="main", agent=agent, prices=prices, model=MODEL)
    return Policy(agents={"main": configured}, budgets=Budgets(**budgets), privacy_key=b"k" * 32)


def using(*usage: Usage) -> ScriptedAgent:
    return ScriptedAgent(Text("a fish"), *usage, Done())


async def say_all(work: AtWork, *texts: str, source: SessionSource | None = None) -> None:
    """One after the other, each answered before the next."""
    for text in texts:
        await work.say(text, source=source)
        await later()


@hurried
class TestCounting:
    async def test_what_the_agent_reports_is_priced_by_the_table_and_charged_to_who_asked(
        self,
    ) -> None:
        async with at_work(policy(using(Usage(input=1000, output=100))), *memory()) as work:
            await say_all(work, "how much", "and now")

            session = await work.session()
            (used,) = await work.store.usage(By.USER)
            assert session.tokens == Tokens(input=2000, output=200)
            assert not session.tokens_estimated
            assert session.cost is not None
            assert (session.cost.usd, session.cost.status) == (0.004, CostStatus.ESTIMATED)
            assert session.model == MODEL
            assert used.payer == Payer(platform="web", account="main", user="ann")
            assert (used.spending.turns, used.spending.usd) == (2, 0.004)

    async def test_the_price_that_the_agent_reports_wins(self) -> None:
        async with at_work(policy(using(Usage(input=1000, cost_usd=0.5))), *memory()) as work:
            await say_all(work, "how much")

            cost = (await work.session()).cost
            assert cost is not None
            assert (cost.usd, cost.status, cost.source) == (0.5, CostStatus.REPORTED, "agent")

    async def test_an_agent_that_reports_nothing_is_estimated_and_marked_so(self) -> None:
        async with at_work(policy(using()), *memory()) as work:
            await say_all(work, "how much")

            session = await work.session()
            (used,) = await work.store.usage(By.AGENT)
            assert session.tokens_estimated
            assert session.tokens.input > session.tokens.output > 0
            assert (used.spending.estimated, used.spending.tokens) == (1, session.tokens)

    async def test_an_agent_that_cannot_be_reached_costs_nothing(self) -> None:
        async with at_work(policy(ScriptedAgent(AgentError("it is down"))), *memory()) as work:
            await say_all(work, "how much")

            assert await work.store.usage(By.DAY) == []

    async def test_a_turn_that_fails_half_way_is_paid_for(self) -> None:
        agent = ScriptedAgent(Text("half"), Usage(input=1000), AgentError("it is down"))
        async with at_work(policy(agent), *memory()) as work:
            await say_all(work, "how much")

            (used,) = await work.store.usage(By.DAY)
            assert used.spending.tokens.input == 1000

    async def test_a_turn_whose_session_is_deleted_meanwhile_is_paid_for(self) -> None:
        async def answer(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await work.store.delete(turn.session.id)
            yield Text("too late")
            yield ONE_DOLLAR

        async with at_work(
            policy(ScriptedAgent(answer=answer), user=Budget(usd_per_day=1.0)), *memory()
        ) as work:
            await say_all(work, "how much", "again")

            (used,) = await work.store.usage(By.DAY)
            assert (used.spending.turns, used.spending.usd) == (1, 1.0)
            assert work.adapter.texts == [USED_UP]

    async def test_the_turn_is_counted_for_the_agent_that_answered_also_after_a_reload(
        self,
    ) -> None:
        down = Link(name="main", agent=ScriptedAgent(AgentUnavailable("it is down")))

        async def answer(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            work.pipeline.policy.replace_with(policy(using()))
            yield Text("after a reload")

        cheap = Link(name="cheap", agent=ScriptedAgent(answer=answer))
        chain = FallbackAgent([down, cheap], lambda name, error, *, again: None)
        agents = {"main": ConfiguredAgent(name="main", agent=chain)}

        async with at_work(Policy(agents=agents), *memory()) as work:
            await say_all(work, "who answers")

            counted = work.observer.metrics.turns.labels("cheap", "done")
            assert counted._value.get() == 1.0

    async def test_the_one_that_stood_in_is_paid_at_its_own_price(self) -> None:
        down = Link(name="main", agent=ScriptedAgent(AgentUnavailable("it is down")))
        cheap = Link(name="cheap", agent=using(Usage(input=1_000_000)))
        agents = {
            "main": ConfiguredAgent(
                name="main",
                agent=FallbackAgent([down, cheap], lambda name, error, *, again: None),
                prices=PRICES,
            ),
            "cheap": ConfiguredAgent(
                name="cheap", agent=cheap.agent, prices=Prices(input=0.5), model=MODEL
            ),
        }
        async with at_work(Policy(agents=agents), *memory()) as work:
            await say_all(work, "how much")

            (used,) = await work.store.usage(By.AGENT)
            assert (used.payer.agent, used.spending.usd) == ("cheap", 0.5)
            assert (await work.session()).model == MODEL

    async def test_metrics_count_tokens_and_money_by_agent(self) -> None:
        async with at_work(policy(using(Usage(input=1000, output=100))), *memory()) as work:
            await say_all(work, "how much")

            told = numbers(work.observer).decode()
            assert 'turngate_tokens_total{agent="main",kind="output"} 100.0' in told
            assert 'turngate_cost_usd_total{agent="main"} 0.002' in told


@hurried
class TestBudgets:
    async def test_a_used_up_budget_is_said_before_the_agent_is_asked(self) -> None:
        agent = using(ONE_DOLLAR)
        async with at_work(policy(agent, user=Budget(usd_per_day=1.0)), *memory()) as work:
            await say_all(work, "first", "second", "third")

            refused = await work.store.inbox(InboxState.REFUSED)
            assert work.adapter.texts == ["a fish", USED_UP, USED_UP]
            assert len(agent.turns) == 1
            assert [(item.message.text, item.reason) for item in refused] == [
                ("second", "the budget of the day is used up"),
                ("third", "the budget of the day is used up"),
            ]

    async def test_what_the_gateway_says_about_it_is_not_shown_to_the_agent(self) -> None:
        agent = using(ONE_DOLLAR)
        async with at_work(policy(agent, user=Budget(usd_per_day=1.0)), *memory()) as work:
            await say_all(work, "first", "second")

            assert (await work.entries())[-1].origin is Origin.COMMAND

    async def test_commands_work_and_a_retry_is_refused(self) -> None:
        agent = using(ONE_DOLLAR)
        async with at_work(policy(agent, user=Budget(usd_per_day=1.0)), *memory()) as work:
            await say_all(work, "first", "/status", "/retry")

            assert "nothing is running" in work.adapter.texts[1]
            assert work.adapter.texts[2] == USED_UP
            assert len(agent.turns) == 1

    async def test_another_person_and_another_day_are_not_concerned(self) -> None:
        store, clock = memory()
        async with at_work(
            policy(using(ONE_DOLLAR), user=Budget(usd_per_day=1.0)), store, clock
        ) as work:
            await say_all(work, "first", "second")
            await say_all(work, "first", source=at_desk("other", "ben"))
            clock.advance(hours=12)
            await say_all(work, "third")

            assert work.adapter.texts == ["a fish", USED_UP, "a fish", "a fish"]

    async def test_the_chat_and_everybody_have_budgets_of_their_own(self) -> None:
        limits = {"chat": Budget(tokens_per_day=1_000_000), "total": Budget(usd_per_day=2.0)}
        async with at_work(policy(using(ONE_DOLLAR), **limits), *memory()) as work:
            await say_all(work, "first")
            await say_all(work, "second", source=at_desk("desk", "ben"))
            await say_all(work, "third", source=at_desk("other", "ben"))
            await say_all(work, "fourth", source=at_desk("third", "eve"))

            assert work.adapter.texts == [
                "a fish",
                "Today's budget of 1,000,000 tokens for this chat is used up; it starts again at "
                "00:00 UTC.",
                "a fish",
                "Today's budget of $2.00 for all users is used up; it starts again at 00:00 UTC.",
            ]

    async def test_a_restart_forgets_no_budget(self) -> None:
        store, clock = memory()
        decided = policy(using(ONE_DOLLAR), user=Budget(usd_per_day=1.0))
        async with at_work(decided, store, clock) as work:
            await say_all(work, "first")
        async with at_work(decided, store, clock) as work:
            await work.say("second", id="second")
            await later()

            assert work.adapter.texts == [USED_UP]

    async def test_usage_tells_of_the_session_of_today_and_of_what_is_left(self) -> None:
        limits = {
            "user": Budget(usd_per_day=5.0, tokens_per_day=3_000_000),
            "total": Budget(usd_per_day=100.0),
        }
        async with at_work(policy(using(ONE_DOLLAR), **limits), *memory()) as work:
            await say_all(work, "first", "/new", "second", "/usage")

            assert work.adapter.texts[-1] == (
                "Used:\n\n"
                "- this conversation: 1,000,000 tokens (1,000,000 in, 0 out), $1.00\n"
                "- you, today: 2,000,000 tokens (2,000,000 in, 0 out), $2.00\n"
                "- left today: $3.00 of $5.00\n"
                "- left today: 1,000,000 tokens of 3,000,000 tokens\n"
                "- left today: $98.00 of $100.00 for all users\n\n"
                "A new day begins at 00:00 UTC."
            )

    async def test_people_see_their_own_only(self) -> None:
        ann, ben = (
            SessionSource(platform="telegram", chat_id=id_, user_id=id_) for id_ in ("1", "2")
        )
        decided = replace(
            policy(using(ONE_DOLLAR), total=Budget(usd_per_day=100.0)),
            access=Access(direct=Direct.OPEN),
        )
        async with at_work(
            decided, *memory(), adapter=RecordingAdapter(platform="telegram")
        ) as work:
            await say_all(work, "first", source=ann)
            await say_all(work, "/usage", source=ben)

            assert work.adapter.texts[-1] == (
                "Used:\n\n- this conversation: 0 tokens (0 in, 0 out)\n- you, today: 0 tokens (0 "
                "in, 0 out), $0.00"
            )

    async def test_a_price_that_nobody_told_is_not_called_nothing(self) -> None:
        async with at_work(policy(using(ONE_DOLLAR), prices=None), *memory()) as work:
            await say_all(work, "first", "/usage")

            assert "at an unknown price" in work.adapter.texts[-1]


async def test_the_sums_are_on_disk_with_the_turn(tmp_path: Path) -> None:
    clock = SystemClock()
    store = await SqliteStore.connect(tmp_path / "turngate.db", clock)
    async with at_work(policy(using(ONE_DOLLAR)), store, clock) as work:
        await work.say("first")
        await work.adapter.until_sent(1)
        used = await store.usage(By.CHAT)
    await store.close()

    assert [(each.payer.chat, each.spending.usd) for each in used] == [("desk", 1.0)]
