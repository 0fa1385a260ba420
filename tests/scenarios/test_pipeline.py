"""
The life of a message from end to end: everything is real but the agent, the adapter and, mostly,
the disk.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.fakes import NOON, RecordingAdapter, ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.daemon.system_clock import SystemClock
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
    Refused,
    StoreUnavailable,
    Throttled,
)
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    InboxState,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import ResetPolicy
from turngate.gateway.domain.store_values import Accepted, Choice
from turngate.gateway.domain.transcript import (
    Origin,
    Role,
    Text,
)
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route
from turngate.gateway.rules.session_lifecycle import ResetPolicies
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.turns.lanes import LaneRules, WhenBusy

KEY = bytes(range(32))
IDLE_AFTER_AN_HOUR = ResetPolicies(default=ResetPolicy(idle_after=timedelta(hours=1)))

WORKING = "Still working on it…"


async def echo(turn: Turn) -> AsyncIterator[AgentEvent]:
    """Says back all it was asked."""
    yield Text(" + ".join(message.text for message in turn.messages))
    yield Done()


class Odd:
    """A store of which one verb is done differently."""

    def __init__(self, store: Store, **verbs: object) -> None:
        self._store = store
        self._verbs = verbs

    def __getattr__(self, name: str) -> object:
        return self._verbs.get(name) or getattr(self._store, name)


def memory() -> tuple[MemoryStore, LoopClock]:
    clock = LoopClock()
    return MemoryStore(clock), clock


def failing(verb: Callable[..., object], times: int) -> Callable[..., object]:
    """The verb of a store that is unavailable for a while."""
    left = [times]

    async def tried(*args: object, **named: object) -> object:
        if left[0] > 0:
            left[0] -= 1
            raise StoreUnavailable("the disk is full")
        return await verb(*args, **named)  # type: ignore[misc]

    return tried


def asked(agent: ScriptedAgent) -> list[list[str]]:
    return [[message.text for message in turn.messages] for turn in agent.turns]


async def inbox(work: AtWork) -> Counter[InboxState]:
    return Counter(item.state for item in await work.store.inbox(*InboxState))


@hurried
class TestOneMessage:
    async def test_it_is_stored_answered_sent_and_kept(self) -> None:
        agent = ScriptedAgent(Text("Hello "), Text("Ann."), Usage(input=10, output=2), Done())
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("hi", id="m1")
            await later()

            assert [(part.text, part.target, part.reply_to) for part in work.adapter.sent] == [
                ("Hello Ann.", at_desk(), "m1")
            ]
            question, answer = await work.entries()
            assert (question.role, question.text, question.sender) == (Role.USER, "hi", "ann")
            assert (answer.role, answer.text, answer.origin) == (
                Role.ASSISTANT,
                "Hello Ann.",
                Origin.CHAT,
            )
            session = await work.session()
            assert (session.tokens.input, session.tokens.output) == (10, 2)
            assert await inbox(work) == {InboxState.DONE: 1}
            assert [part.state for part in await work.store.outbox(*PartState)] == [PartState.SENT]

    async def test_it_is_on_disk_when_the_sender_hears_of_it_and_not_before(self) -> None:
        order: list[str] = []
        store, clock = memory()

        async def accept(
            message: InboundMessage, key: SessionKey, **more: Choice | None
        ) -> Accepted:
            await asyncio.sleep(1)
            order.append("stored")
            return await store.accept(message, key, **more)

        async with at_work(policy_for(ScriptedAgent()), Odd(store, accept=accept), clock) as work:  # type: ignore[arg-type]
            await work.say("hi")
            order.append("told")

        assert order == ["stored", "told"]

    async def test_a_message_that_could_not_be_stored_is_not_confirmed_and_holds_up_nobody(
        self,
    ) -> None:
        store, clock = memory()
        agent = ScriptedAgent(answer=echo)
        odd = Odd(store, accept=failing(store.accept, 1))
        async with at_work(policy_for(agent), odd, clock) as work:  # type: ignore[arg-type]
            with pytest.raises(StoreUnavailable):
                await work.say("lost")
            await work.say("kept")
            await later()

            assert work.adapter.texts == ["kept"]

    async def test_a_message_that_comes_twice_is_answered_once(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await asyncio.gather(*(work.say("hi", id="same") for _ in range(5)))
            await later()
            await work.say("hi", id="same")
            await later()

            assert work.adapter.texts == ["hi"]
            assert work.pipeline.lanes.depth() == (0, 0)

    async def test_one_whose_sender_went_away_while_it_was_being_stored_is_answered_all_the_same(
        self,
    ) -> None:
        store, clock = memory()

        async def accept(
            message: InboundMessage, key: SessionKey, **more: Choice | None
        ) -> Accepted:
            accepted = await store.accept(message, key, **more)
            await asyncio.sleep(1)  # the commit: what was handed to the disk cannot be taken back
            return accepted

        async with at_work(
            policy_for(ScriptedAgent(answer=echo)), Odd(store, accept=accept), clock
        ) as work:  # type: ignore[arg-type]
            sending = asyncio.ensure_future(work.say("hi", id="m1"))
            await later(0.5)
            sending.cancel()
            await later()
            await work.say("hi", id="m1")
            await later()

            assert work.adapter.texts == ["hi"]

    async def test_a_stranger_gets_no_turn_and_leaves_no_word(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say(
                "hi", source=SessionSource(platform="telegram", chat_id="1", user_id="1")
            )
            await later()

            assert agent.turns == []
            (item,) = await work.store.inbox(*InboxState)
            assert (item.state, item.message.text) == (InboxState.REFUSED, "")

    async def test_a_text_that_is_longer_than_any_message_is_refused_with_the_reason(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            with pytest.raises(Refused, match="1,000,000 is the most"):
                await work.say("x" * 1_000_001)

            assert not work.pipeline.lanes.is_busy(work.pipeline.policy.key_of(at_desk()))

    async def test_the_answer_goes_where_the_message_came_from(self) -> None:
        first = SessionSource(
            platform="web", chat_type=ChatType.GROUP, chat_id="g", user_id="ann", thread_id="1"
        )
        second = SessionSource(
            platform="web", chat_type=ChatType.GROUP, chat_id="g", user_id="bob", thread_id="2"
        )
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await work.say("in one", source=first)
            await work.say("in two", source=second)
            await later()

            assert {(part.text, part.target.thread_id) for part in work.adapter.sent} == {
                ("in one", "1"),
                ("in two", "2"),
            }


@hurried
class TestOrder:
    async def test_sixty_messages_of_one_chat_come_out_in_the_order_in_which_they_came(
        self,
    ) -> None:
        """
        I5: the lane is taken before the first await. With the store first they came out as 0, 2, 3,
        1, 6, 7.
        """
        store, clock = memory()
        chance, agent = random.Random(60), ScriptedAgent(answer=echo)

        async def accept(
            message: InboundMessage, key: SessionKey, **more: Choice | None
        ) -> Accepted:
            await asyncio.sleep(chance.random())
            return await store.accept(message, key, **more)

        async with at_work(policy_for(agent), Odd(store, accept=accept), clock) as work:  # type: ignore[arg-type]
            await asyncio.gather(*(work.say(f"{number}") for number in range(60)))
            await later()

            assert [text for turn in asked(agent) for text in turn] == [
                f"{number}" for number in range(60)
            ]
            told = " + ".join(work.adapter.texts)
            assert told == " + ".join(f"{number}" for number in range(60))

    async def test_each_turn_sees_the_one_before_it(self) -> None:
        agent = ScriptedAgent(answer=echo)
        rules = LaneRules(when_busy=WhenBusy.FOLLOW_UP, debounce=timedelta(0))
        async with at_work(policy_for(agent), *memory(), rules=rules) as work:
            for number in range(5):
                await work.say(f"{number}")
            await later()

            shown = [entry.text for entry in agent.turns[-1].history]
            assert shown == [text for number in range(4) for text in (f"{number}", f"{number}")]

    async def test_two_hundred_chats_at_once_never_hear_a_word_of_each_other(self) -> None:
        """
        I6: each answer carries its chat's canary and no other, and so does all that an agent is
        shown.
        """

        chance = random.Random(200)

        async def remember(turn: Turn) -> AsyncIterator[AgentEvent]:
            for entry in turn.history:
                yield Text(f"{entry.text} ")
                await asyncio.sleep(chance.random())
            yield Text(turn.messages[-1].text)
            yield Done()

        agent = ScriptedAgent(answer=remember)
        async with at_work(policy_for(agent), *memory()) as work:
            for turn in range(3):
                says = [
                    work.say(f"canary{chat:03} {turn}", source=at_desk(f"chat{chat:03}"))
                    for chat in range(200)
                ]
                await asyncio.gather(*says)
                await later(1000)

            assert len(work.adapter.sent) == 600
            for part in work.adapter.sent:
                words = {word for word in part.text.split() if word.startswith("canary")}
                assert words == {f"canary{(part.target.chat_id or '')[4:]}"}
            for seen in agent.turns:
                assert str(seen).count("canary") == str(seen).count(
                    seen.messages[-1].text.split()[0]
                )


@hurried
class TestWhenBusy:
    async def test_what_arrives_during_a_turn_is_answered_together(self) -> None:
        go = asyncio.Event()

        async def wait_then_echo(turn: Turn) -> AsyncIterator[AgentEvent]:
            await go.wait()
            async for event in echo(turn):
                yield event

        async with at_work(policy_for(ScriptedAgent(answer=wait_then_echo)), *memory()) as work:
            await work.say("first")
            await later(1)
            await work.say("second")
            await work.say("third")
            go.set()
            await later()

            assert work.adapter.texts == ["first", "second + third"]
            assert await work.texts() == ["first", "first", "second", "third", "second + third"]

    async def test_an_interrupted_turn_keeps_what_was_said_and_the_next_one_sees_it(self) -> None:
        async def slow(turn: Turn) -> AsyncIterator[AgentEvent]:
            yield Text(f"about {turn.messages[-1].text}, ")
            await asyncio.sleep(100)
            yield Text("done")

        agent = ScriptedAgent(answer=slow)
        rules = LaneRules(when_busy=WhenBusy.INTERRUPT, debounce=timedelta(0))
        async with at_work(policy_for(agent), *memory(), rules=rules) as work:
            await work.say("first")
            await later(1)
            await work.say("second")
            await later(1000)

            assert work.adapter.texts == [
                "about first,\n\n*(incomplete: stopped)*",
                WORKING,
                "about second, done",
            ]
            assert "about first" in str(agent.turns[-1].history)

    async def test_a_chat_that_cannot_be_reached_does_not_hold_its_lane(self) -> None:
        adapter = RecordingAdapter(Throttled("slow down", retry_after=3600.0))
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory(), adapter=adapter) as work:
            await work.say("first")
            await later()
            await work.say("second")
            await later()
            assert asked(agent) == [["first"], ["second"]]
            assert adapter.texts == []
            await later(3600)

            assert adapter.texts == ["first", "second"]


@hurried
class TestFailures:
    async def test_a_broken_agent_is_told_of_once_and_the_lane_goes_on(self) -> None:
        calls = iter([RuntimeError("boom"), None])

        async def sometimes(turn: Turn) -> AsyncIterator[AgentEvent]:
            error = next(calls)
            if error:
                raise error
            yield Text("fine")

        async with at_work(policy_for(ScriptedAgent(answer=sometimes)), *memory()) as work:
            await work.say("one")
            await later()
            await work.say("two")
            await later()

            assert work.adapter.texts == [
                "There is no answer: the agent failed with an error. Write again, or /retry.",
                "fine",
            ]
            assert await inbox(work) == {InboxState.FAILED: 1, InboxState.DONE: 1}
            assert [(entry.text, entry.origin) for entry in (await work.entries())[:2]] == [
                ("one", Origin.CHAT),
                (
                    "There is no answer: the agent failed with an error. Write again, or /retry.",
                    Origin.COMMAND,
                ),
            ]

    async def test_what_was_said_before_a_failure_is_kept_and_marked(self) -> None:
        agent = ScriptedAgent(Text("Half of"), AgentError("the model is overloaded"))
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("hi")
            await later()

            marked = "Half of\n\n*(incomplete: the model is overloaded)*"
            assert work.adapter.texts == [marked]
            assert (await work.texts())[-1] == marked

    async def test_the_mark_stands_at_the_last_words_not_at_a_tool(self) -> None:
        agent = ScriptedAgent(
            Text("Looking."),
            Tool(id="1", name="search", status=ToolStatus.STARTED),
            Tool(id="1", name="search", status=ToolStatus.DONE, output="found"),
            AgentError("no more"),
        )
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("hi")
            await later()

            assert await work.texts() == ["hi", "Looking.\n\n*(incomplete: no more)*", "found"]

    async def test_an_agent_with_nothing_to_say_does_not_answer_with_silence(self) -> None:
        async with at_work(policy_for(ScriptedAgent(Done())), *memory()) as work:
            await work.say("hi")
            await later()

            assert work.adapter.texts == ["(The agent gave no answer.)"]

    async def test_a_silent_agent_frees_its_lane(self) -> None:
        agent = ScriptedAgent(Text("Wait"), asyncio.Event())
        async with at_work(policy_for(agent, idle_timeout=timedelta(minutes=5)), *memory()) as work:
            await work.say("hi")
            await later(301)

            assert work.adapter.texts == [WORKING, "Wait\n\n*(incomplete: the agent fell silent)*"]
            assert work.pipeline.lanes.depth() == (0, 0)

    async def test_an_agent_that_raises_what_only_loops_raise_does_not_take_its_lane_with_it(
        self,
    ) -> None:
        agent = ScriptedAgent(asyncio.CancelledError())
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("one")
            await later()
            await work.say("two")
            await later()

            assert len(work.adapter.sent) == 2

    async def test_a_bug_of_ours_is_told_too_and_the_lane_goes_on(self) -> None:
        agent = ScriptedAgent(Text(7), Done())  # type: ignore[arg-type]
        async with at_work(policy_for(agent), *memory()) as work:
            await work.say("one")
            await later()
            await work.say("two")
            await later()

            assert len(work.adapter.sent) == 2

    @pytest.mark.parametrize("verb", ["begin", "finish"])
    async def test_a_store_that_is_unavailable_for_a_while_loses_no_answer(self, verb: str) -> None:
        store, clock = memory()
        odd = Odd(store, **{verb: failing(getattr(store, verb), 4)})
        async with at_work(policy_for(ScriptedAgent(answer=echo)), odd, clock) as work:  # type: ignore[arg-type]
            await work.say("hi")
            await later()

            assert work.adapter.texts == ["hi"]
            assert await work.texts() == ["hi", "hi"]

    async def test_a_session_that_is_deleted_during_its_turn_gets_no_answer_and_the_lane_goes_on(
        self,
    ) -> None:
        go = asyncio.Event()

        async def wait_once(turn: Turn) -> AsyncIterator[AgentEvent]:
            await go.wait()
            yield Text(turn.messages[-1].text)

        async with at_work(policy_for(ScriptedAgent(answer=wait_once)), *memory()) as work:
            await work.say("first")
            await later(1)
            await work.store.delete((await work.session()).id)
            go.set()
            await later()
            await work.say("second")
            await later()

            assert work.adapter.texts == ["second"]

    async def test_an_agent_that_is_no_longer_there_is_named(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=echo)), *memory()) as work:
            await work.say("first")
            await later()
            await work.store.choose_agent((await work.session()).id, "poet")
            await work.say("second")
            await later()

            assert work.adapter.texts == [
                "first",
                "The agent poet is no longer there; main answers.",
                "second",
            ]


@hurried
class TestResets:
    async def test_the_notice_is_shown_once_with_the_way_back(self) -> None:
        store, clock = memory()
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent, resets=IDLE_AFTER_AN_HOUR), store, clock) as work:
            await work.say("first")
            await later()
            clock.advance(hours=2)
            await work.say("second")
            await later()
            await work.say("third")
            await later()

            notice = (
                "The conversation before this one ended after a long silence. /resume "
                "brings it back."
            )
            assert work.adapter.texts == ["first", notice, "second", "third"]
            assert await work.texts() == ["second", notice, "second", "third", "third"]
            assert all(
                "long silence" not in entry.text for turn in agent.turns for entry in turn.history
            )
            assert [entry.text for entry in agent.turns[-1].history] == ["second", "second"]

    async def test_the_way_back_leads_back(self) -> None:
        store, clock = memory()
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent, resets=IDLE_AFTER_AN_HOUR), store, clock) as work:
            await work.say("first")
            await later()
            clock.advance(hours=2)
            await work.say("second")
            await later()
            await work.say("/resume")
            await later()
            await work.say("third")
            await later()

            assert [entry.text for entry in agent.turns[-1].history] == ["first", "first"]

    async def test_the_notice_is_shown_once_also_when_the_first_turn_fails(self) -> None:
        store, clock = memory()
        outcomes = iter([None, AgentError("overloaded"), None, None])

        async def sometimes(turn: Turn) -> AsyncIterator[AgentEvent]:
            error = next(outcomes)
            if error:
                raise error
            yield Text("fine")

        async with at_work(
            policy_for(ScriptedAgent(answer=sometimes), resets=IDLE_AFTER_AN_HOUR), store, clock
        ) as work:
            await work.say("first")
            await later()
            clock.advance(hours=2)
            for text in ("second", "third", "fourth"):
                await work.say(text)
                await later()

            assert sum("/resume brings it back" in text for text in work.adapter.texts) == 1

    async def test_a_conversation_of_commands_alone_ends_without_a_promise_to_bring_it_back(
        self,
    ) -> None:
        store, clock = memory()
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent, resets=IDLE_AFTER_AN_HOUR), store, clock) as work:
            await work.say("/title Nothing yet")
            await later()
            clock.advance(hours=2)
            await work.say("first")
            await later()

            assert work.adapter.texts[1:] == ["first"]
            assert "/resume" not in agent.turns[0].context
            assert "Nothing had been said in it." in agent.turns[0].context

    async def test_a_conversation_in_which_nothing_was_said_ends_without_a_word(self) -> None:
        store, clock = memory()
        async with at_work(
            policy_for(ScriptedAgent(answer=echo), resets=IDLE_AFTER_AN_HOUR), store, clock
        ) as work:
            await store.open(work.pipeline.policy.opening(at_desk()))
            clock.advance(hours=2)
            await work.say("first")
            await later()

            assert work.adapter.texts == ["first"]


CANARIES = {
    "user": "555000111222",
    "user alt": "uuid-canary-0001",
    "chat": "-1007770001112",
    "chat alt": "chatalt-canary-02",
    "thread": "1700000000.7777",
    "scope": "TCANARY999",
    "message": "msgcanary55555",
    "event": "eventcanary6666",
    "quoted": "quotedcanary777",
    "phone": "+49 151 23456789",
    "other": "888000333444",
}


@hurried
class TestPrivacy:
    def source(
        self, user: str = CANARIES["user"], alt: str = CANARIES["user alt"]
    ) -> SessionSource:
        return SessionSource(
            platform="web",
            chat_type=ChatType.GROUP,
            chat_id=CANARIES["chat"],
            chat_id_alt=CANARIES["chat alt"],
            user_id=user,
            user_id_alt=alt,
            thread_id=CANARIES["thread"],
            scope=CANARIES["scope"],
            user_name=f"Ann of {user}",
            chat_name=f"Room {CANARIES['chat']}",
            chat_topic=f"call {CANARIES['phone']}",
        )

    def message(self, text: str, number: int, source: SessionSource) -> InboundMessage:
        return InboundMessage(
            id=f"{CANARIES['message']}{number}",
            event_ids=(f"{CANARIES['event']}{number}",),
            source=source,
            text=text,
            sent_at=NOON,
            reply_to=ReplyTo(message_id=CANARIES["quoted"], text=f"quoted {source.user_id}"),
        )

    async def test_the_agent_never_sees_a_real_id(self) -> None:
        agent = ScriptedAgent(answer=echo)
        policy = policy_for(agent, privacy_key=KEY, per_user_in_groups=False)
        every_id = " ".join(
            CANARIES[name] for name in CANARIES if name not in ("message", "event", "quoted")
        )
        async with at_work(policy, *memory()) as work:
            # The first to write gives the session its origin; later he is only written about.
            await work.pipeline.receive(
                self.message("first", 1, self.source(user=CANARIES["other"], alt=""))
            )
            await later()
            session = await work.session(self.source())
            await work.store.rename(session.id, f"Talk of {every_id}")
            await work.store.set_goal(session.id, f"Call {every_id}")
            for number in range(2, 5):
                await work.pipeline.receive(
                    self.message(f"about {every_id}", number, self.source())
                )
                await later()

            seen = repr(agent.turns)
            assert len(agent.turns) == 4
            assert [name for name, canary in CANARIES.items() if canary in seen] == []
            assert session.key not in seen

    async def test_the_agent_is_told_whether_several_people_may_speak(self) -> None:
        agent = ScriptedAgent(answer=echo)
        group, alone = self.source(), replace(self.source(), chat_type=ChatType.DM)
        async with at_work(
            policy_for(agent, privacy_key=KEY, per_user_in_groups=False), *memory()
        ) as work:
            for number, source in enumerate((group, alone)):
                await work.pipeline.receive(self.message("hello", number, source))
                await later()

        assert [turn.shared for turn in agent.turns] == [True, False]

    async def test_one_who_wrote_long_ago_is_hidden_where_he_is_written_about(self) -> None:
        agent = ScriptedAgent(answer=echo)
        policy = policy_for(agent, privacy_key=KEY, per_user_in_groups=False)
        async with at_work(policy, *memory()) as work:
            await work.pipeline.receive(
                self.message("first", 1, self.source(user=CANARIES["other"], alt=""))
            )
            await later()
            fresh = await work.store.reset(policy.key_of(self.source()))
            await work.store.rename(fresh.id, f"Talk of {CANARIES['other']}")
            await work.pipeline.receive(self.message(f"ask {CANARIES['other']}", 2, self.source()))
            await later()

            assert CANARIES["other"] not in repr(agent.turns)

    async def test_pseudonyms_come_back_in_the_transcript_and_in_what_is_sent(self) -> None:
        async def letter_by_letter(turn: Turn) -> AsyncIterator[AgentEvent]:
            for letter in f"{turn.messages[-1].text} by {turn.source.user_id}":
                yield Text(letter)

        agent = ScriptedAgent(answer=letter_by_letter)
        async with at_work(policy_for(agent, privacy_key=KEY), *memory()) as work:
            text = f"call {CANARIES['phone']} or <@{CANARIES['other']}>"
            await work.pipeline.receive(self.message(text, 1, self.source()))
            await later()

            assert CANARIES["phone"] not in repr(agent.turns)
            assert work.adapter.texts == [f"{text} by {CANARIES['user']}"]
            assert (await work.texts(self.source()))[-1] == f"{text} by {CANARIES['user']}"

    async def test_where_nothing_need_be_hidden_the_agent_sees_what_is_there(self) -> None:
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), *memory()) as work:
            await work.pipeline.receive(self.message("hi", 1, self.source()))
            await later()

            assert agent.turns[0].source == self.source()


@hurried
class TestRouting:
    async def test_the_agent_of_the_first_route_that_fits_answers(self) -> None:
        poet, main = ScriptedAgent(Text("verse")), ScriptedAgent(Text("prose"))
        policy = Policy(
            agents={
                "main": ConfiguredAgent(name="main", agent=main),
                "poet": ConfiguredAgent(name="poet", agent=poet, system="Rhyme."),
            },
            routes=[Route(agent="poet", chat="garden"), Route(agent="main", chat="garden")],
        )
        async with at_work(policy, *memory()) as work:
            await work.say("hi", source=at_desk("garden"))
            await work.say("hi", source=at_desk("street"))
            await later()

            assert sorted(work.adapter.texts) == ["prose", "verse"]
            assert [turn.system for turn in poet.turns] == ["Rhyme."]


class Held:
    """An agent that starts to answer, and then waits until it is let go on."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.agent = ScriptedAgent(answer=self._answer)

    async def _answer(self, turn: Turn) -> AsyncIterator[AgentEvent]:
        yield Text("It is ")
        self.begun.set()
        await self.go.wait()
        yield Text(" + ".join(message.text for message in turn.messages))
        yield Done()


class TestCrash:
    """
    Over a real database. Leaving `at_work` cuts everything off in the middle, as a crash does.
    """

    async def open(self, path: Path) -> SqliteStore:
        return await SqliteStore.connect(path / "turngate.db", SystemClock())

    async def test_what_was_accepted_before_a_crash_is_answered_once_after_it(
        self, tmp_path: Path
    ) -> None:
        held, store = Held(), await self.open(tmp_path)
        async with at_work(policy_for(held.agent), store, SystemClock()) as work:
            await work.say("first")
            await held.begun.wait()
            await work.say("second")
            await work.say("elsewhere", source=at_desk("other"))
        await store.close()

        store = await self.open(tmp_path)
        async with at_work(policy_for(ScriptedAgent(answer=echo)), store, SystemClock()) as work:
            await work.pipeline.recover()
            await work.adapter.until_sent(3)

            assert await work.texts() == ["first", "first", "second", "second"]
            assert await work.texts(at_desk("other")) == ["elsewhere", "elsewhere"]
            assert sorted(work.adapter.texts) == ["elsewhere", "first", "second"]
        await store.close()

    async def test_messages_that_were_answered_together_stay_together(self, tmp_path: Path) -> None:
        held, store = Held(), await self.open(tmp_path)
        rules = LaneRules(debounce=timedelta(milliseconds=50))
        async with at_work(policy_for(held.agent), store, SystemClock(), rules=rules) as work:
            await asyncio.gather(work.say("a"), work.say("b"))
            await held.begun.wait()
            await work.say("c")
        await store.close()

        store = await self.open(tmp_path)
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), store, SystemClock()) as work:
            await work.pipeline.recover()
            await work.adapter.until_sent(2)

            assert asked(agent) == [["a", "b"], ["c"]]
            assert await work.texts() == ["a", "b", "a + b", "c", "c"]
        await store.close()

    async def test_a_crash_after_the_answer_was_stored_sends_it_and_asks_nobody_again(
        self, tmp_path: Path
    ) -> None:
        class Gone(RecordingAdapter):
            async def send(self, part: Part) -> Sent:
                async with self.arrived:
                    self.sent.append(part)
                    self.arrived.notify_all()
                await asyncio.Event().wait()
                raise AssertionError

        store = await self.open(tmp_path)
        async with at_work(
            policy_for(ScriptedAgent(answer=echo)), store, SystemClock(), adapter=Gone()
        ) as work:
            await work.say("first")
            await work.adapter.until_sent(1)
        await store.close()

        store = await self.open(tmp_path)
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), store, SystemClock()) as work:
            await work.delivery.recover()
            await work.pipeline.recover()
            await work.adapter.until_sent(1)

            assert work.adapter.texts == ["(possible repeat)\n\nfirst"]
            assert agent.turns == []
            assert await work.texts() == ["first", "first"]
        await store.close()

    async def test_a_retry_that_is_interrupted_in_the_middle_keeps_its_question(
        self, tmp_path: Path
    ) -> None:
        store = await self.open(tmp_path)
        async with at_work(policy_for(ScriptedAgent(answer=echo)), store, SystemClock()) as work:
            await work.say("the question")
            await work.adapter.until_sent(1)
        held = Held()
        async with at_work(policy_for(held.agent), store, SystemClock()) as work:
            await work.say("/retry", id="again")
            await held.begun.wait()
        await store.close()

        store = await self.open(tmp_path)
        agent = ScriptedAgent(answer=echo)
        async with at_work(policy_for(agent), store, SystemClock()) as work:
            await work.pipeline.recover()
            await work.adapter.until_sent(1)

            assert asked(agent) == [["the question"]]
            assert await work.texts() == ["the question", "the question"]
        await store.close()

    async def test_a_command_that_was_not_answered_is_answered_after_the_crash(
        self, tmp_path: Path
    ) -> None:
        store = await self.open(tmp_path)
        policy = policy_for(ScriptedAgent(answer=echo))
        async with at_work(policy, store, SystemClock()) as work:
            await store.accept(work.message("/title Plans"), policy.key_of(at_desk()))
        async with at_work(policy, store, SystemClock()) as work:
            await work.pipeline.recover()
            await work.adapter.until_sent(1)

            assert (await work.session()).title == "Plans"
        await store.close()

    async def test_an_undo_that_was_done_but_not_answered_takes_back_nothing_more(
        self, tmp_path: Path
    ) -> None:
        truncated = asyncio.Event()

        async def never(*args: object, **named: object) -> None:
            truncated.set()
            await asyncio.Event().wait()

        store = await self.open(tmp_path)
        policy = policy_for(ScriptedAgent(answer=echo))
        async with at_work(policy, Odd(store, answer=never), SystemClock()) as work:  # type: ignore[arg-type]
            for count, text in enumerate(("one", "two"), start=1):
                await work.say(text)
                await work.adapter.until_sent(count)
            await work.pipeline.lanes.close()
        async with at_work(policy, Odd(store, answer=never), SystemClock()) as work:  # type: ignore[arg-type]
            await work.say("/undo", id="undo")
            await truncated.wait()
        await store.close()

        store = await self.open(tmp_path)
        async with at_work(policy, store, SystemClock()) as work:
            await work.pipeline.recover()
            await work.adapter.until_sent(1)

            assert (await work.texts())[:2] == ["one", "one"]
            assert "say /undo again" in work.adapter.texts[0]
        await store.close()

    async def test_many_crashes_at_any_moment_leave_every_message_answered_or_given_up_once(
        self, tmp_path: Path
    ) -> None:
        chance, agent = random.Random(4), ScriptedAgent(answer=echo)
        said: list[str] = []
        for life in range(12):
            store = await self.open(tmp_path)
            adapter = RecordingAdapter()
            async with at_work(policy_for(agent), store, SystemClock(), adapter=adapter) as work:
                await work.delivery.recover()
                await work.pipeline.recover()
                for number in range(3):
                    said.append(f"{life}.{number}")
                    await work.say(said[-1], id=said[-1], source=at_desk(f"chat{number}"))
                for _ in range(chance.randrange(400)):
                    await asyncio.sleep(0)
            await store.close()
        store = await self.open(tmp_path)
        async with at_work(policy_for(agent), store, SystemClock()) as work:
            await work.pipeline.recover()
            while await store.inbox(InboxState.WAITING, InboxState.RUNNING):
                await asyncio.sleep(0)
            for number in range(3):
                entries = await work.entries(at_desk(f"chat{number}"))
                questions = [entry.text for entry in entries if entry.role is Role.USER]
                answers = [entry.text for entry in entries if entry.role is Role.ASSISTANT]
                given_up = sum("cut off each time" in answer for answer in answers)
                answered = " + ".join(
                    answer for answer in answers if "cut off each time" not in answer
                ).split(" + ")
                dead = [
                    item
                    for item in await store.inbox(InboxState.DEAD)
                    if item.key.endswith(f"chat{number}")
                ]
                assert questions == [text for text in said if text.endswith(f".{number}")]
                assert sorted([*answered, *(item.message.text for item in dead)]) == sorted(
                    questions
                )
                assert given_up == len({item.turn for item in dead})
        await store.close()
