"""
What every agent must do, whatever it is: one suite over all of `agents.py`.

A turn goes in, events come out, `Done` comes last. Whoever stops listening ends the work at the
other end, and whatever goes wrong is one of our errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.contracts.agents import UNDER_TEST, AgentUnderTest, Can, OtherEnd, Script, Then
from tests.fakes import NOON, assistant, dm, message, user
from tests.simulators.running import PATIENCE
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Tool,
    ToolStatus,
    Turn,
    Usage,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.domain.ids import (
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.messages import (
    Attachment,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import (
    Entry,
    MediaType,
    Reasoning,
    Role,
    Text,
    ToolCall,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
WORDS = tuple(f"word{number} " for number in range(20))

Test = TypeVar("Test", bound=Callable[..., Any])


def for_agents(*able: Can) -> Callable[[Test], Test]:
    """
    A test for those whose other end can do all of this. It fails when it takes too long, instead of
    waiting.
    """
    tested = [each for each in UNDER_TEST if each.can.issuperset(able)]
    for_able = pytest.mark.parametrize("tested", tested, ids=[each.name for each in tested])

    def bounded(test: Test) -> Test:
        @wraps(test)
        async def run(*args: object, **fixtures: object) -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **fixtures)

        return for_able(run)

    return bounded


def turn(*texts: str, number: int = 1, source: SessionSource | None = None, **more: object) -> Turn:
    place = source or dm()
    session = Session(
        id=SessionId(f"s{number}"),
        key=SessionKey("k"),
        origin=place,
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
    )
    messages = tuple(message(text, id=str(at), source=place) for at, text in enumerate(texts))
    return Turn(id=TurnId(number), session=session, source=place, messages=messages, **more)  # type: ignore[arg-type]


async def events_of(end: OtherEnd, asked: Turn) -> list[AgentEvent]:
    async with aclosing(end.agent.run(asked)) as events:
        return [event async for event in events]


async def failing(end: OtherEnd, asked: Turn) -> tuple[list[AgentEvent], AgentError]:
    heard: list[AgentEvent] = []
    try:
        async with aclosing(end.agent.run(asked)) as events:
            async for event in events:
                heard.append(event)  # noqa: PERF401 - what came before the error counts
    except AgentError as exc:
        return heard, exc
    raise AssertionError("nothing went wrong")


def text_of(events: list[AgentEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    while not await holds():
        await asyncio.sleep(0.005)


async def until_nobody_works(end: OtherEnd) -> None:
    async def nobody() -> bool:
        return await end.working() == 0

    await until(nobody)


@asynccontextmanager
async def playing(
    tested: AgentUnderTest, folder: Path, script: Script | None = None
) -> AsyncIterator[OtherEnd]:
    async with tested.at_work(folder) as end:
        if script is not None:
            await end.play(script)
        yield end


class TestAnswering:
    @for_agents()
    async def test_what_it_was_told_comes_back_and_done_comes_last_and_once(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path) as end:
            events = await events_of(end, turn("a cherry tree"))

        assert text_of(events).endswith("a cherry tree")
        assert [event for event in events if isinstance(event, Done)] == [events[-1]]

    @for_agents(Can.SAY)
    async def test_the_words_come_in_order(self, tested: AgentUnderTest, tmp_path: Path) -> None:
        async with playing(tested, tmp_path, Script(pieces=WORDS)) as end:
            events = await events_of(end, turn("go"))

        assert text_of(events) == "".join(WORDS)

    @for_agents(Can.SAY, Can.HANG)
    async def test_words_are_there_before_the_answer_is_finished(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        script = Script(pieces=WORDS, then=Then.HANG)
        async with (
            playing(tested, tmp_path, script) as end,
            aclosing(end.agent.run(turn("go"))) as events,
        ):
            first = await anext(events)

        assert isinstance(first, Text)
        assert "".join(WORDS).startswith(first.text)

    @for_agents()
    async def test_any_character_survives_both_ways(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        strange = 'é 🦊 👩‍👩‍👧 مرحبا "quoted" \\back ${NAME} <b>&amp; \u2028 end'
        async with playing(tested, tmp_path) as end:
            assert text_of(await events_of(end, turn(strange))).endswith(strange)

    @for_agents(Can.SAY)
    async def test_a_long_answer_is_whole(self, tested: AgentUnderTest, tmp_path: Path) -> None:
        pieces = tuple(f"{number:08d} " for number in range(20_000))
        async with playing(tested, tmp_path, Script(pieces=pieces)) as end:
            assert text_of(await events_of(end, turn("go"))) == "".join(pieces)

    @for_agents()
    async def test_a_message_without_words_is_answered(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path) as end:
            assert isinstance((await events_of(end, turn("")))[-1], Done)

    @for_agents()
    async def test_turns_that_run_at_once_are_kept_apart(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path) as end:
            numbers = range(16)
            answers = await asyncio.gather(
                *(events_of(end, turn(f"number-{n}-", number=n)) for n in numbers)
            )

        assert all(
            text_of(events).endswith(f"number-{n}-")
            for n, events in zip(numbers, answers, strict=True)
        )
        assert all(text_of(events).count("number-") == 1 for events in answers)

    @for_agents()
    async def test_it_can_be_asked_again_and_again(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path) as end:
            for number in range(5):
                assert text_of(await events_of(end, turn(f"time {number}"))).endswith(
                    f"time {number}"
                )
            await until_nobody_works(end)

    @for_agents(Can.SAY, Can.THINK)
    async def test_thoughts_are_told_apart_from_words(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(
            tested, tmp_path, Script(thoughts=("let ", "me see"), pieces=("found",))
        ) as end:
            events = await events_of(end, turn("go"))

        assert (
            "".join(event.text for event in events if isinstance(event, Reasoning)) == "let me see"
        )
        assert text_of(events) == "found"

    @for_agents(Can.SAY, Can.USE_TOOLS)
    async def test_tools_are_told_of_when_they_begin_and_when_they_end(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(
            tested, tmp_path, Script(tools=("look", "read"), pieces=("found",))
        ) as end:
            tools = [event for event in await events_of(end, turn("go")) if isinstance(event, Tool)]

        assert [tool.name for tool in tools if tool.status is ToolStatus.STARTED] == [
            "look",
            "read",
        ]
        assert [tool.name for tool in tools if tool.status is ToolStatus.DONE] == ["look", "read"]
        assert len({tool.id for tool in tools}) == 2

    @for_agents(Can.COUNT)
    async def test_it_says_what_the_turn_cost(self, tested: AgentUnderTest, tmp_path: Path) -> None:
        async with playing(tested, tmp_path) as end:
            usage = [
                event for event in await events_of(end, turn("one two")) if isinstance(event, Usage)
            ]

        assert len(usage) == 1
        assert usage[0].input > 0
        assert usage[0].output > 0

    @for_agents(Can.SAY, Can.COUNT)
    async def test_tokens_from_a_cache_are_counted_apart_from_the_input(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        cost = Usage(input=100, output=5, cache_read=40)
        async with playing(tested, tmp_path, Script(pieces=("x",), usage=cost)) as end:
            assert cost in await events_of(end, turn("go"))


class TestStopping:
    @for_agents()
    async def test_who_stops_listening_ends_the_work(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path) as end:
            events = end.agent.run(turn("one two three four five"))
            await anext(events)
            await events.aclose()
            await until_nobody_works(end)

    @for_agents(Can.SAY, Can.HANG)
    async def test_an_agent_that_hangs_half_way_can_be_stopped(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(pieces=WORDS, then=Then.HANG)) as end:
            await self._cancelled_after_first_word(end)

    @for_agents(Can.SAY, Can.NEVER_END)
    async def test_an_agent_that_never_ends_can_be_stopped(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(pieces=WORDS, then=Then.NEVER_END)) as end:
            await self._cancelled_after_first_word(end)

    @for_agents(Can.SAY, Can.HANG)
    async def test_an_agent_that_has_said_nothing_can_be_stopped(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(then=Then.HANG_AT_ONCE)) as end:
            listening = asyncio.create_task(events_of(end, turn("go")))
            await until(end.working)
            listening.cancel()
            await asyncio.wait({listening})
            assert listening.cancelled()
            await until_nobody_works(end)

    @for_agents(Can.SAY, Can.HANG)
    async def test_one_that_was_stopped_disturbs_no_other(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(pieces=WORDS, then=Then.HANG)) as end:
            await self._cancelled_after_first_word(end)
            await end.play(Script(pieces=WORDS))
            assert text_of(await events_of(end, turn("go", number=2))) == "".join(WORDS)

    async def _cancelled_after_first_word(self, end: OtherEnd) -> None:
        begun = asyncio.Event()

        async def listen() -> None:
            async with aclosing(end.agent.run(turn("go"))) as events:
                async for _ in events:
                    begun.set()

        listening = asyncio.create_task(listen())
        await begun.wait()
        listening.cancel()
        await asyncio.wait({listening})
        assert listening.cancelled()
        await until_nobody_works(end)


class TestFailing:
    @for_agents(Can.SAY, Can.BE_GONE)
    async def test_one_that_cannot_be_reached_may_be_asked_again(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(then=Then.BE_GONE)) as end:
            heard, error = await failing(end, turn("go"))

        assert heard == []
        assert isinstance(error, AgentUnavailable)

    @for_agents(Can.SAY, Can.REFUSE)
    async def test_one_that_refuses_is_the_operators_business(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(then=Then.REFUSE)) as end:
            heard, error = await failing(end, turn("go"))

        assert heard == []
        assert isinstance(error, AgentRefused)

    @for_agents(Can.SAY, Can.BREAK)
    async def test_what_was_said_before_it_broke_stays_and_nobody_asks_again(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(pieces=WORDS, then=Then.BREAK)) as end:
            heard, error = await failing(end, turn("go"))
            await until_nobody_works(end)

        assert text_of(heard)
        assert "".join(WORDS).startswith(text_of(heard))
        assert not isinstance(error, AgentUnavailable | AgentRefused)
        assert str(error)

    @for_agents(Can.SAY, Can.BREAK)
    async def test_after_a_failure_the_next_turn_is_answered(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path, Script(pieces=WORDS, then=Then.BREAK)) as end:
            await failing(end, turn("go"))
            await end.play(Script(pieces=WORDS))
            assert text_of(await events_of(end, turn("go", number=2))) == "".join(WORDS)


class TestBeingTold:
    @for_agents(Can.BE_PROMPTED)
    async def test_it_is_given_its_prompt_and_the_place(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        async with playing(tested, tmp_path) as end:
            await events_of(
                end, turn("hello", system="You are a gardener.", context="This is a greenhouse.")
            )
            told = await end.told()

        assert "You are a gardener." in told
        assert "This is a greenhouse." in told

    @for_agents(Can.REMEMBER)
    async def test_it_is_given_what_was_said_before_in_order(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        history = (user("first-question"), assistant("first-answer"), user("second-question"))
        async with playing(tested, tmp_path) as end:
            await events_of(end, turn("third-question", "and a fourth-question", history=history))
            told = await end.told()

        places = [
            told.index(f"{each}")
            for each in (
                "first-question",
                "first-answer",
                "second-question",
                "third-question",
                "fourth-question",
            )
        ]
        assert places == sorted(places)

    @for_agents(Can.REMEMBER)
    async def test_tools_of_earlier_turns_can_be_replayed(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        history = (
            assistant("a delivery before anybody spoke"),
            user("look"),
            _used(
                "c 1/é",
                "strange name!",
                "{not json",
                reasoning=Reasoning(text="hm", signature="sig"),
            ),
            _result("c 1/é", "a-result"),
            _used("c 1/é", "again", '["a list"]'),
            assistant("done looking"),
            _result("orphan", "of nobody"),
        )
        async with playing(tested, tmp_path) as end:
            events = await events_of(end, turn("go on", history=history))
            told = await end.told()

        assert isinstance(events[-1], Done)
        assert "a-result" in told
        assert "of nobody" not in told

    @for_agents(Can.REMEMBER)
    async def test_where_several_people_talk_each_is_named(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        ann, bob = dm("user_ann"), dm("user_bob")
        before = replace(user("earlier words"), sender="user_bob")
        asked = turn("from ann", source=ann, history=(before,), shared=True)
        both = replace(asked, messages=(*asked.messages, message("from bob", id="2", source=bob)))
        async with playing(tested, tmp_path) as end:
            await events_of(end, both)
            told = await end.told()

        assert told.count("user_ann") >= 1
        assert told.count("user_bob") >= 2

    @for_agents(Can.REMEMBER)
    async def test_words_that_a_message_answers_are_told(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        asked = turn("yes, that one")
        reply = replace(
            asked.messages[0],
            reply_to=ReplyTo(message_id="9", text="the blue bicycle", to_bot=True),
        )
        async with playing(tested, tmp_path) as end:
            await events_of(end, replace(asked, messages=(reply,)))
            assert "the blue bicycle" in await end.told()

    @for_agents(Can.SEE_FILES)
    async def test_a_text_a_picture_and_anything_else_are_shown_or_named(
        self, tested: AgentUnderTest, tmp_path: Path
    ) -> None:
        folder = tmp_path / "in"
        folder.mkdir()
        files = tuple(
            _file(folder, name, mime, content)
            for name, mime, content in (
                ("notes.txt", "text/plain", b"remember the milk"),
                ("photo.png", "image/png", PNG),
                ("report.pdf", "application/pdf", b"%PDF-1.7 \xff\x00"),
            )
        )
        asked = turn("what is this?")
        with_files = replace(asked, messages=(replace(asked.messages[0], attachments=files),))
        async with playing(tested, tmp_path / "work") as end:
            events = await events_of(end, with_files)
            told = await end.told()

        assert isinstance(events[-1], Done)
        assert "remember the milk" in told or files[0].path in told
        assert "image/png" in told or files[1].path in told
        assert "report.pdf" in told


def _file(folder: Path, name: str, mime: str, content: bytes) -> Attachment:
    path = folder / name
    path.write_bytes(content)
    kind = MediaType.IMAGE if mime.startswith("image/") else MediaType.FILE
    return Attachment(type=kind, path=str(path), name=name, mime=mime, size=len(content))


def _used(call: str, name: str, arguments: str, *, reasoning: Reasoning | None = None) -> Entry:
    calls = (ToolCall(id=call, name=name, arguments=arguments),)
    return Entry(role=Role.ASSISTANT, content=(), at=NOON, tool_calls=calls, reasoning=reasoning)


def _result(call: str, output: str) -> Entry:
    return Entry(role=Role.TOOL, content=(Text(output),), at=NOON, tool_call_id=call)
