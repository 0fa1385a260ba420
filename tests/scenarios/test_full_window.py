"""
A conversation that has outgrown its model's context window goes on, and nobody is told (H6); a
message that the model refuses spoils nothing that comes after it (E8).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from tests.at_work import AtWork, at_work
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.domain.agent_events import AgentEvent, Done, Turn
from turngate.gateway.domain.errors import AgentError, PromptTooLong, RequestRefused
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.model_window import size_of
from turngate.gateway.rules.policy import ConfiguredAgent, Policy

WORDS = "fish " * 80
POISON = "the forbidden word"


class SmallModel:
    """Takes so many tokens, and no message with the forbidden word; sums up when asked to."""

    def __init__(self, window: int = 1500) -> None:
        self.window = window
        self.asked: list[Turn] = []
        self.refused: list[Turn] = []
        self.is_strict = True

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        if size_of(turn) > self.window:
            self.refused.append(turn)
            raise PromptTooLong("the model server does not take the request (400)")
        said = [*turn.messages, *turn.history]
        if self.is_strict and any(POISON in each.text for each in said):
            self.refused.append(turn)
            raise RequestRefused("the model server does not take the request (400)")

        self.asked.append(turn)
        is_summary = turn.messages[0].text.startswith("Between the two lines")
        yield Text("They spoke of fish." if is_summary else f"About {WORDS}")
        yield Done()


@asynccontextmanager
async def conversation(model: SmallModel) -> AsyncIterator[AtWork]:
    def tell(name: str, error: AgentError, *, again: bool) -> None:
        """Nobody looks."""

    link = Link(name="main", agent=model)
    main = ConfiguredAgent(
        name="main",
        agent=FallbackAgent([link], tell),
        summarises=True,
        window=link.window,
    )
    policy = Policy(agents={"main": main}, history=HistoryRules(tokens=32_000))
    clock = LoopClock()
    async with at_work(policy, MemoryStore(clock), clock) as work:
        yield work


async def talk(work: AtWork, *texts: str) -> list[str]:
    """What the last of them was answered."""
    for text in texts:
        await work.say(text)
        await later()
    return work.adapter.texts


@hurried
class TestAFullWindow:
    async def test_a_full_window_is_asked_again_with_less_and_the_person_sees_answers_alone(
        self,
    ) -> None:
        model = SmallModel()
        async with conversation(model) as work:
            answers = await talk(work, *[f"q{number:02} {WORDS}" for number in range(20)])

        assert len(answers) == 20
        assert all(answer.startswith("About fish") for answer in answers)
        assert model.refused

    async def test_what_fitted_is_remembered_so_few_requests_are_refused(self) -> None:
        model = SmallModel()
        async with conversation(model) as work:
            await talk(work, *[f"q{number:02} {WORDS}" for number in range(30)])

        assert len(model.refused) <= 3

    async def test_the_older_part_is_compacted_in_the_background(self) -> None:
        model = SmallModel()
        async with conversation(model) as work:
            await talk(work, *[f"q{number:02} {WORDS}" for number in range(20)])
            session: Session = await work.session()

        assert session.summary_seq > 0
        # The last call may be that of a summary itself.
        shown = [entry.text for turn in model.asked[-2:] for entry in turn.history]
        assert any("They spoke of fish." in text for text in shown)

    async def test_compact_works_in_a_conversation_that_does_not_fit(self) -> None:
        model = SmallModel(window=100_000)
        async with conversation(model) as work:
            await talk(work, *[f"q{number:02} {WORDS}" for number in range(8)])
            model.window = 1200
            (*_, told) = await talk(work, "/compact")

        assert "summarised. The agent goes on from the summary" in told

    async def test_a_message_that_does_not_fit_alone_is_refused_once_and_set_aside(self) -> None:
        model = SmallModel()
        async with conversation(model) as work:
            (_, told, answer) = await talk(work, "hello", "whale " * 2000, "and now?")

        assert "longer than the model can read" in told
        assert answer.startswith("About fish")


@hurried
class TestARefusedMessage:
    async def test_the_next_message_is_answered(self) -> None:
        model = SmallModel()
        async with conversation(model) as work:
            (_, told, answer) = await talk(work, "hello", f"say {POISON}", "and now?")

        assert "the model refuses this message" in told
        assert answer.startswith("About fish")
        assert [entry.text[:5] for entry in model.asked[-1].history] == ["hello", "About"]

    async def test_it_stays_in_the_transcript_and_its_refusal_names_it(self) -> None:
        async with conversation(SmallModel()) as work:
            await talk(work, f"say {POISON}")
            asked, notice = await work.entries()

        assert asked.text == f"say {POISON}"
        assert notice.sets_aside == (asked.id,)

    async def test_retry_tries_it_once_more(self) -> None:
        model = SmallModel()
        async with conversation(model) as work:
            await talk(work, f"say {POISON}", "/retry")
            assert len(model.refused) == 2
            model.is_strict = False
            answers = await talk(work, "/retry", "and now?")

        assert answers[-1].startswith("About fish")
        assert [entry.text[:3] for entry in model.asked[-1].history] == ["say", "Abo"]

    async def test_a_refused_retry_does_not_spoil_what_follows(self) -> None:
        model = SmallModel()
        async with conversation(model) as work:
            answers = await talk(work, f"say {POISON}", "/retry", "and now?")

        assert answers[-1].startswith("About fish")
        assert model.asked[-1].history == ()

    async def test_a_summary_is_asked_for_without_it(self) -> None:
        model = SmallModel(window=100_000)
        async with conversation(model) as work:
            await talk(work, f"say {POISON}", *[f"q{number:02} {WORDS}" for number in range(8)])
            (*_, told) = await talk(work, "/compact")

        assert "summarised. The agent goes on from the summary" in told
