"""
One turn with an agent that does whatever agents do: talks, uses tools, falls silent, breaks down,
will not stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.at_work import numbers
from tests.fakes import NOON, FrozenClock, ScriptedAgent, Step, dm, message
from tests.hurry import hurried, later
from turngate.gateway.domain.agent_events import (
    LONGEST_ANSWER,
    WAITING,
    AgentEvent,
    Ask,
    Done,
    File,
    RunEnd,
    Send,
    Tool,
    ToolStatus,
    Turn,
    Usage,
    Waiting,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    Refused,
    StoreUnavailable,
)
from turngate.gateway.domain.ids import (
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.ports.adapter import Limits
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import (
    Media,
    MediaType,
    Reasoning,
    Role,
    Text,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Tokens,
)
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.preview_text import PreviewLabels
from turngate.gateway.rules.policy import TurnTimeouts
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.turns.agent_run import (
    NOT_AVAILABLE,
    SECONDS_TO_LET_GO,
    AgentRun,
    NoServices,
)
from turngate.gateway.turns.answer import AgentAnswer

IDLE = TurnTimeouts(idle=timedelta(minutes=30))
STARTED, DONE, FAILED = ToolStatus.STARTED, ToolStatus.DONE, ToolStatus.FAILED


def a_turn() -> Turn:
    session = Session(
        id=SessionId("s1"),
        key=SessionKey("k"),
        origin=dm(),
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
    )
    return Turn(id=TurnId(1), session=session, source=dm(), messages=(message(),))


async def stubborn(_: Turn) -> AsyncGenerator[AgentEvent]:
    """Takes no notice of being cancelled for an hour, and then has more to say."""
    yield Text("Half a")
    for _number in range(60):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
    yield Text("word too late")


class Listening:
    """A conversation with an agent, and everything that was shown of it."""

    def __init__(self, agent: Agent, restore: object = str) -> None:
        self.shown: list[AgentEvent] = []
        self.observer = Observer()
        self.talk = AgentRun(agent, restore, self.shown.append, FrozenClock(), self.observer)  # type: ignore[arg-type]

    async def run(self) -> RunEnd:
        return await self.talk.run(a_turn(), IDLE)

    @property
    def answer(self) -> str:
        return self.talk.answer.text

    @property
    def shown_text(self) -> str:
        return "".join(event.text for event in self.shown if isinstance(event, Text))


def listening(*script: Step) -> Listening:
    return Listening(ScriptedAgent(*script))


class Odd:
    """An agent that is one odd generator."""

    def __init__(self, run: object) -> None:
        self.run = run


def tool(id: str, status: ToolStatus, **more: str) -> Tool:  # noqa: A002
    return Tool(id=id, name="search", status=status, **more)


def heard(*events: AgentEvent) -> AgentAnswer:
    said = AgentAnswer(restore=str, clock=FrozenClock())
    for event in events:
        said.add(event)
    return said


@hurried
class TestEndings:
    async def test_an_agent_that_is_done_is_closed_and_what_comes_after_is_not_heard(self) -> None:
        agent = ScriptedAgent(
            Text("Hello "), Text("there."), Done(), Text("and more"), RuntimeError("late")
        )
        talk = Listening(agent)

        assert await talk.run() is RunEnd.DONE
        assert talk.answer == talk.shown_text == "Hello there."
        assert agent.closed == 1
        assert talk.talk.failure is None

    async def test_an_agent_that_ends_without_saying_so_is_done(self) -> None:
        talk = listening(Text("Hello"))

        assert await talk.run() is RunEnd.DONE
        assert talk.answer == "Hello"

    async def test_an_agent_that_yields_nothing_is_done_and_said_nothing(self) -> None:
        talk = listening()

        assert await talk.run() is RunEnd.DONE
        assert talk.answer == ""
        assert talk.talk.answer.entries() == ()

    async def test_an_agent_error_ends_the_turn_with_its_reason_and_keeps_the_words(self) -> None:
        talk = listening(Text("Half a"), AgentError("the model is overloaded"))

        assert await talk.run() is RunEnd.FAILED
        assert talk.talk.failure == "the model is overloaded"
        assert talk.answer == talk.shown_text == "Half a"

    @pytest.mark.parametrize(
        "error",
        [
            RuntimeError("boom"),
            KeyError("x"),
            OSError("no"),
            TimeoutError("their own"),
            asyncio.CancelledError("their own"),
            SystemExit(2),
            GeneratorExit(),
            BaseExceptionGroup("many", [SystemExit(1)]),
        ],
        ids=lambda error: type(error).__name__,
    )
    async def test_whatever_else_an_agent_raises_is_a_breakdown_without_its_words(
        self, error: BaseException
    ) -> None:
        talk = listening(Text("Half a"), error)

        assert await talk.run() is RunEnd.FAILED
        assert talk.talk.failure == "the agent failed with an error"
        assert talk.answer == "Half a"

    async def test_an_agent_that_breaks_down_before_its_first_event_fails_too(self) -> None:
        def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            raise ValueError("no generator")

        assert await Listening(Odd(run)).run() is RunEnd.FAILED

    async def test_the_turn_is_cancelled_with_its_task_and_the_agent_is_closed(self) -> None:
        agent = ScriptedAgent(Text("Half a"), asyncio.Event())
        running = asyncio.ensure_future(Listening(agent).run())
        await later(1)

        running.cancel()

        with pytest.raises(asyncio.CancelledError):
            await running
        assert agent.closed == 1

    async def test_where_nobody_can_be_written_to_the_person_hears_so(self) -> None:
        talk = listening(Text("Half."), Send(target="telegram:42", text="hi"), Text(" Whole."))

        assert await talk.run() is RunEnd.DONE
        assert talk.answer == "Half. Whole."
        assert talk.talk.answer.missed == [
            "A message to telegram:42 was not sent: messages cannot be sent to other chats from "
            "here."
        ]

    async def test_where_there_is_nobody_to_ask_a_question_fails(self) -> None:
        talk = listening(Text("Half a"), Ask(id="1", text="?", options=("a",)))

        assert await talk.run() is RunEnd.FAILED
        assert talk.talk.failure
        assert "no user to answer" in talk.talk.failure

    async def test_what_is_no_event_at_all_is_a_breakdown_and_is_shown_to_nobody(self) -> None:
        talk = listening(Text("Half a "), "words")  # type: ignore[arg-type]

        assert await talk.run() is RunEnd.FAILED
        assert talk.shown == [Text("Half a ")]


@hurried
class TestClosing:
    async def test_an_answer_that_is_done_stays_whole_when_closing_the_agent_fails(self) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            try:
                yield Text("All of it.")
                yield Done()
            finally:
                raise OSError("the connection was gone")

        talk = Listening(Odd(run))

        assert await talk.run() is RunEnd.DONE
        assert talk.talk.failure is None

    async def test_an_agent_that_goes_on_when_it_is_closed_has_answered_all_the_same(self) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            try:
                yield Done()
            finally:
                yield Text("still here")

        assert await Listening(Odd(run)).run() is RunEnd.DONE

    async def test_an_agent_that_hangs_while_it_is_closed_is_given_up_after_the_idle_time(
        self,
    ) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            try:
                yield Text("All of it.")
                yield Done()
            finally:
                await asyncio.Event().wait()

        talk = Listening(Odd(run))

        assert await talk.run() is RunEnd.DONE
        assert asyncio.get_running_loop().time() == pytest.approx(IDLE.idle.total_seconds())


@hurried
class TestSilence:
    async def test_an_agent_that_is_silent_for_too_long_is_given_up_and_its_words_are_kept(
        self,
    ) -> None:
        agent = ScriptedAgent(Text("Half a"), asyncio.Event())
        talk = Listening(agent)

        assert await talk.run() is RunEnd.SILENT
        assert asyncio.get_running_loop().time() == pytest.approx(IDLE.idle.total_seconds())
        assert talk.talk.failure == "the agent fell silent"
        assert talk.answer == "Half a"
        assert agent.closed == 1

    @pytest.mark.parametrize(
        "event", [Text("x"), tool("1", STARTED), Usage(input=1), Reasoning(text="hm")]
    )
    async def test_any_sign_of_life_starts_the_idle_time_anew(self, event: AgentEvent) -> None:
        talk = listening(*[29.0 * 60, event] * 10, Done())

        assert await talk.run() is RunEnd.DONE

    async def test_an_agent_that_goes_on_after_it_was_given_up_is_not_heard(self) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield Text("too late")

        talk = Listening(Odd(run))

        assert await talk.run() is RunEnd.SILENT
        assert talk.answer == ""

    async def test_an_agent_that_will_not_be_given_up_is_left_behind(self) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            while True:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(IDLE.idle.total_seconds() * 2)
                    return
            yield Text("never")

        assert await Listening(Odd(run)).run() is RunEnd.SILENT
        assert asyncio.get_running_loop().time() == pytest.approx(
            IDLE.idle.total_seconds() + SECONDS_TO_LET_GO
        )

    async def test_an_agent_that_just_ends_when_it_is_given_up_was_silent(self) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            try:
                yield Text("Half a")
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

        assert await Listening(Odd(run)).run() is RunEnd.SILENT


@hurried
class TestStopping:
    async def test_a_stop_acts_at_once_while_the_agent_is_thinking(self) -> None:
        agent = ScriptedAgent(Text("Half a"), asyncio.Event())
        talk = Listening(agent)
        running = asyncio.ensure_future(talk.run())
        await later(1)

        talk.talk.stop()

        assert await running is RunEnd.STOPPED
        assert asyncio.get_running_loop().time() == pytest.approx(1)
        assert talk.answer == talk.shown_text == "Half a"
        assert agent.closed == 1

    async def test_an_agent_that_will_not_stop_is_left_behind_and_its_words_are_kept(self) -> None:
        talk = Listening(Odd(stubborn))
        running = asyncio.ensure_future(talk.run())
        await later(1)

        talk.talk.stop()

        assert await running is RunEnd.STOPPED
        assert asyncio.get_running_loop().time() == pytest.approx(1 + SECONDS_TO_LET_GO)
        assert talk.talk.failure is None
        await later(IDLE.idle.total_seconds())
        assert talk.answer == talk.shown_text == "Half a"

    async def test_an_agent_that_will_not_stop_is_a_bug_that_is_counted(self) -> None:
        talk = Listening(Odd(stubborn))
        running = asyncio.ensure_future(talk.run())
        await later(1)

        talk.talk.stop()
        await running

        assert b"turngate_unexpected_errors_total 1.0" in numbers(talk.observer)

    async def test_a_stop_acts_at_once_on_an_agent_that_never_pauses(self) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            for _number in range(10_000):
                await asyncio.sleep(0)
                yield Text("x")

        talk = Listening(Odd(run))
        running = asyncio.ensure_future(talk.run())
        for _ in range(10):
            await asyncio.sleep(0)

        talk.talk.stop()

        assert await running is RunEnd.STOPPED
        assert 0 < len(talk.answer) < 20

    async def test_a_stop_before_the_first_word_asks_the_agent_nothing(self) -> None:
        agent = ScriptedAgent(Text("Hello"))
        talk = Listening(agent)
        talk.talk.stop()

        assert await talk.run() is RunEnd.STOPPED
        assert agent.turns == []

    async def test_a_stop_after_the_last_word_is_harmless(self) -> None:
        talk = listening(Text("Hello"), Done())
        await talk.run()

        talk.talk.stop()

        assert talk.answer == "Hello"

    async def test_a_second_stop_while_the_agent_tidies_up_is_harmless(self) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            try:
                yield Text("Half a")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(5)

        talk = Listening(Odd(run))
        running = asyncio.ensure_future(talk.run())
        await later(1)
        talk.talk.stop()
        await later(1)

        talk.talk.stop()

        assert await running is RunEnd.STOPPED

    @pytest.mark.parametrize(
        "error",
        [AgentError("connection closed"), RuntimeError("closed"), None],
        ids=["reason", "breakdown", "returns"],
    )
    async def test_however_an_agent_takes_a_stop_it_was_stopped(
        self, error: Exception | None
    ) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            try:
                yield Text("Half a")
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if error is not None:
                    raise error from None

        talk = Listening(Odd(run))
        running = asyncio.ensure_future(talk.run())
        await later(1)
        talk.talk.stop()

        assert await running is RunEnd.STOPPED
        assert talk.talk.failure is None


@hurried
class TestHugeOutput:
    async def test_a_long_answer_in_many_pieces_is_kept_whole(self) -> None:
        talk = listening(*[Text("word ")] * 20_000, Done())

        assert await talk.run() is RunEnd.DONE
        assert talk.answer == ("word " * 20_000).strip()

    async def test_an_agent_that_never_stops_talking_is_cut_off_and_what_it_said_is_kept(
        self,
    ) -> None:
        async def run(_: Turn) -> AsyncGenerator[AgentEvent]:
            while True:
                yield Text("words " * 10_000)

        talk = Listening(Odd(run))

        assert await talk.run() is RunEnd.FAILED
        assert 0 < len(talk.answer) <= LONGEST_ANSWER
        assert talk.talk.failure
        assert "characters" in talk.talk.failure

    async def test_tools_that_never_stop_talking_are_cut_off_too(self) -> None:
        talk = listening(tool("1", STARTED), tool("1", DONE, output="x" * (LONGEST_ANSWER + 1)))

        assert await talk.run() is RunEnd.FAILED

    async def test_one_enormous_word_is_shown_without_a_pause(self) -> None:
        talk = listening(*[Text("a" * 100_000)] * 5, Done())

        assert await talk.run() is RunEnd.DONE
        assert talk.shown_text == talk.answer == "a" * 500_000


class TestSteps:
    def test_words_and_the_call_they_led_to_are_one_entry_and_the_result_follows(self) -> None:
        said = heard(
            Text("Let me see. "),
            tool("1", STARTED, input='{"q": 1}'),
            tool("1", DONE, output="found"),
            Text("Here it is."),
        )

        first, result, last = said.entries()
        assert (first.role, first.text) == (Role.ASSISTANT, "Let me see. ")
        assert [(call.id, call.arguments) for call in first.tool_calls] == [("1", '{"q": 1}')]
        assert (result.role, result.tool_call_id, result.text) == (Role.TOOL, "1", "found")
        assert (last.role, last.text, last.tool_calls) == (Role.ASSISTANT, "Here it is.", ())
        assert said.text == "Let me see.\n\nHere it is."
        assert said.used_tools

    def test_several_tools_at_once_are_one_entry_whatever_order_they_end_in(self) -> None:
        said = heard(
            tool("a", STARTED),
            tool("b", STARTED),
            tool("c", STARTED),
            tool("c", DONE, output="C"),
            tool("a", FAILED, output="A"),
            tool("b", DONE, output="B"),
        )

        calls, *results = said.entries()
        assert [call.id for call in calls.tool_calls] == ["a", "b", "c"]
        assert {entry.tool_call_id: entry.text for entry in results} == {
            "a": "A",
            "b": "B",
            "c": "C",
        }

    def test_a_tool_that_ends_after_more_words_still_belongs_to_its_call(self) -> None:
        said = heard(
            tool("1", STARTED), Text("Meanwhile"), tool("1", DONE, output="found"), Text(" this.")
        )

        assert [(entry.role, entry.text) for entry in said.entries()] == [
            (Role.ASSISTANT, ""),
            (Role.TOOL, "found"),
            (Role.ASSISTANT, "Meanwhile this."),
        ]

    def test_a_call_after_a_result_begins_a_new_step(self) -> None:
        said = heard(
            tool("1", STARTED),
            tool("1", DONE, output="one"),
            tool("2", STARTED),
            tool("2", DONE, output="two"),
        )

        assert [entry.role for entry in said.entries()] == [
            Role.ASSISTANT,
            Role.TOOL,
            Role.ASSISTANT,
            Role.TOOL,
        ]

    def test_a_tool_without_words_has_its_status_as_result(self) -> None:
        said = heard(tool("1", STARTED), tool("2", STARTED), tool("1", DONE), tool("2", FAILED))

        assert [entry.text for entry in said.entries()[1:]] == ["done", "failed"]

    def test_a_tool_that_was_never_started_is_kept_with_its_result(self) -> None:
        said = heard(Text("x"), tool("1", DONE, output="found"))

        first, result = said.entries()
        assert [call.id for call in first.tool_calls] == ["1"]
        assert result.text == "found"

    def test_a_call_whose_input_comes_later_has_that_input(self) -> None:
        said = heard(tool("1", STARTED), tool("1", STARTED, input='{"q": 2}'), tool("1", DONE))

        assert [call.arguments for call in said.entries()[0].tool_calls] == ['{"q": 2}']

    def test_an_id_that_is_used_again_after_its_result_is_another_call(self) -> None:
        said = heard(
            tool("1", STARTED, input='{"q": 1}'),
            tool("1", DONE, output="one"),
            tool("1", STARTED, input='{"q": 2}'),
            tool("1", DONE, output="two"),
        )

        assert [entry.text for entry in said.entries() if entry.role is Role.TOOL] == ["one", "two"]
        assert [call.arguments for entry in said.entries() for call in entry.tool_calls] == [
            '{"q": 1}',
            '{"q": 2}',
        ]

    def test_a_thousand_tools_are_not_looked_through_for_each(self) -> None:
        lookups = 0

        class Counted(str):
            """An id that counts how often it is looked for."""

            __slots__ = ()

            def __hash__(self) -> int:
                nonlocal lookups
                lookups += 1
                return super().__hash__()

        heard(
            *(tool(Counted(number), status) for number in range(1000) for status in (STARTED, DONE))
        )

        assert lookups < 20 * 1000

    def test_reasoning_is_joined_and_keeps_its_signature(self) -> None:
        said = heard(Reasoning(text="I "), Reasoning(text="think", signature="s"), Text("So."))

        (entry,) = said.entries()
        assert entry.reasoning == Reasoning(text="I think", signature="s")

    def test_blanks_alone_are_nothing(self) -> None:
        assert heard(Text(" \n"), Text("\t")).entries() == ()

    def test_the_last_entry_carries_how_long_the_turn_took(self) -> None:
        clock = FrozenClock()
        said = AgentAnswer(restore=str, clock=clock)
        said.add(Text("x"))
        clock.advance(seconds=2.5)

        assert [entry.latency_ms for entry in said.entries()] == [2500]

    def test_a_clock_that_was_set_back_makes_no_turn_shorter_than_nothing(self) -> None:
        clock = FrozenClock()
        said = AgentAnswer(restore=str, clock=clock)
        said.add(Text("x"))
        clock.advance(hours=-1)

        assert [entry.latency_ms for entry in said.entries()] == [0]


class TestUsage:
    def test_calls_of_one_turn_add_up_and_the_last_prompt_is_the_last(self) -> None:
        spent = heard(
            Usage(input=100, output=10, cache_read=5, cache_write=1, cost_usd=0.25),
            Usage(input=200, output=20, cache_read=50, cost_usd=0.5),
        ).spent

        assert spent.tokens == Tokens(input=300, output=30, cache_read=55, cache_write=1)
        assert spent.prompt_tokens == 250
        assert spent.cost == Cost(usd=0.75, status=CostStatus.REPORTED)

    def test_no_usage_costs_nothing_that_is_known(self) -> None:
        assert heard(Text("x")).spent.cost is None

    def test_a_call_without_a_price_leaves_the_price_of_the_others(self) -> None:
        assert heard(Usage(input=1, cost_usd=0.5), Usage(input=1)).spent.cost == Cost(
            usd=0.5, status=CostStatus.REPORTED
        )

    def test_numbers_that_cannot_be_spoil_nothing(self) -> None:
        spent = heard(Usage(input=-5, output=2**70), Usage(input=7, output=1)).spent

        assert spent.tokens.input == 7
        assert spent.prompt_tokens == 7


@hurried
class TestPseudonyms:
    async def test_they_come_back_in_the_transcript_and_on_the_screen_also_when_cut_in_two(
        self,
    ) -> None:
        redactor = Redactor(bytes(32), "telegram")
        shown = redactor.user("987654321")
        talk = Listening(
            ScriptedAgent(*[Text(char) for char in f"Ask {shown}, please."], Done()),
            redactor.restore,
        )
        await talk.run()

        assert talk.answer == talk.shown_text == "Ask 987654321, please."
        assert [entry.text for entry in talk.talk.answer.entries()] == ["Ask 987654321, please."]
        assert not any("user_" in event.text for event in talk.shown if isinstance(event, Text))

    async def test_they_come_back_in_tools(self) -> None:
        redactor = Redactor(bytes(32), "telegram")
        who = redactor.user("987654321")
        events = [
            tool("1", STARTED, title=f"Ask {who}", input=f'{{"who": "{who}"}}'),
            tool("1", DONE, output=f"{who} agrees"),
        ]
        talk = Listening(ScriptedAgent(*events, Done()), redactor.restore)
        await talk.run()

        assert "user_" not in str(talk.shown)
        assert "user_" not in str(talk.talk.answer.entries())
        assert [entry.text for entry in talk.talk.answer.entries()] == ["", "987654321 agrees"]

    async def test_they_come_back_in_the_reason_of_a_failure(self) -> None:
        redactor = Redactor(bytes(32), "telegram")
        talk = Listening(
            ScriptedAgent(AgentError(f"{redactor.user('987654321')} is blocked")), redactor.restore
        )
        await talk.run()

        assert talk.talk.failure == "987654321 is blocked"

    async def test_they_come_back_in_reasoning_that_is_shown(self) -> None:
        redactor = Redactor(bytes(32), "telegram")
        talk = Listening(
            ScriptedAgent(Reasoning(text=f"who is {redactor.user('987654321')}?"), Done()),
            redactor.restore,
        )
        await talk.run()

        assert talk.shown[0] == Reasoning(text="who is 987654321?")

    async def test_words_before_a_tool_are_shown_before_it(self) -> None:
        talk = listening(Text("Let me see"), tool("1", STARTED), Text("Found"), Done())
        await talk.run()

        assert talk.shown == [
            Text("Let me "),
            Text("see"),
            tool("1", STARTED),
            Text("Found"),
            Done(),
        ]


async def kept(file: File) -> File:
    return File(path="/out/1", name=file.name)


async def refused(file: File) -> File:
    raise Refused("it is not here")


async def no_room(file: File) -> File:
    raise StoreUnavailable("the disk is full")


class Keeping(NoServices):
    """Takes files in one way, and nothing else."""

    def __init__(self, keep: Callable[[File], Awaitable[File]]) -> None:
        self._keep = keep

    async def keep_file(self, file: File) -> File:
        return await self._keep(file)


@hurried
class TestFiles:
    async def test_a_file_is_kept_before_it_is_shown_and_comes_with_the_words(self) -> None:
        talk = listening(Text("Here it is."), File(path="report.pdf"), Text(" Enjoy."), Done())

        assert await talk.talk.run(a_turn(), IDLE, Keeping(kept)) is RunEnd.DONE

        assert talk.talk.answer.files == (File(path="/out/1", name="report.pdf"),)
        assert talk.talk.answer.text == "Here it is. Enjoy."
        assert File(path="/out/1", name="report.pdf") in talk.shown
        (entry,) = talk.talk.answer.entries()
        assert entry.content == (
            Text("Here it is. Enjoy."),
            Media(type=MediaType.FILE, name="report.pdf"),
        )

    async def test_a_file_alone_is_an_entry(self) -> None:
        talk = listening(File(path="a/b.txt", name=None), Done())

        await talk.talk.run(a_turn(), IDLE, Keeping(kept))

        assert [entry.content for entry in talk.talk.answer.entries()] == [
            (Media(type=MediaType.FILE, name="b.txt"),)
        ]

    @pytest.mark.parametrize(
        ("keep", "why"), [(refused, "it is not here"), (no_room, "the disk is full")]
    )
    async def test_a_file_that_cannot_be_taken_costs_a_sentence_and_not_the_turn(
        self, keep: object, why: str
    ) -> None:
        talk = listening(Text("Half a"), File(path="/etc/passwd"), Text(" word"), Done())

        assert await talk.talk.run(a_turn(), IDLE, Keeping(keep)) is RunEnd.DONE  # type: ignore[arg-type]

        assert talk.talk.answer.text == "Half a word"
        assert talk.talk.answer.files == ()
        assert talk.talk.answer.missed == [f"The file passwd was not sent: {why}."]
        assert not [event for event in talk.shown if isinstance(event, File)]

    async def test_its_name_is_restored_and_clean(self) -> None:
        restored = AgentRun(
            ScriptedAgent(File(path="x", name="for user_1/\nlist.txt"), Done()),
            lambda text: text.replace("user_1", "Ann"),
            lambda event: None,
            FrozenClock(),
            Observer(),
        )

        await restored.run(a_turn(), IDLE, Keeping(kept))

        assert [file.name for file in restored.answer.files] == ["list.txt"]

    async def test_an_agent_that_offers_bad_files_for_ever_is_stopped(self) -> None:
        talk = listening(*[File(path="x")] * 1000)

        assert await talk.talk.run(a_turn(), IDLE, Keeping(refused)) is RunEnd.FAILED
        assert len(talk.talk.answer.missed) == 20

    async def test_an_agent_that_writes_to_others_for_ever_is_stopped(self) -> None:
        sent = list[str]()

        class Sending(NoServices):
            async def send_to_chat(self, send: Send) -> None:
                sent.append(send.text)

        talk = listening(*[Send(target="telegram:42", text="hi")] * 1000)

        assert await talk.talk.run(a_turn(), IDLE, Sending()) is RunEnd.FAILED
        assert len(sent) == 100

    async def test_what_is_written_to_others_has_an_end_too(self) -> None:
        talk = listening(Send(target="telegram:42", text="x" * (LONGEST_ANSWER + 1)))

        assert await talk.run() is RunEnd.FAILED

    async def test_where_nothing_is_taken_that_is_told(self) -> None:
        talk = listening(File(path="x"), Done())

        assert await talk.run() is RunEnd.DONE
        assert talk.talk.answer.missed == [
            "The file x was not sent: files cannot be sent from here."
        ]


@hurried
class TestTheTimeATurnMayTake:
    async def test_an_agent_that_talks_for_ever_is_cut_off(self) -> None:
        async def chatter() -> AsyncGenerator[AgentEvent]:
            while True:
                yield Text("and ")
                await asyncio.sleep(10)

        talk = Listening(ScriptedAgent(answer=lambda turn: chatter()))

        ending = await talk.talk.run(
            a_turn(), TurnTimeouts(idle=timedelta(minutes=30), total=timedelta(minutes=5))
        )

        assert (ending, talk.talk.failure) == (RunEnd.SILENT, "the agent took too long")
        assert asyncio.get_running_loop().time() == pytest.approx(300)
        assert talk.talk.answer.text.startswith("and and")

    async def test_what_only_the_operator_can_cure_is_told_to_him_alone(self) -> None:
        talk = listening(AgentRefused("401: the key sk-123 is wrong"))

        assert await talk.run() is RunEnd.FAILED
        assert talk.talk.failure == NOT_AVAILABLE


@hurried
class TestAPause:
    """Finding M3: the person is told that a busy model is waited for."""

    async def test_it_is_shown_until_the_agent_goes_on_and_leaves_nothing_behind(self) -> None:
        shown: list[AgentEvent] = []
        agent = ScriptedAgent(Waiting(19.2), Text("now"), Done())
        run = AgentRun(agent, str, shown.append, FrozenClock(), Observer())
        await run.run(a_turn(), TurnTimeouts(idle=timedelta(minutes=1)))

        told = "the model has too much to do; asked again in 20 s"
        pause = Tool(id=WAITING, name=WAITING, title=told, status=ToolStatus.STARTED)
        assert shown == [pause, replace(pause, status=ToolStatus.DONE), Text("now"), Done()]
        assert [entry.text for entry in run.answer.entries()] == ["now"]
        assert not run.answer.used_tools

    async def test_a_message_is_edited_to_say_so_and_then_to_the_answer(self) -> None:
        words = PreviewLabels(
            Limits(largest_part=200, measure=len, edit_every=timedelta(seconds=1))
        )
        pause = Tool(id=WAITING, name=WAITING, title="asked again", status=ToolStatus.STARTED)
        words.add(pause)
        assert words.so_far() == "Waiting: asked again"
        words.add(replace(pause, status=ToolStatus.DONE))
        assert words.so_far() == ""
