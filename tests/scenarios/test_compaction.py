"""
Long conversations: summarised behind the person's back, and never at the expense of what he says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.at_work import AtWork, at_desk, at_work
from tests.fakes import ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Done,
    File,
    Usage,
)
from turngate.gateway.domain.agent_events import Turn as AgentTurn
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.messages import ChatType
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
    Text,
)
from turngate.gateway.domain.usage import By, Tokens
from turngate.gateway.rules.budgets import Budget, Budgets
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.pricing import Prices
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.turns.compaction import HEADING

# Every message and every answer weighs 104 tokens, the context 100 to 200: the eighth answer passes
# the threshold, and of all that was said by then the first four turns fit the headroom.
RULES = HistoryRules(tokens=2000, threshold=0.86, keep_recent=2, headroom=0.5)
LONG = 8
WORDS = "fish " * 80
SUMMARY = "They spoke of fish."


def memory() -> tuple[MemoryStore, LoopClock]:
    clock = LoopClock()
    return MemoryStore(clock), clock


def is_for_summary(turn: AgentTurn) -> bool:
    return turn.messages[0].text.startswith("Between the two lines")


Summarising = Callable[[AgentTurn], AsyncIterator[AgentEvent]]


def agent(summarise: Summarising | None = None) -> ScriptedAgent:
    """Talks of fish; asked for a summary it gives one, or does something else."""

    async def answer(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
        if not is_for_summary(turn):
            yield Text(f"a{turn.messages[0].text[1:4]} {WORDS}"[: len(WORDS)])
        elif summarise is None:
            yield Text(SUMMARY)
        else:
            async for event in summarise(turn):
                yield event
        yield Done()

    return ScriptedAgent(answer=answer)


def policy(main: Agent, *, summarises: bool = True, **decisions: object) -> Policy:
    configured = ConfiguredAgent(name="main", agent=main, summarises=summarises)
    decisions = {"history": RULES, "privacy_key": b"k" * 32} | decisions
    return Policy(agents={"main": configured}, **decisions)  # type: ignore[arg-type]


async def talk(work: AtWork, count: int, *, start: int = 0) -> None:
    """So many questions, each answered before the next."""
    for number in range(start, start + count):
        await work.say(f"q{number:03} {WORDS}"[: len(WORDS)])
        await later()


def starts(entries: tuple[Entry, ...]) -> list[str]:
    """Enough of each to know it by."""
    return [entry.text.removeprefix(HEADING)[:4] for entry in entries]


def asked_for_summaries(main: ScriptedAgent) -> list[AgentTurn]:
    return [turn for turn in main.turns if is_for_summary(turn)]


@hurried
class TestInTheBackground:
    async def test_past_the_threshold_a_summary_takes_the_place_of_the_older_part(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await talk(work, LONG)
            await talk(work, 1, start=LONG)

            shown = main.turns[-1].history
            assert len(asked_for_summaries(main)) == 1
            assert starts(shown) == [
                "They",
                "q004",
                "a004",
                "q005",
                "a005",
                "q006",
                "a006",
                "q007",
                "a007",
            ]
            assert shown[0].text == HEADING + SUMMARY
            assert (shown[0].role, shown[0].origin) == (Role.USER, Origin.SUMMARY)

    async def test_below_the_threshold_nobody_is_asked_for_one(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await talk(work, LONG - 1)

            assert asked_for_summaries(main) == []
            assert len(main.turns[-1].history) == 2 * (LONG - 2)

    async def test_what_it_stands_for_stays_readable_and_searchable(self) -> None:
        async with at_work(policy(agent()), *memory()) as work:
            await talk(work, LONG)

            assert starts(await work.entries())[:4] == ["q000", "a000", "q001", "a001"]
            assert [hit.entry.text[:4] for hit in await work.store.search("q000")] == ["q000"]

    async def test_the_summary_is_asked_for_in_words_alone_in_a_session_apart(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await talk(work, LONG)

            (turn,) = asked_for_summaries(main)
            text = turn.messages[0].text
            assert turn.history == ()
            assert turn.workdir is None
            assert turn.session.id == f"{(await work.session()).id}_summary"
            assert "Person" in text
            assert "q000" in text
            assert "a003" in text
            assert "q004" not in text

    async def test_nobody_s_id_reaches_the_summariser_and_the_summary_has_it_again(self) -> None:
        async def repeat(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            name = turn.messages[0].text.partition("Person ")[2].partition(":")[0]
            yield Text(f"{name} spoke of fish.")

        main, ann = agent(repeat), at_desk(user="telegram-1234567")
        async with at_work(policy(main), *memory()) as work:
            for number in range(LONG):
                await work.say(f"q{number:03} {WORDS}", source=ann)
                await later()

            (turn,) = asked_for_summaries(main)
            assert "1234567" not in turn.messages[0].text
            assert "Person user_" in turn.messages[0].text
            assert (await work.entries(ann))[-1].text == f"{HEADING}telegram-1234567 spoke of fish."

    async def test_short_ids_and_names_of_people_are_shown_like_any_others(self) -> None:
        """Findings L5 and E10."""
        main = agent()
        eve = replace(at_desk(user="55555"), chat_type=ChatType.GROUP, user_name="Eve]")
        async with at_work(policy(main), *memory()) as work:
            for number in range(LONG):
                await work.say(f"q{number:03} I am 55555 {WORDS}", source=eve)
                await later()

            text = asked_for_summaries(main)[0].messages[0].text
            assert "55555" not in text
            assert re.search(r'Person user_[0-9a-f]{16} "Eve\\u005d": q000', text)

    async def test_a_turn_does_not_wait_for_it(self) -> None:
        async def slowly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(1000)
            yield Text(SUMMARY)

        main = agent(slowly)
        async with at_work(policy(main), *memory()) as work:
            await talk(work, LONG + 3)

            assert len(work.adapter.texts) == LONG + 3
            assert len(asked_for_summaries(main)) == 1
            await later(1000)
            assert (await work.entries())[-1].text == HEADING + SUMMARY

    async def test_a_newer_summary_has_read_the_older_one(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await talk(work, 14)

            first, second, *_ = asked_for_summaries(main)
            shown = main.turns[-1].history
            assert SUMMARY not in first.messages[0].text
            assert HEADING + SUMMARY in second.messages[0].text
            assert [entry.origin for entry in shown].count(Origin.SUMMARY) == 1

    async def test_what_it_used_is_counted_to_the_session_and_to_who_asked(self) -> None:
        async def dearly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            yield Text(SUMMARY)
            yield Usage(input=5_000_000, cost_usd=7.0)

        decided = policy(agent(dearly))
        decided = replace(
            decided, agents={"main": replace(decided.agents["main"], prices=Prices())}
        )
        async with at_work(decided, *memory()) as work:
            await talk(work, LONG)

            session = await work.session()
            (used,) = await work.store.usage(By.USER)
            assert session.tokens.input > 5_000_000
            assert session.last_prompt_tokens < 5_000
            assert (used.payer.user, used.spending.usd, used.spending.turns) == (
                "ann",
                7.0,
                LONG + 1,
            )

    @pytest.mark.parametrize("named", ["helper", "main"])
    async def test_the_one_that_is_named_for_it_writes_it(self, named: str) -> None:
        main, helper = agent(), agent()
        agents = {
            "main": ConfiguredAgent(name="main", agent=main),
            "helper": ConfiguredAgent(name="helper", agent=helper),
        }
        async with at_work(
            Policy(agents=agents, history=RULES, summariser=named), *memory()
        ) as work:
            await talk(work, LONG)

            asked = {"main": main, "helper": helper}[named]
            assert len(asked_for_summaries(asked)) == 1
            assert (await work.session()).summary_seq > 0

    @pytest.mark.parametrize("decided", [{"summarises": False}, {"compacts": False}])
    async def test_where_nobody_may_write_one_what_fits_is_shown(
        self, decided: dict[str, bool]
    ) -> None:
        main = agent()
        async with at_work(policy(main, **decided), *memory()) as work:
            await talk(work, LONG + 1)

            assert asked_for_summaries(main) == []
            assert starts(main.turns[-1].history)[0] == "q000"

    async def test_no_money_no_summary(self) -> None:
        main = agent()
        async with at_work(
            policy(main, budgets=Budgets(user=Budget(tokens_per_day=7500))), *memory()
        ) as work:
            await talk(work, LONG + 1)

            assert asked_for_summaries(main) == []
            assert work.adapter.texts[-1].startswith("Today's budget of 7,500 tokens is used up")


@hurried
class TestGoneWrong:
    @pytest.mark.parametrize(
        "events",
        [
            [AgentError("it is down")],
            [Text("half of"), AgentError("it is down")],
            [],
            [Text("  \n")],
            [Text("as long as what it was to stand for " * 100)],
            [Ask(id="1", text="shall I?", options=("yes",))],
            [File(path="/etc/passwd")],
            [RuntimeError("a bug")],
        ],
    )
    async def test_without_a_summary_what_fits_is_shown_and_it_is_not_tried_again_at_once(
        self, events: list[AgentEvent | BaseException]
    ) -> None:
        async def fail(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            for event in events:
                if isinstance(event, BaseException):
                    raise event
                yield event

        main = agent(fail)
        rules = replace(RULES, keep_recent=4)
        async with at_work(policy(main, history=rules), *memory()) as work:
            await talk(work, LONG)
            tried = len(asked_for_summaries(main))
            await talk(work, 1, start=LONG)
            tried_again = len(asked_for_summaries(main))
            shown = main.turns[-1].history
            await talk(work, 1, start=LONG + 1)

            assert (tried, tried_again, len(asked_for_summaries(main))) == (1, 1, 2)
            assert starts(shown)[0] == "q000"
            assert (await work.session()).consolidated_through == 0
            assert all(entry.origin is not Origin.SUMMARY for entry in await work.entries())
            assert len(work.adapter.texts) == LONG + 2

    async def test_what_is_not_worth_a_call_yet_is_looked_at_again_after_the_next_turn(
        self,
    ) -> None:
        main = agent()
        rules = replace(RULES, keep_recent=10)
        async with at_work(policy(main, history=rules), *memory()) as work:
            await talk(work, LONG)
            tried = len(asked_for_summaries(main))
            await talk(work, 1, start=LONG)

            assert (tried, len(asked_for_summaries(main))) == (0, 1)

    async def test_a_failure_is_not_repeated_with_every_turn_though_nothing_is_kept(self) -> None:
        async def fail(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            raise AgentError("it is down")
            yield Text("")

        main = agent(fail)
        async with at_work(policy(main, history=replace(RULES, keep_recent=0)), *memory()) as work:
            await talk(work, LONG + 1)

            assert len(asked_for_summaries(main)) == 1

    @pytest.mark.parametrize("command", ["/undo", "/retry", "/new", "/title Fish"])
    async def test_what_people_do_meanwhile_is_not_undone_by_it(self, command: str) -> None:
        async def slowly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(300)
            yield Text(SUMMARY)

        async with at_work(policy(agent(slowly)), *memory()) as work:
            await talk(work, LONG)
            await work.say(command)
            await later(30)
            before = await work.entries()
            await later(600)

            after = [entry for entry in await work.entries() if entry.origin is not Origin.SUMMARY]
            assert after == list(before)

    async def test_what_is_gone_meanwhile_stays_gone(self) -> None:
        async def slowly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(300)
            yield Text(SUMMARY)

        async with at_work(policy(agent(slowly)), *memory()) as work:
            await talk(work, LONG)
            session = await work.session()
            await work.store.delete(session.id)
            await later(600)

            assert await work.store.sessions() == []

    async def test_a_daemon_that_dies_meanwhile_has_changed_nothing_and_begins_anew(self) -> None:
        async def never(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(1_000_000)
            yield Text(SUMMARY)

        store, clock = memory()
        async with at_work(policy(agent(never)), store, clock) as work:
            await talk(work, LONG)
            session = await work.session()
        assert (session.consolidated_through, session.summary_seq) == (0, 0)
        async with at_work(policy(agent()), store, clock) as work:
            await work.say(f"q008 {WORDS}", id="after")
            await later()

            assert (await work.session()).summary_seq > 0


@hurried
class TestOnRequest:
    async def test_compact_summarises_and_says_how_much(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await talk(work, 3)
            await work.say("/compact")
            await later()
            await talk(work, 1, start=3)

            assert work.adapter.texts[3] == (
                "4 messages are summarised. The agent goes on from the summary; you can still "
                "read and search them all."
            )
            assert starts(main.turns[-1].history) == ["They", "q002", "a002"]

    async def test_compact_twice_leaves_one_summary(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await talk(work, 3)
            await work.say("/compact")
            await later()
            await talk(work, 1, start=3)
            await work.say("/compact")
            await later()
            await talk(work, 1, start=4)

            assert work.adapter.texts[5].startswith("2 messages are summarised.")
            assert starts(main.turns[-1].history) == ["They", "q003", "a003"]

    async def test_there_may_be_nothing_to_do(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await work.say("/compact")
            await talk(work, 1)
            await work.say("/compact")
            await later()

            told = "There is nothing to summarise here yet."
            assert [work.adapter.texts[0], work.adapter.texts[2]] == [told, told]
            assert asked_for_summaries(main) == []

    async def test_who_cannot_summarise_says_who_could(self) -> None:
        async with at_work(policy(agent(), summarises=False), *memory()) as work:
            await talk(work, 3)
            await work.say("/compact")
            await later()

            told = (
                "The agent main cannot summarise; sessions.history.summariser can name one "
                "that does."
            )
            assert work.adapter.texts[-1] == told

    async def test_a_failure_is_told_without_the_agent_s_words(self) -> None:
        async def fail(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            raise AgentError("cannot reach http://secret")
            yield Text("")

        async with at_work(policy(agent(fail)), *memory()) as work:
            await talk(work, 3)
            await work.say("/compact")
            await later()

            assert work.adapter.texts[-1] == "The agent main gave no summary. Nothing has changed."

    async def test_it_can_be_stopped(self) -> None:
        async def slowly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(600)
            yield Text(SUMMARY)

        async with at_work(policy(agent(slowly)), *memory()) as work:
            await talk(work, 3)
            await work.say("/compact")
            await later(1)
            await work.say("/stop")
            await later(1)

            assert work.adapter.texts[-2:] == ["Stopped. Nothing has changed.", "Stopped."]

    async def test_what_is_said_meanwhile_comes_after_it(self) -> None:
        async def slowly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(30)
            yield Text(SUMMARY)

        main = agent(slowly)
        async with at_work(policy(main), *memory()) as work:
            await talk(work, 3)
            await work.say("/compact")
            await talk(work, 1, start=3)

            assert starts(main.turns[-1].history) == ["They", "q002", "a002"]

    async def test_it_waits_for_no_turn_and_disturbs_none(self) -> None:
        async def slow(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(20)
            yield Text("done")

        async with at_work(policy(ScriptedAgent(answer=slow)), *memory()) as work:
            await work.say("q")
            await later(1)
            await work.say("/compact")
            await later()

            assert work.adapter.texts[0].startswith("A turn is running or waiting here.")
            assert work.adapter.texts[-1] == "done"

    async def test_two_at_once_are_one(self) -> None:
        async def slowly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(300)
            yield Text(SUMMARY)

        main = agent(slowly)
        async with at_work(policy(main), *memory()) as work:
            await talk(work, LONG)
            await work.say("/compact")
            await later()

            assert work.adapter.texts[-1] == "This conversation is being summarised already."
            assert len(asked_for_summaries(main)) == 1

    async def test_a_used_up_budget_is_said(self) -> None:
        async with at_work(
            policy(agent(), budgets=Budgets(user=Budget(tokens_per_day=900))), *memory()
        ) as work:
            await talk(work, 3)
            await work.say("/compact")
            await later()

            assert work.adapter.texts[-1].startswith("Today's budget of 900 tokens is used up")

    async def test_undo_and_retry_look_past_a_summary(self) -> None:
        main = agent()
        async with at_work(policy(main), *memory()) as work:
            await talk(work, 3)
            await work.say("/compact")
            await later()
            await work.say("/retry")
            await later()

            assert main.turns[-1].messages[0].text.startswith("q002")
            assert starts(main.turns[-1].history) == ["They"]


async def test_a_summary_is_on_disk_and_the_next_run_goes_on_from_it(tmp_path: Path) -> None:
    main, clock = agent(), SystemClock()
    store = await SqliteStore.connect(tmp_path / "turngate.db", clock)
    async with at_work(policy(main), store, clock) as work:
        for number in range(LONG):
            await work.say(f"q{number:03} {WORDS}"[: len(WORDS)])
            await work.adapter.until_sent(number + 1)
        while not (await work.session()).summary_seq:
            await asyncio.sleep(0.01)
    await store.close()

    store = await SqliteStore.connect(tmp_path / "turngate.db", clock)
    async with at_work(policy(main), store, clock) as work:
        await work.say("and now", id="after")
        await work.adapter.until_sent(1)
    await store.close()
    assert starts(main.turns[-1].history)[:3] == ["They", "q004", "a004"]


def test_the_sizes_are_as_the_tests_assume() -> None:
    assert Tokens(input=len(WORDS) // 4 + 4).total == 104
