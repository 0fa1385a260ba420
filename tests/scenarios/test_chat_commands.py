"""The chat commands as people use them: in the middle of a turn, in a hurry, misspelt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.fakes import ScriptedAgent, message
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.commands import COMMANDS
from turngate.gateway.commands.registry import Request
from turngate.gateway.domain.agent_events import AgentEvent, Done
from turngate.gateway.domain.agent_events import Turn as AgentTurn
from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.domain.ids import InboxId, SessionKey
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    InboxState,
    SessionSource,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import (
    Accepted,
    Choice,
    SessionFilter,
)
from turngate.gateway.domain.transcript import Origin, Text
from turngate.gateway.turns.lanes import LaneRules


async def echo(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
    yield Text(" + ".join(message.text for message in turn.messages))
    yield Done()


async def slowly(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
    """Half the answer at once, the other half ten minutes later."""
    yield Text(f"about {turn.messages[-1].text} ")
    await asyncio.sleep(600)
    yield Text("and so on")


def memory() -> tuple[MemoryStore, LoopClock]:
    clock = LoopClock()
    return MemoryStore(clock), clock


class Odd:
    """A store of which one verb is done differently."""

    def __init__(self, store: Store, **verbs: object) -> None:
        self._store = store
        self._verbs = verbs

    def __getattr__(self, name: str) -> object:
        return self._verbs.get(name) or getattr(self._store, name)


def after_a_pause(verb: Callable[..., object]) -> Callable[..., object]:
    async def paused(*args: object, **named: object) -> object:
        await asyncio.sleep(0.01)
        return await verb(*args, **named)  # type: ignore[misc]

    return paused


async def no_summary() -> str:
    """What /compact is given where nothing is summarised."""
    return ""


def slow_disk() -> tuple[Store, LoopClock]:
    """Every verb takes its time, so that whoever does not wait for his turn gets in between."""
    store, clock = memory()
    names = (
        "accept",
        "begin",
        "finish",
        "answer",
        "open",
        "reset",
        "switch",
        "rename",
        "transcript",
        "truncate",
    )
    return Odd(store, **{name: after_a_pause(getattr(store, name)) for name in names}), clock  # type: ignore[return-value]


async def say_all(work: AtWork, *texts: str) -> None:
    """One after the other, each answered before the next."""
    for text in texts:
        await work.say(text)
        await later()


def last(work: AtWork) -> str:
    return work.adapter.texts[-1]


@hurried
class TestAsking:
    async def test_help_lists_every_command(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "/help")

            names = "help new reset resume sessions title compact status stop undo retry usage"
            for name in names.split():
                assert f"/{name}" in last(work)

    async def test_help_lists_to_admins_what_only_they_may_do(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "hello")
            request = Request(
                argument="",
                session=await work.session(),
                agent="main",
                store=work.store,
                row=InboxId(1),
                message=message("/help"),
                pairing=work.pipeline.admission.pairing,
                compact=no_summary,
            )

            call = COMMANDS.find("/help")
            assert call is not None
            for_anybody = await call.command.run(request)
            for_admins = await call.command.run(replace(request, is_admin=True))

        assert "/pair" not in str(for_anybody)
        assert "/pair list" in str(for_admins)

    async def test_start_greets_and_lists_nothing(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "/start")

            assert last(work).startswith("Hello! Write to me")
            assert "/new" not in last(work)

    async def test_what_a_command_says_is_kept_and_never_shown_to_the_agent(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await say_all(work, "/help", "hello", "/status", "again")

            entries = await work.entries()
            assert [entry.text for entry in entries if entry.origin is Origin.COMMAND][::2] == [
                "/help",
                "/status",
            ]
            assert [entry.text for entry in agent.turns[-1].history] == ["hello", "hello"]

    async def test_a_misspelt_command_gets_a_suggestion_and_no_turn(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await say_all(work, "/resme", "/xyzzyq")

            assert "Did you mean /resume?" in work.adapter.texts[0]
            assert "/help lists what there is" in work.adapter.texts[1]
            assert agent.turns == []

    @pytest.mark.parametrize(
        "text", ["/etc/hosts", "/2", "/ help", "//new", "/", "look at /new", "/new/old", "/é"]
    )
    async def test_what_only_looks_like_a_command_is_text(self, text: str) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await say_all(work, text)

            assert last(work) == text

    @pytest.mark.parametrize("text", ["/STATUS", "  /status  ", "/Status\n"])
    async def test_a_command_may_be_written_carelessly(self, text: str) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, text)

            assert "nothing is running" in last(work)

    async def test_status_tells_of_the_session_and_of_what_goes_on(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=slowly)), *memory()) as work:
            await work.say("/title Plans")
            await work.say("hi")
            await later(1)
            await work.say("more")
            await work.say("/status")
            await later(1)

            assert "“Plans”" in last(work)
            assert (await work.session()).id in last(work)
            assert "a turn is running, 1 waiting" in last(work)

    async def test_a_command_that_comes_twice_is_done_once(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await work.say("/new", id="same")
            await work.say("/new", id="same")
            await later()

            assert len(work.adapter.texts) == 1

    @pytest.mark.parametrize("verb", ["open", "answer", "reset"])
    async def test_a_command_is_answered_when_the_store_is_back(self, verb: str) -> None:
        store, clock = memory()
        failures = [StoreUnavailable("the disk is full")] * 3
        working = getattr(store, verb)

        async def failing(*args: object, **named: object) -> object:
            if failures:
                raise failures.pop()
            return await working(*args, **named)

        async with at_work(
            policy_for(ScriptedAgent()), Odd(store, **{verb: failing}), clock
        ) as work:  # type: ignore[arg-type]
            await say_all(work, "/new Plans")

            assert "“Plans” has begun" in last(work)
            assert [item.state for item in await store.inbox(*InboxState)] == [InboxState.DONE]


@hurried
class TestNew:
    async def test_it_begins_a_conversation_that_knows_nothing_of_the_last(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await say_all(work, "first", "/new Plans", "second")

            assert "/resume brings the last one back" in work.adapter.texts[1]
            assert agent.turns[-1].history == ()
            assert (await work.session()).title == "Plans"

    async def test_a_first_new_promises_no_way_back(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "/reset")

            assert last(work) == "A new conversation has begun."

    async def test_what_was_said_just_before_it_stays_in_the_old_session(self) -> None:
        agent = ScriptedAgent(answer=echo)
        rules = LaneRules(debounce=timedelta(seconds=10))
        async with at_work(policy_for(agent), *memory(), rules=rules) as work:
            for text in ("old", "/new", "fresh"):
                await work.say(text)
            await later()

            assert [[each.text for each in turn.messages] for turn in agent.turns] == [["fresh"]]
            assert "old" not in await work.texts()

    async def test_it_stops_what_runs_and_its_text_stays_in_the_old_session(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=slowly)), *memory()) as work:
            await work.say("first")
            await later(1)
            old = await work.session()
            await work.say("/new")
            await later(1)

            assert [entry.text for entry in (await work.store.transcript(old.id)).entries] == [
                "first",
                "about first \n\n*(incomplete: stopped)*",
            ]
            assert last(work).startswith(
                "What was running has been stopped. A new conversation has begun."
            )
            assert (await work.session()).id != old.id

    async def test_what_is_said_after_it_is_said_in_the_new_conversation(self) -> None:
        """
        However fast it comes, and although a stopped turn frees the lane before the command has
        done its part.
        """
        agent = ScriptedAgent(answer=slowly)
        async with at_work(policy_for(agent), *slow_disk()) as work:
            await work.say("first")
            await later(1)
            old = await work.session()
            await asyncio.gather(work.say("/new"), work.say("second"))
            await later(1)

            assert [[message.text for message in turn.messages] for turn in agent.turns] == [
                ["first"],
                ["second"],
            ]
            assert agent.turns[-1].session.id != old.id
            assert agent.turns[-1].history == ()

    async def test_that_holds_after_a_restart_too(self) -> None:
        store, clock = slow_disk()
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), store, clock) as work:
            await say_all(work, "first")
            key = work.pipeline.policy.key_of(at_desk())
            for text in ("/new", "second"):
                await store.accept(work.message(text), key)
            await work.pipeline.recover()
            await later()

            assert agent.turns[-1].history == ()

    async def test_commands_of_one_chat_are_done_in_the_order_in_which_they_came(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *slow_disk()) as work:
            await say_all(work, "first")
            await asyncio.gather(
                work.say("/new"), work.say("/title Plans"), work.say("/title Better plans")
            )
            await later()

            assert (await work.session()).title == "Better plans"
            assert [text.split(".")[0] for text in work.adapter.texts[1:]] == [
                "A new conversation has begun",
                "This conversation is now called “Plans”",
                "This conversation is now called “Better plans”",
            ]

    async def test_what_was_waiting_is_answered_and_nothing_is_lost(self) -> None:
        agent = ScriptedAgent(answer=slowly)
        async with at_work(policy_for(agent), *slow_disk()) as work:
            await work.say("first")
            await later(1)
            await work.say("second")
            await work.say("/new")
            await later(4000)

            assert [[message.text for message in turn.messages] for turn in agent.turns] == [
                ["first"],
                ["second"],
            ]
            assert {item.state for item in await work.store.inbox(*InboxState)} == {InboxState.DONE}


@hurried
class TestResume:
    async def test_without_a_name_it_goes_back_to_the_last_conversation(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await say_all(work, "apples", "/new", "pears", "/new", "/resume", "more")

            assert [entry.text for entry in agent.turns[-1].history] == ["pears", "pears"]

    @pytest.mark.parametrize("wanted", ["2", "Fruit", "fruit", "apple", "frui"])
    async def test_a_conversation_is_found_by_number_and_by_name(self, wanted: str) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await say_all(work, "apples")
            if wanted != "apple":
                await say_all(work, "/title Fruit")
            await later()
            await say_all(work, "/new", "pears", "/new", "plums", f"/resume {wanted}", "more")

            assert [entry.text for entry in agent.turns[-1].history] == ["apples", "apples"]

    async def test_a_conversation_is_found_by_the_beginning_of_its_id(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await say_all(work, "apples")
            old = await work.session()
            await say_all(work, "/new", f"/resume {old.id.upper()}")

            assert (await work.session()).id == old.id

    async def test_what_fits_several_or_none_is_asked_back(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await say_all(work, "/resume")
            assert last(work) == "There is no earlier conversation here."
            await say_all(work, "red apples", "/new", "green apples", "/new")
            await say_all(work, "/resume apples")
            assert "Several fit that" in last(work)
            await say_all(work, "/resume bananas")

            assert "There is no such conversation here" in last(work)

    @pytest.mark.parametrize("number", ["0", "3", "-1", "9" * 5000, "٣"])
    async def test_a_number_that_is_not_in_the_list_is_asked_back(self, number: str) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await say_all(work, "apples", "/new", "pears", f"/resume {number}")

            assert "There is no such conversation here" in last(work)

    async def test_the_present_conversation_is_said_to_be_the_present_one(self) -> None:
        """Finding C12."""
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await say_all(work, "apples", "/title Fruit")
            here = await work.session()
            for wanted in ("Fruit", "“fruit”", here.id, f"[{here.id}]"):
                await say_all(work, f"/resume {wanted}")
                assert last(work) == "You are in “Fruit” already."

    @pytest.mark.parametrize("around", ["[{}]", "<{}>", '"{}"', "“{}”", "`{}`", "«{}»", '["{}"]'])
    async def test_a_name_in_brackets_or_quotes_is_found(self, around: str) -> None:
        """Finding C12."""
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await say_all(work, "apples", "/title Fruit")
            old = await work.session()
            await say_all(work, "/new", f"/resume {around.format('Fruit')}")
            assert (await work.session()).id == old.id
            await say_all(work, "/new", f"/resume {around.format(old.id)}")
            assert (await work.session()).id == old.id

    async def test_it_reaches_only_conversations_of_its_own_chat(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await work.say("secret of bob", source=at_desk("bobs"))
            await later()
            theirs = await work.session(at_desk("bobs"))
            await say_all(work, "mine")
            for wanted in ("", "1", "secret", theirs.id):
                await say_all(work, f"/resume {wanted}")
                assert "conversation here" in last(work)
            await say_all(work, "/sessions")

            assert "secret" not in last(work)

    async def test_two_people_of_one_group_do_not_reach_each_other(self) -> None:
        ann, bob = (
            SessionSource(platform="web", chat_type=ChatType.GROUP, chat_id="g", user_id=name)
            for name in "ab"
        )
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            for text in ("secret of ann", "/new"):
                await work.say(text, source=ann)
                await later()
            await work.say("/resume", source=bob)
            await later()

            assert last(work) == "There is no earlier conversation here."

    async def test_it_stops_what_runs_and_says_so_even_if_there_is_no_way_back(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=slowly)), *memory()) as work:
            await work.say("first")
            await later(1)
            await work.say("/resume")
            await later(1)

            assert work.adapter.texts == [
                "about first\n\n*(incomplete: stopped)*",
                "What was running has been stopped. There is no earlier conversation here.",
            ]

    async def test_sessions_lists_what_resume_can_reach(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await say_all(work, "apples", "/new", "pears", "/new", "plums", "/sessions")

            listed = last(work)
            assert "You are in “plums”" in listed
            assert listed.index("1. “pears”") < listed.index("2. “apples”")


@hurried
class TestTitle:
    async def test_it_names_the_conversation_on_one_line(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "/title  Plans\nfor \u202e May", "/title")

            assert (await work.session()).title == "Plans for May"
            assert "“Plans for May”" in last(work)


@hurried
class TestStop:
    async def test_it_stops_what_runs_promptly_and_keeps_what_was_said(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=slowly)), *memory()) as work:
            await work.say("first")
            await later(1)
            await work.say("/stop")
            await later(1)

            assert work.adapter.texts == ["about first\n\n*(incomplete: stopped)*", "Stopped."]
            assert "about first \n\n*(incomplete: stopped)*" in await work.texts()

    async def test_an_agent_that_will_not_stop_does_not_keep_its_lane(self) -> None:
        async def stubborn(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            yield Text(f"about {turn.messages[-1].text} ")
            while turn.messages[-1].text == "a":
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(100_000)
                    return

        async with at_work(policy_for(ScriptedAgent(answer=stubborn)), *memory()) as work:
            await work.say("a")
            await later(1)
            await work.say("/stop")
            await work.say("b")
            await later(10)

            assert work.adapter.texts == [
                "about a\n\n*(incomplete: stopped)*",
                "Stopped. One message is next.",
                "about b",
            ]
            assert not work.pipeline.lanes.is_busy(work.pipeline.policy.key_of(at_desk()))
            await later(200_000)

    async def test_it_stops_what_has_not_begun_because_more_might_be_said(self) -> None:
        agent = ScriptedAgent(answer=echo)
        rules = LaneRules(debounce=timedelta(seconds=10))
        async with at_work(policy_for(agent), *memory(), rules=rules) as work:
            await work.say("a")
            await later(1)
            await work.say("/stop")
            await later()

            assert agent.turns == []
            assert work.adapter.texts == ["(Stopped before the first word.)", "Stopped."]
            assert await work.texts() == [
                "a",
                "(Stopped before the first word.)",
                "/stop",
                "Stopped.",
            ]
            assert {item.state for item in await work.store.inbox(*InboxState)} == {InboxState.DONE}

    async def test_without_a_turn_it_says_so(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "/stop")

            assert last(work) == "Nothing is running."

    async def test_what_waits_is_next(self) -> None:
        agent = ScriptedAgent(answer=slowly)
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("first")
            await later(1)
            await work.say("second")
            await work.say("/stop")
            await later(1)
            assert "Stopped." in work.adapter.texts[1]
            await later(4000)

            assert last(work) == "about second and so on"

    async def test_two_stops_at_once_are_both_answered(self) -> None:
        async def tidies_up(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            try:
                yield Text("Half")
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(5)

        async with at_work(policy_for(ScriptedAgent(answer=tidies_up)), *memory()) as work:
            await work.say("first")
            await later(1)
            await work.say("/stop")
            await later(1)
            await work.say("/stop")
            await later()

            assert len(work.adapter.texts) == 3


@hurried
class TestUndo:
    async def test_it_takes_back_the_last_exchange_and_nothing_else(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await say_all(work, "one", "two", "/status", "/undo", "three")

            assert "“two”" in work.adapter.texts[-2]
            assert [entry.text for entry in agent.turns[-1].history] == ["one", "one"]

    async def test_messages_that_were_answered_together_are_taken_back_together(self) -> None:
        go = asyncio.Event()

        async def held(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await go.wait()
            yield Text("fine")

        async with at_work(policy_for(ScriptedAgent(answer=held)), *memory()) as work:
            await work.say("one")
            await later(1)
            await work.say("two")
            await work.say("three")
            go.set()
            await later()
            await say_all(work, "/undo")

            assert (await work.texts())[:2] == ["one", "fine"]
            assert "two" not in await work.texts()

    async def test_a_question_that_failed_is_not_taken_back_with_the_next_one(self) -> None:
        answers = iter([False, True, True])

        async def sometimes(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            if not next(answers):
                raise RuntimeError
            yield Text("fine")

        async with at_work(policy_for(ScriptedAgent(answer=sometimes)), *memory()) as work:
            await say_all(work, "one", "two", "/undo")

            assert (await work.texts())[0] == "one"
            assert "“two”" in last(work)

    async def test_there_may_be_nothing_to_take_back(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "/status", "/undo")

            assert last(work) == "There is nothing to undo."

    @pytest.mark.parametrize("command", ["/undo", "/retry"])
    async def test_while_a_turn_runs_it_is_refused_at_once(self, command: str) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=slowly)), *memory()) as work:
            await work.say("first")
            await later(1)
            await work.say(command)
            await later(1)

            assert last(work).startswith("A turn is running or waiting here.")
            assert (await work.texts())[0] == "first"

    @pytest.mark.parametrize("command", ["/undo", "/retry"])
    async def test_one_that_was_given_while_a_turn_ran_is_refused_also_if_that_ends_meanwhile(
        self, command: str
    ) -> None:
        store, clock = memory()

        async def accept(
            message: InboundMessage, key: SessionKey, **more: Choice | None
        ) -> Accepted:
            await asyncio.sleep(2 if message.text == command else 0)
            return await store.accept(message, key, **more)

        async def a_second(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            await asyncio.sleep(1)
            yield Text("fine")

        agent = ScriptedAgent(answer=a_second)
        async with at_work(policy_for(agent), Odd(store, accept=accept), clock) as work:  # type: ignore[arg-type]
            await work.say("first")
            await later(0.5)
            await work.say(command)
            await later()

            assert len(agent.turns) == 1
            assert last(work).startswith("A turn is running or waiting here.")

    async def test_a_message_that_comes_meanwhile_waits_and_is_not_taken_back(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *slow_disk()) as work:
            await say_all(work, "one", "two")
            await asyncio.gather(work.say("/undo"), work.say("three"))
            await later()

            assert await work.texts() == [
                "one",
                "one",
                "/undo",
                work.adapter.texts[2],
                "three",
                "three",
            ]
            assert [entry.text for entry in agent.turns[-1].history] == ["one", "one"]


@hurried
class TestRetry:
    async def test_it_asks_the_last_question_again_in_its_place(self) -> None:
        numbers = iter(range(10))

        async def counting(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            yield Text(f"{turn.messages[-1].text}: {next(numbers)}")

        agent = ScriptedAgent(answer=counting)
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("one", id="m-one")
            await later()
            await say_all(work, "/help", "/retry")

            assert last(work) == "one: 1"
            assert await work.texts() == ["one", "one: 1"]
            assert agent.turns[-1].history == ()
            assert work.adapter.sent[-1].reply_to == "m-one"

    async def test_a_question_that_failed_can_be_asked_again(self) -> None:
        answers = iter([False, True])

        async def sometimes(turn: AgentTurn) -> AsyncIterator[AgentEvent]:
            if not next(answers):
                raise RuntimeError
            yield Text(f"fine, {turn.messages[-1].text}")

        async with at_work(policy_for(ScriptedAgent(answer=sometimes)), *memory()) as work:
            await say_all(work, "one", "/retry")

            assert last(work) == "fine, one"
            assert await work.texts() == ["one", "fine, one"]

    async def test_it_can_be_stopped(self) -> None:
        agent = ScriptedAgent(answer=slowly)
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("one")
            await later(4000)
            await work.say("/retry")
            await later(1)
            await work.say("/stop")
            await later(1)

            assert await work.texts() == [
                "one",
                "about one \n\n*(incomplete: stopped)*",
                "/stop",
                "Stopped.",
            ]

    async def test_there_may_be_nothing_to_ask_again(self) -> None:
        async with at_work(policy_for(ScriptedAgent()), *memory()) as work:
            await say_all(work, "/retry")

            assert last(work) == "There is nothing to ask again."


@hurried
class TestBounds:
    async def test_commands_leave_no_lane_behind(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *slow_disk()) as work:
            await asyncio.gather(
                *(
                    work.say(text, source=at_desk(f"{n}"))
                    for n in range(20)
                    for text in ("/new", "hi", "/undo", "/stop")
                )
            )
            await later()

            assert work.pipeline.lanes.depth() == (0, 0)
            assert not any(
                work.pipeline.lanes.is_busy(session.key) for session in await work.store.sessions()
            )
            assert len(await work.store.sessions(SessionFilter(current_only=True))) == 20


@hurried
class TestHurry:
    @pytest.mark.parametrize(
        ("first", "then"), [("one", "/undo"), ("one", "/retry"), ("/stop", "/retry")]
    )
    async def test_whoever_has_seen_an_answer_may_go_on_at_once(
        self, first: str, then: str
    ) -> None:
        """Although the lane is still busy with marking the answer as sent."""
        seen = asyncio.Event()
        agent = ScriptedAgent(answer=echo)
        store, clock = slow_disk()
        told = store.record_sent
        is_slow = False

        async def record_sent(*args: Any) -> None:
            if is_slow:
                seen.set()
                await asyncio.sleep(5)
            else:
                await told(*args)

        store._verbs["record_sent"] = record_sent  # type: ignore[attr-defined]
        async with at_work(policy_for(agent), store, clock) as work:
            await say_all(work, "zero")
            is_slow = True
            await work.say(first)
            await seen.wait()
            await work.say(then)
            await later()

            assert "A turn is running" not in last(work)
