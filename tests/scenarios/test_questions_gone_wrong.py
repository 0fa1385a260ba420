"""
Questions that are too long or too many, that never arrive or are taken back: nobody is left waiting
for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.at_work import at_desk, at_work, policy_for
from tests.fakes import RecordingAdapter, ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from tests.scenarios.test_questions import (
    DEPLOY,
    Asking,
    Buttoned,
    asked,
    cautious,
    life,
    press,
    settled,
    talking,
)
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Tool,
    ToolStatus,
    Turn,
)
from turngate.gateway.domain.errors import Throttled, Undeliverable
from turngate.gateway.domain.ids import PartId, TurnId
from turngate.gateway.domain.messages import Attachment, InboxState
from turngate.gateway.domain.outbox import (
    Button,
    Does,
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.transcript import MediaType, Text
from turngate.gateway.turns.lanes import LaneRules
from turngate.gateway.turns.question_index import MOST_OPEN
from turngate.gateway.turns.questions import LONGEST_QUESTION, MOST_AT_ONCE

TWO = DEPLOY, Ask(id="a2", text="And tell Bob?", options=("Sure", "No"))


@hurried
class TestTooMuch:
    @pytest.mark.parametrize("adapter", [Buttoned, RecordingAdapter])
    async def test_a_long_question_comes_in_parts_that_fit_and_can_be_answered(
        self, adapter: type
    ) -> None:
        agent, platform = Asking(replace(DEPLOY, text="a long story " * 1000 + "so?")), adapter()
        async with talking(agent, platform) as work:
            await work.say("ship it")
            await later(1)

            assert len(platform.sent) > 2
            assert all(len(text) <= platform.limits.largest_part for text in platform.texts)
            assert [bool(part.buttons) for part in platform.sent] == [False] * (
                len(platform.sent) - 1
            ) + [True]
            assert "".join(platform.texts).startswith("a long story a long story")

            await work.pipeline.receive(press(platform.sent[-1].buttons[1].nonce))
            await later(1)
            assert agent.told == [("a1", "No")]

    async def test_a_question_without_end_fails_its_turn(self) -> None:
        async with talking(
            ScriptedAgent(replace(DEPLOY, text="?" * (LONGEST_QUESTION + 1)))
        ) as work:
            await work.say("hello")
            await later()

            assert f"more than {LONGEST_QUESTION:,} characters" in work.adapter.texts[0]

    async def test_a_question_without_words_can_be_answered_all_the_same(self) -> None:
        agent = Asking(replace(DEPLOY, text=" \n"))
        async with talking(agent) as work:
            await work.say("hello")
            question = await asked(work)
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later()

            assert (question.text, agent.told) == ("…", [("a1", "Yes")])

    async def test_questions_without_end_fail_their_turn(self) -> None:
        async with talking(
            ScriptedAgent(*(replace(DEPLOY, id=str(n)) for n in range(1000)))
        ) as work:
            await work.say("hello")
            await later()

            assert f"more than {MOST_AT_ONCE} questions at once" in work.adapter.texts[-1]
            assert len(work.adapter.questions) == MOST_AT_ONCE  # type: ignore[attr-defined]

    async def test_an_agent_may_ask_one_after_the_other_for_as_long_as_it_is_answered(self) -> None:
        class Curious(Asking):
            async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
                self.turns.append(turn)
                for number in range(2 * MOST_AT_ONCE):
                    yield replace(DEPLOY, id=str(number))
                    async with self.news:
                        await self.news.wait_for(lambda: len(self.told) > number)  # noqa: B023 - waited for at once

        agent = Curious()
        async with talking(agent) as work:
            await work.say("ship it")
            for number in range(2 * MOST_AT_ONCE):
                question = await asked(work, number + 1)
                await work.pipeline.receive(press(question.buttons[0].nonce, id=f"p{number}"))
            await later()

            assert len(agent.told) == 2 * MOST_AT_ONCE

    async def test_only_so_many_are_remembered_even_if_the_clock_was_wrong(self) -> None:
        async with talking(ScriptedAgent()) as work:
            questions, far = work.pipeline.questions, timedelta(days=9999)
            await work.say("hello")
            await later(1)
            part = questions._question(
                work.message("?"), work.pipeline.policy.key_of(at_desk()), Does.SAY, "?", ("Yes",)
            )
            assert part.question is not None
            questions.remember(
                replace(part, question=replace(part.question, expires_at=LoopClock().now() + far))
            )
            buttons = (
                Button(label="Yes", nonce=str(number)) for number in range(1, MOST_OPEN + 100)
            )
            questions.remember(
                *(replace(part, id=PartId(n), buttons=(each,)) for n, each in enumerate(buttons, 1))
            )

            assert len(questions._open._open) == len(questions._open._by_nonce) == MOST_OPEN


@hurried
class TestNumbers:
    async def test_questions_that_are_open_at_once_have_different_numbers(self) -> None:
        agent = Asking(*TWO)
        async with talking(agent, RecordingAdapter()) as work:
            await work.say("ship it")
            await later(1)
            assert "3. Sure\n4. No" in work.adapter.texts[1]
            await work.say("3")
            await work.say("2")
            await later(1)

            assert agent.told == [("a2", "Sure"), ("a1", "No")]

    async def test_words_that_answer_two_questions_answer_none(self) -> None:
        agent = Asking(*TWO)
        async with talking(agent, RecordingAdapter()) as work:
            await work.say("ship it")
            await later(1)
            await work.say("no")
            await work.say("sure")
            await later(1)

            assert agent.told == [("a2", "Sure")]

    async def test_a_label_with_a_full_stop_is_found_by_its_words(self) -> None:
        agent = Asking(Ask(id="a1", text="?", options=("Go on.", "Stop.")))
        async with talking(agent, RecordingAdapter()) as work:
            await work.say("ship it")
            await later(1)
            await work.say("go on.")
            await later(1)

            assert agent.told == [("a1", "Go on.")]


@hurried
class TestWords:
    async def test_the_words_of_a_button_answer_an_agent_that_waits(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.say("1")
            await work.say("Yes!")
            await work.say("yes")
            await later(1)
            assert agent.told == [("a1", "Yes")]

            await work.pipeline.receive(press(question.buttons[1].nonce))
            await later(1)
            assert "This question is no longer open." in work.adapter.texts

    @pytest.mark.parametrize("adapter", [Buttoned, RecordingAdapter])
    async def test_an_agent_cannot_take_commands_away(self, adapter: type) -> None:
        agent = Asking(Ask(id="a1", text="?", options=("/stop", "/new")))
        async with talking(agent, adapter()) as work:
            await work.say("ship it")
            await later(1)
            await work.say("/stop")
            await later(1)

            assert agent.told == []
            assert "Stopped." in work.adapter.texts

    async def test_a_file_is_no_answer_whatever_it_is_called(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent, RecordingAdapter()) as work:
            await work.say("ship it")
            await later(1)
            await work.pipeline.receive(
                replace(work.message("1"), attachments=(Attachment(type=MediaType.FILE),))
            )
            await later(1)

            assert agent.told == []


class Throttling(Buttoned):
    """Has to wait for a while before anything can be sent."""

    async def ask(self, part: Part) -> Sent:
        if not self.questions:
            self.questions.append(part)
            raise Throttled("slow down", retry_after=60)
        return await super().ask(part)


class TestNotArrived:
    @hurried
    async def test_an_agent_whose_question_cannot_be_delivered_is_told_at_once(self) -> None:
        agent = Asking(DEPLOY)
        async with talking(agent, Buttoned(Undeliverable("blocked"))) as work:
            await work.say("ship it")
            await later(5)

            assert agent.told == [("a1", None)]

    @hurried
    async def test_a_question_of_a_turn_that_is_over_is_not_asked_any_more(self) -> None:
        async with talking(Asking(DEPLOY), Throttling()) as work:
            await work.say("ship it")
            await later(1)
            await work.say("/stop")
            await later(3600)

            assert "Deploy now?" not in work.adapter.texts
            assert "Stopped." in work.adapter.texts
            assert await work.store.outbox(*PartState) == [
                part for part in await work.store.outbox(*PartState) if part.state is PartState.SENT
            ]

    async def test_a_question_that_was_not_sent_when_the_daemon_died_is_asked_once(
        self, tmp_path: Path
    ) -> None:
        async with life(tmp_path, policy_for(Asking(DEPLOY)), Throttling()) as work:
            await work.say("ship it")
            await settled(work.store, InboxState.RUNNING)
            while not await work.store.outbox(PartState.FAILED):
                await asyncio.sleep(0.01)

        agent = Asking(DEPLOY)
        async with life(tmp_path, policy_for(agent)) as work:
            question = await asked(work)
            await work.pipeline.receive(press(question.buttons[0].nonce))
            await work.adapter.until_sent(3)

            assert agent.told == [("a1", "Yes")]
            assert await work.store.outbox(PartState.FAILED, PartState.PENDING) == []


class TestRunAgain:
    async def test_a_press_that_was_half_done_when_the_daemon_died_says_that_it_runs(
        self, tmp_path: Path
    ) -> None:
        tool = Tool(id="t", name="pay", status=ToolStatus.STARTED)
        async with life(tmp_path, cautious(ScriptedAgent(tool, 1e9))) as work:
            await work.say("pay the bill")
            await settled(work.store, InboxState.RUNNING)
            await asyncio.sleep(0.05)

        async with life(tmp_path, cautious(ScriptedAgent())) as work:
            notice = await asked(work)
            await work.adapter.until_sent(1)
            (item,) = await work.store.inbox(InboxState.FAILED, InboxState.DEAD)
            (open_,) = await work.store.questions()
            assert open_.part.question is not None
            key = open_.part.question.key
            pressed = work.pipeline.questions.interpret(press(notice.buttons[0].nonce), key)
            await work.store.accept(pressed.message, key, choosing=pressed.choosing)
            await work.store.requeue(item.id)

        told = asyncio.Event()
        async with life(tmp_path, cautious(ScriptedAgent(told, Text("Paid.")))) as work:
            await work.adapter.until_sent(1)
            told.set()
            await work.adapter.until_sent(2)

            assert sorted(work.adapter.texts) == ["It runs again.", "Paid."]


@hurried
class TestWaiting:
    async def test_turns_that_wait_for_people_keep_nobody_else_from_theirs(self) -> None:
        class AskingAnn(Asking):
            async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
                if turn.messages[-1].text == "quick":
                    yield Text("Done.")
                    return
                async for event in super().run(turn):
                    yield event

        clock = LoopClock()
        rules = LaneRules(debounce=timedelta(0), concurrent=1)
        async with at_work(
            policy_for(AskingAnn(DEPLOY)),
            MemoryStore(clock),
            clock,
            rules=rules,
            adapter=Buttoned(),
        ) as work:
            await work.say("ship it")
            question = await asked(work)
            await work.say("quick", source=at_desk("bob"))
            await later(1)
            assert work.adapter.texts == ["Deploy now?", "Done."]

            await work.pipeline.receive(press(question.buttons[0].nonce))
            await later(1)
            assert work.adapter.texts[-1] == "Yes"

    async def test_an_agent_that_is_silent_after_the_answer_is_given_up_soon(self) -> None:
        class Forgetful(Asking):
            async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
                self.told.append((ask, option))

        async with talking(Forgetful(DEPLOY)) as work:
            await work.say("ship it")
            await work.pipeline.receive(press((await asked(work)).buttons[0].nonce))
            await later(6 * 60)

            assert "fell silent" in work.adapter.texts[-1]

    async def test_an_agent_that_never_takes_the_answer_is_given_up_too(self) -> None:
        class Stuck(Asking):
            async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
                await asyncio.Event().wait()

        async with talking(Stuck(DEPLOY)) as work:
            await work.say("ship it")
            await work.pipeline.receive(press((await asked(work)).buttons[0].nonce))
            await later(6 * 60)

            assert "fell silent" in work.adapter.texts[-1]
