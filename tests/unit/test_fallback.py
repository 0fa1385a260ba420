"""An agent that is asked again while it has said nothing, and those that stand in for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest

from tests.hurry import hurried
from tests.programs import ENDING
from tests.unit.test_agent_run import a_turn
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
    Usage,
    Waiting,
)
from turngate.gateway.domain.errors import (
    AgentBusy,
    AgentError,
    AgentRefused,
    AgentUnavailable,
    RequestRefused,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.ports.agent import (
    LetsOthersAnswer,
    TakesSessionEnd,
    TakesSteering,
)
from turngate.gateway.domain.session import SessionEnded
from turngate.gateway.domain.transcript import Text

BUSY, GONE = (
    AgentUnavailable("too many ask at once", retry_after=7.0),
    AgentUnavailable("nobody answers there"),
)
NO_KEY = AgentRefused("401: no such key")


class Moody:
    """Does one thing after the other, one at each call: an error is raised, words are said."""

    def __init__(self, *moods: AgentError | str) -> None:
        self.moods = list(moods)
        self.asked: list[Turn] = []

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self.asked.append(turn)
        mood = self.moods.pop(0)
        if isinstance(mood, str):
            yield Text(mood)
            yield Done()
            return
        raise mood


class Listening(Moody):
    """Listens while it works."""

    def __init__(self, *moods: AgentError | str) -> None:
        super().__init__(*moods)
        self.told: list[str] = []

    async def steer(self, turn: TurnId, text: str) -> bool:
        self.told.append(text)
        return True


class Cut:
    """Says something, and breaks off."""

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        yield Text("half of")
        raise GONE


class CutByKey:
    """Says something, and is refused."""

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        yield Text("half of")
        raise NO_KEY


class Counting:
    """Tells what was used, and then fails."""

    def __init__(self) -> None:
        self.asked = 0

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self.asked += 1
        yield Usage(input=3)
        raise GONE


def chain_of(
    *agents: object, attempts: int = 3, told: list[tuple[str, AgentError]] | None = None
) -> FallbackAgent:
    links = [
        Link(name=f"agent {number}", agent=agent, attempts=attempts, system=f"prompt {number}")  # type: ignore[arg-type]
        for number, agent in enumerate(agents)
    ]
    heard: list[tuple[str, AgentError]] = [] if told is None else told
    return FallbackAgent(links, lambda name, error, *, again: heard.append((name, error)))


async def said(chain: FallbackAgent) -> list[str]:
    return [event.text async for event in chain.run(a_turn()) if isinstance(event, Text)]


@hurried
class TestChain:
    async def test_it_asks_again_what_nobody_answered(self) -> None:
        agent, told = Moody(GONE, GONE, "here I am"), list[tuple[str, AgentError]]()

        assert await said(chain_of(agent, told=told)) == ["here I am"]
        assert told == [("agent 0", GONE), ("agent 0", GONE)]

    async def test_it_waits_as_long_as_it_is_asked_to(self) -> None:
        began = asyncio.get_running_loop().time()

        await said(chain_of(Moody(BUSY, "now")))

        assert asyncio.get_running_loop().time() - began == pytest.approx(7.0)

    async def test_it_does_not_wait_for_an_hour_but_asks_another(self) -> None:
        later = AgentUnavailable("come back later", retry_after=3600.0)

        assert await said(chain_of(Moody(later), Moody("I can"))) == ["I can"]

    async def test_it_tells_once_who_answered(self) -> None:
        chain = chain_of(Moody(NO_KEY), Moody("I can"))
        turn = a_turn()
        await said(chain)

        assert (chain.answered_by(turn.id), chain.answered_by(turn.id)) == ("agent 1", None)

    async def test_refused_credentials_are_not_tried_again(self) -> None:
        refused, other = Moody(NO_KEY), Moody("I can")

        assert await said(chain_of(refused, other)) == ["I can"]
        assert len(refused.asked) == 1

    async def test_the_last_failure_is_what_is_told_when_nobody_could(self) -> None:
        with pytest.raises(AgentRefused, match="no such key"):
            await said(chain_of(Moody(GONE, GONE, GONE), Moody(NO_KEY)))

    async def test_half_an_answer_is_not_begun_again(self) -> None:
        other = Moody("never asked")

        with pytest.raises(AgentError, match="nobody answers there") as failure:
            await said(chain_of(Cut(), other))
        assert type(failure.value) is AgentError
        assert other.asked == []

    async def test_what_is_for_the_operator_stays_so_after_the_first_word(self) -> None:
        other = Moody("never asked")

        with pytest.raises(AgentRefused):
            await said(chain_of(CutByKey(), other))
        assert other.asked == []

    async def test_counting_tokens_is_not_saying_anything(self) -> None:
        agent = Counting()

        with pytest.raises(AgentUnavailable):
            await said(chain_of(agent))
        assert agent.asked == 3

    async def test_each_has_the_prompt_that_is_its_own(self) -> None:
        first, second = Moody(NO_KEY), Moody("mine")

        await said(chain_of(first, second))

        assert [first.asked[0].system, second.asked[0].system] == ["prompt 0", "prompt 1"]


async def test_words_reach_the_one_at_work_and_everybody_can_see_who_that_is() -> None:
    agent = Listening("hello")
    chain: object = chain_of(Moody(NO_KEY), agent)
    assert isinstance(chain, FallbackAgent)
    assert isinstance(chain, LetsOthersAnswer)
    assert isinstance(chain, TakesSteering)

    async for _ in chain.run(a_turn()):
        assert chain.at_work(a_turn().id) is agent
        assert await chain.steer(a_turn().id, "faster")

    assert agent.told == ["faster"] * 2
    assert chain.at_work(a_turn().id) is None
    assert not await chain.steer(a_turn().id, "too late")


class Keeping(Moody):
    """Wants to know when a session is over."""

    def __init__(self) -> None:
        super().__init__("hi")
        self.heard: list[SessionEnded] = []

    async def session_end(self, ending: SessionEnded) -> None:
        self.heard.append(ending)


class TestEndings:
    async def test_whose_session_it_is_hears_of_its_end_and_who_stands_in_for_it_does_not(
        self,
    ) -> None:
        first, second = Keeping(), Keeping()
        links = [Link(name="a", agent=first), Link(name="b", agent=second)]
        chain: object = FallbackAgent(links, lambda name, error: None)
        assert isinstance(chain, TakesSessionEnd)
        await chain.session_end(ENDING)

        assert (first.heard, second.heard) == ([ENDING], [])

    def test_where_it_does_not_want_to_know_nobody_is_told(self) -> None:
        links = [Link(name="a", agent=Moody("hi")), Link(name="b", agent=Keeping())]

        assert not isinstance(FallbackAgent(links, lambda name, error: None), TakesSessionEnd)


class Hanging:
    """Accepts a turn and says nothing, or begins after so many seconds."""

    def __init__(self, seconds: float = 3600.0) -> None:
        self.seconds = seconds
        self.asked = 0

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        self.asked += 1
        await asyncio.sleep(self.seconds)
        yield Text("at last")
        yield Done()


def nobody(name: str, error: AgentError, *, again: bool) -> None:
    """Is told."""


def alone(agent: object, **settings: object) -> FallbackAgent:
    return FallbackAgent([Link(name="a", agent=agent, **settings)], nobody)  # type: ignore[arg-type]


async def seconds_until_failure(chain: FallbackAgent) -> float:
    began = asyncio.get_running_loop().time()
    with pytest.raises(AgentUnavailable):
        await said(chain)
    return asyncio.get_running_loop().time() - began


@hurried
class TestPatience:
    """Finding M3: half of the limits per minute ended in "Write again" after one try."""

    async def test_a_pause_of_a_minute_is_waited_for(self) -> None:
        busy = AgentBusy("429", retry_after=60.0)
        assert await said(alone(Moody(busy, "now"), attempts=3)) == ["now"]

    async def test_three_attempts_fit_into_the_patience(self) -> None:
        busy = AgentBusy("429", retry_after=25.0)
        agent = Moody(busy, busy, "now")
        assert await said(alone(agent, attempts=3, patience=60.0)) == ["now"]

    async def test_more_than_the_patience_is_not_waited_for(self) -> None:
        busy = AgentBusy("429", retry_after=25.0)
        assert await seconds_until_failure(
            alone(Moody(busy, busy, busy), attempts=5, patience=60.0)
        ) == pytest.approx(50.0)

    async def test_without_a_time_of_its_own_a_busy_server_gets_longer_pauses(self) -> None:
        busy, gone = AgentBusy("429"), AgentUnavailable("503")
        long = await seconds_until_failure(alone(Moody(busy, busy, busy), attempts=3))
        short = await seconds_until_failure(alone(Moody(gone, gone, gone), attempts=3))
        assert long > 4.0 > short

    async def test_the_person_is_told_once_before_the_first_pause(self) -> None:
        busy = AgentBusy("429", retry_after=20.0)
        chain = alone(Moody(busy, busy, "now"), attempts=3)
        events = [event async for event in chain.run(a_turn())]
        assert events == [Waiting(20.0), Text("now"), Done()]

    async def test_of_a_short_pause_nobody_is_told(self) -> None:
        busy = AgentBusy("429", retry_after=0.5)
        assert Waiting(0.5) not in [
            e async for e in alone(Moody(busy, "now"), attempts=3).run(a_turn())
        ]


@hurried
class TestFirstToken:
    """Finding R7: a server that accepts and never answers kept a slot for up to half an hour."""

    async def test_whoever_does_not_begin_in_time_is_given_up_at_once(self) -> None:
        agent = Hanging()
        took = await seconds_until_failure(alone(agent, attempts=3, first_token=120.0))
        assert (took, agent.asked) == (pytest.approx(120.0), 1)

    async def test_the_next_agent_answers_in_its_place(self) -> None:
        links = [
            Link(name="a", agent=Hanging(), attempts=3, first_token=90.0),
            Link(name="b", agent=Moody("I can")),
        ]
        assert await said(FallbackAgent(links, nobody)) == ["I can"]

    async def test_who_begins_in_time_is_heard_out(self) -> None:
        assert await said(alone(Hanging(100.0), first_token=120.0)) == ["at last"]

    async def test_without_a_limit_nobody_is_hurried(self) -> None:
        assert await said(alone(Hanging(3000.0))) == ["at last"]


@hurried
class TestBreaker:
    """Finding R7, too."""

    async def test_after_three_failures_in_a_row_turns_fail_at_once(self) -> None:
        agent = Hanging()
        chain = alone(agent, first_token=60.0)
        for _ in range(3):
            await seconds_until_failure(chain)
        assert await seconds_until_failure(chain) == 0.0
        assert agent.asked == 3

    async def test_after_a_pause_one_turn_tries_it_and_all_go_on_if_it_answers(self) -> None:
        agent = Hanging()
        chain = alone(agent, first_token=60.0)
        for _ in range(3):
            await seconds_until_failure(chain)
        await asyncio.sleep(6)
        agent.seconds = 1.0
        assert await said(chain) == ["at last"]
        assert await said(chain) == ["at last"]

    async def test_while_one_turn_tries_it_the_others_do_not(self) -> None:
        agent = Hanging()
        chain = alone(agent, first_token=60.0)
        for _ in range(3):
            await seconds_until_failure(chain)
        await asyncio.sleep(6)
        trying = asyncio.ensure_future(seconds_until_failure(chain))
        await asyncio.sleep(1)
        assert await seconds_until_failure(chain) == 0.0
        assert await trying == pytest.approx(60.0)
        assert agent.asked == 4

    async def test_the_pause_grows_to_a_minute(self) -> None:
        agent, asked = Hanging(), list[float]()
        chain = alone(agent, first_token=1.0)
        while (now := asyncio.get_running_loop().time()) < 600:
            before = agent.asked
            await seconds_until_failure(chain)
            asked += [now] if agent.asked > before else []
            await asyncio.sleep(0.5)
        gaps = [round(b - a) for a, b in pairwise(asked)]
        assert sorted(gaps) == gaps
        assert 60 <= gaps[-1] <= 63

    async def test_many_that_fail_at_the_same_time_do_not_prolong_it(self) -> None:
        agent = Hanging()
        chain = alone(agent, first_token=60.0)
        await asyncio.gather(*(seconds_until_failure(chain) for _ in range(30)))
        await asyncio.sleep(6)
        agent.seconds = 1.0
        assert await said(chain) == ["at last"]

    async def test_who_has_too_much_to_do_or_refuses_is_there_all_the_same(self) -> None:
        busy = AgentBusy("429")
        agent = Moody(busy, NO_KEY, busy, busy, NO_KEY, "hello")
        chain = alone(agent)
        for _ in range(5):
            with pytest.raises(AgentError):
                await said(chain)
        assert await said(chain) == ["hello"]


@hurried
async def test_a_refused_message_is_told_though_the_fallback_cannot_be_reached() -> None:
    """Finding E8: else every turn would carry it along until the fallback is back."""
    refused = RequestRefused("400")
    links = [Link(name="a", agent=Moody(refused)), Link(name="b", agent=Moody(GONE))]
    with pytest.raises(RequestRefused):
        await said(FallbackAgent(links, nobody))
