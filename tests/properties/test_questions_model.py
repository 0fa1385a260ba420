"""
Questions, whatever happens in between: people press, press again, press what is not theirs;
strangers press and write; turns are stopped; sends fail; the clock jumps; the daemon dies.

Each question is answered at most once, and by the person it was put to. In the end nobody waits for
anything, nothing is remembered that can no longer be answered, and all room for turns is free.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.fakes import RecordingAdapter, dm
from tests.full_length import examples
from tests.hurry import HurriedLoop, LoopClock
from tests.oracle_store import MemoryStore
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Done,
    Turn,
)
from turngate.gateway.domain.errors import (
    NotSent,
    Throttled,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.messages import (
    InboundMessage,
    InboxState,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import (
    Does,
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.transcript import Text
from turngate.gateway.turns.lanes import LaneRules

T = TypeVar("T")

CHATS = 3
MINE, FOREIGN = 0, -1
FAULTS = (
    Unreachable("no answer"),
    NotSent("nobody there"),
    Throttled("slow down", retry_after=30),
    Undeliverable("no"),
)


class Platform(RecordingAdapter):
    """Shows buttons, and remembers every question that could be read."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[Part] = []

    async def ask(self, part: Part) -> Sent:
        sent = await self.send(part)
        self.questions.append(part)
        return sent


class Asker:
    """Asks as many questions as the message says, waits for the answers, and repeats them."""

    def __init__(self) -> None:
        self.told: Counter[tuple[int, TurnId, str]] = Counter()
        self.life = 0
        self.options: Counter[str | None] = Counter()
        self._answers: dict[TurnId, asyncio.Queue[str | None]] = {}
        self.heard: list[str] = []

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        text = turn.messages[-1].text
        self.heard.append(text)
        answers = self._answers[turn.id] = asyncio.Queue()
        count = int(text.removeprefix("ask ")) if text.startswith("ask ") else 0
        for number in range(count):
            yield Ask(id=f"q{number}", text=f"{text}?", options=("mine", "foreign"))
        for _ in range(count):
            yield Text(f"{await answers.get()} ")
        yield Done()

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        self.told[self.life, turn, ask] += 1
        self.options[option] += 1
        self._answers[turn].put_nowait(option)


class Questioned(RuleBasedStateMachine):
    """The steps that the world can take."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner(loop_factory=HurriedLoop)
        self.platform = Platform()
        self.agent = Asker()
        self.presses: list[InboundMessage] = []
        self.stack = AsyncExitStack()
        self.count = 0
        self.work: AtWork
        self.do(self._open())

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        """On the loop whose time passes at once."""
        return self.runner.run(step)

    async def _open(self) -> None:
        self.clock = LoopClock()
        self.store = MemoryStore(self.clock)
        await self._start()

    async def _start(self) -> None:
        rules = LaneRules(debounce=timedelta(0), concurrent=2)
        policy = policy_for(self.agent, idle_timeout=timedelta(minutes=10))
        self.work = await self.stack.enter_async_context(
            at_work(policy, self.store, self.clock, adapter=self.platform, rules=rules)
        )
        await self.work.delivery.recover()
        await self.work.pipeline.recover()

    def say(
        self, text: str, source: SessionSource, *, kind: MessageKind = MessageKind.NEW
    ) -> InboundMessage:
        """Returns what was said."""
        self.count += 1
        message = replace(self.work.message(text, source=source, id=f"n{self.count}"), kind=kind)
        self.do(self.work.pipeline.receive(message))
        return message

    @rule(
        chat=st.integers(0, CHATS - 1),
        questions=st.integers(0, 3),
        seconds=st.sampled_from((0.0, 1.0)),
    )
    def somebody_writes(self, chat: int, questions: int, seconds: float) -> None:
        self.say(f"ask {questions}", at_desk(f"chat{chat}"))
        self.do(asyncio.sleep(seconds))

    @rule(
        chat=st.integers(0, CHATS - 1),
        command=st.sampled_from(("/stop", "/new", "/retry", "/undo")),
    )
    def somebody_commands(self, chat: int, command: str) -> None:
        self.say(command, at_desk(f"chat{chat}"))

    @precondition(lambda self: self.platform.questions)
    @rule(data=st.data())
    def somebody_presses(self, data: st.DataObject) -> None:
        part = data.draw(st.sampled_from(self.platform.questions[-3:]))
        self.presses.append(
            self.say(part.buttons[MINE].nonce, part.target, kind=MessageKind.BUTTON)
        )

    @precondition(lambda self: self.presses)
    @rule(data=st.data())
    def the_platform_repeats_a_press(self, data: st.DataObject) -> None:
        self.do(self.work.pipeline.receive(data.draw(st.sampled_from(self.presses))))

    @precondition(lambda self: self.platform.questions)
    @rule(data=st.data())
    def somebody_presses_what_is_not_his(self, data: st.DataObject) -> None:
        part = data.draw(st.sampled_from(self.platform.questions))
        elsewhere = (
            replace(part.target, user_id="mallory"),
            at_desk("another"),
            replace(part.target, account="work"),
        )
        foreign = data.draw(st.sampled_from(elsewhere))
        self.say(part.buttons[FOREIGN].nonce, foreign, kind=MessageKind.BUTTON)

    @precondition(lambda self: self.platform.questions)
    @rule(data=st.data(), kind=st.sampled_from(MessageKind))
    def a_stranger_tries(self, data: st.DataObject, kind: MessageKind) -> None:
        part = data.draw(st.sampled_from(self.platform.questions))
        self.say(part.buttons[FOREIGN].nonce, dm("666"), kind=kind)

    @rule(fault=st.sampled_from(FAULTS))
    def a_send_will_fail(self, fault: BaseException) -> None:
        self.platform.outcomes.append(fault)

    @rule(seconds=st.sampled_from((0.0, 0.1, 1.0, 1.0, 40.0, 700.0, 4000.0)))
    def time_passes(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @rule(minutes=st.sampled_from((-2000, -50, -1, 1, 50, 2000)))
    def the_clock_jumps(self, minutes: int) -> None:
        self.clock.advance(minutes=minutes)

    @rule()
    def the_daemon_dies_and_is_started_again(self) -> None:
        async def again() -> None:
            await self.stack.aclose()
            self.store.run += 1
            self.agent.life += 1
            await self._start()

        self.do(again())

    def teardown(self) -> None:
        if not hasattr(self, "work"):
            return
        try:
            self.do(self._judge())
        finally:
            self.do(self.stack.aclose())
            self.runner.close()

    async def _judge(self) -> None:
        self.platform.outcomes.clear()
        await asyncio.sleep(10 * 3600)
        questions, lanes = self.work.pipeline.questions, self.work.pipeline.lanes
        assert await self.store.inbox(InboxState.WAITING, InboxState.RUNNING) == []
        assert await self.store.outbox(PartState.PENDING, PartState.FAILED) == []
        assert all(count == 1 for count in self.agent.told.values()), self.agent.told
        assert "foreign" not in self.agent.options
        assert not any(len(text) == 32 for text in self.agent.heard)
        assert (questions._waiting, questions._open._by_writer) == ({}, {})
        open_ = {
            asked.part.question.does
            for asked in await self.store.questions()
            if asked.part.question
        }
        assert open_ <= {Does.RERUN}
        assert {
            choice.question for choice in questions._open._by_nonce.values()
        } == questions._open._open.keys()
        assert {part.question.does for part in questions._open._open.values() if part.question} <= {
            Does.RERUN
        }
        assert (lanes._slots._taken, lanes._slots.may_release) == (0, 2)


TestQuestioned = Questioned.TestCase
TestQuestioned.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
