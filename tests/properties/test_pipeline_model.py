"""
What people must see, whatever happens in between: a simple model against store and pipeline.

People write; platforms repeat and reorder; the daemon crashes at any step and starts again; the
clock jumps; sends fail in every way. In the end every message was answered once, or its chat was
told that it was given up.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.fakes import NOON, RecordingAdapter, ScriptedAgent
from tests.full_length import examples
from tests.hurry import HurriedLoop, LoopClock
from tests.oracle_store import MemoryStore
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
)
from turngate.gateway.domain.errors import (
    NotSent,
    Throttled,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import InboundMessage, InboxState
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.outcomes import TOO_MANY

T = TypeVar("T")

CHATS = 3
GIVEN_UP = "cut off each time"
FAULTS = ("none", "lost answer", "not sent", "throttled", "refused")


class Platform(RecordingAdapter):
    """Remembers across restarts what arrived, under the id of its part, and can be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.arrived_parts: dict[int, Part] = {}
        self.deliveries: Counter[int] = Counter()

    async def send(self, part: Part) -> Sent:
        """By the next fault."""
        match self.faults.pop(0) if self.faults else "none":
            case "not sent":
                raise NotSent("nobody there")
            case "throttled":
                raise Throttled("slow down", retry_after=3)
            case "refused":
                raise Undeliverable("blocked")
            case "lost answer":
                self._arrive(part)
                raise Unreachable("no answer")
        self._arrive(part)
        return Sent(message_id=f"p{part.id}", at=NOON)

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        """Whether it is there."""
        return Sent(message_id=f"p{part.id}", at=NOON) if part.id in self.arrived_parts else None

    def _arrive(self, part: Part) -> None:
        self.arrived_parts[part.id] = part
        self.deliveries[part.id] += 1


async def slowly(turn: Turn) -> AsyncGenerator[AgentEvent]:
    """The words of all messages, with pauses in which a crash can come."""
    for message in turn.messages:
        await asyncio.sleep(1)
        yield Text(f"<{message.text}>")
    yield Done()


class Gateway(RuleBasedStateMachine):
    """The steps that the world can take."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner(loop_factory=HurriedLoop)
        self.platform = Platform()
        self.said: list[InboundMessage] = []
        self.stack = AsyncExitStack()
        self.work: AtWork
        self.do(self._open())

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        """On the loop whose time passes at once."""
        return self.runner.run(step)

    async def _open(self) -> None:
        self.clock = LoopClock()
        self.store = MemoryStore(self.clock)
        self.agent = ScriptedAgent(answer=slowly)
        await self._start()

    async def _start(self) -> None:
        self.work = await self.stack.enter_async_context(
            at_work(policy_for(self.agent), self.store, self.clock, adapter=self.platform)
        )
        await self.work.delivery.recover()
        await self.work.pipeline.recover()

    async def _crash(self) -> None:
        await self.stack.aclose()
        self.store.run += 1

    @rule(chat=st.integers(0, CHATS - 1))
    def somebody_writes(self, chat: int) -> None:
        text = f"m{len(self.said)}"
        message = self.work.message(text, source=at_desk(f"chat{chat}"), id=text)
        self.said.append(message)
        self.do(self.work.pipeline.receive(message))

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def the_platform_repeats_itself(self, data: st.DataObject) -> None:
        self.do(self.work.pipeline.receive(data.draw(st.sampled_from(self.said))))

    @rule(count=st.integers(2, 5))
    def several_write_at_once(self, count: int) -> None:
        texts = [f"m{len(self.said) + number}" for number in range(count)]
        burst = [self.work.message(text, source=at_desk("chat0"), id=text) for text in texts]
        self.said += burst

        async def at_once() -> None:
            await asyncio.gather(*(self.work.pipeline.receive(message) for message in burst))

        self.do(at_once())

    @rule(fault=st.sampled_from(FAULTS))
    def a_send_will_fail(self, fault: str) -> None:
        self.platform.faults.append(fault)

    @rule(seconds=st.floats(0, 8))
    def time_passes(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @rule(hours=st.integers(-30, 30))
    def the_clock_jumps(self, hours: int) -> None:
        self.clock.advance(hours=hours)

    @rule()
    def the_daemon_dies_and_is_started_again(self) -> None:
        async def again() -> None:
            await self._crash()
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
        self.platform.faults.clear()
        await asyncio.sleep(7200)
        assert await self.store.inbox(InboxState.WAITING, InboxState.RUNNING) == []
        dead_parts = {part.id for part in await self.store.outbox(PartState.DEAD)}
        arrived = [part.text for _, part in sorted(self.platform.arrived_parts.items())]
        refused = [part.text for part in await self.store.outbox(PartState.DEAD)]
        dead = {item.message.text for item in await self.store.inbox(InboxState.DEAD)}
        surplus = {item.message.text for item in await self.store.inbox(InboxState.REFUSED)}
        for message in self.said:
            answers = sum(f"<{message.text}>" in text for text in (*arrived, *refused))
            assert answers == (0 if message.text in dead | surplus else 1), message.text
        assert all(
            count == 1 for part, count in self.platform.deliveries.items() if part not in dead_parts
        )
        assert bool(dead) == any(GIVEN_UP in text for text in (*arrived, *refused))
        assert bool(surplus) == any(text == TOO_MANY for text in (*arrived, *refused))
        await self._check_order()

    async def _check_order(self) -> None:
        """
        Questions of a chat stand in the transcript as they were stored, and answers follow them.
        """
        for chat in range(CHATS):
            parts = [part for _, part in sorted(self.platform.arrived_parts.items())]
            told = "".join(part.text for part in parts if part.target.chat_id == f"chat{chat}")
            numbers = [int(piece.split(">")[0]) for piece in told.split("<m")[1:]]
            assert numbers == sorted(numbers)


TestGateway = Gateway.TestCase
TestGateway.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
