"""
More than may wait in one conversation: stored, refused with one notice, listed, and answered when
taken up again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

from tests.at_work import AtWork, at_desk, at_work, policy_for
from tests.fakes import ScriptedAgent
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.daemon.control.queue import queue_requests
from turngate.gateway.daemon.control.requests import carry_out
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
)
from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.domain.ids import InboxId
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.outcomes import TOO_MANY
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.turns.lanes import LaneRules, WhenBusy

AT_MOST_THREE = LaneRules(debounce=timedelta(0), waiting_per_session=3)
FOLLOWING = LaneRules(debounce=timedelta(0), waiting_per_session=3, when_busy=WhenBusy.FOLLOW_UP)
REASON = "too many messages wait"


async def slowly(turn: Turn) -> AsyncIterator[AgentEvent]:
    await asyncio.sleep(20)
    yield Text(" + ".join(message.text for message in turn.messages))
    yield Done()


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


class NoLine:
    async def item(self, value: Json) -> None:
        raise AssertionError(value)

    async def next(self) -> None:
        return None


async def ask(work: AtWork, do: str, **args: Json) -> dict[str, Json]:
    """The operator asks the daemon."""
    pipeline, clock = work.pipeline, work.pipeline.clock
    verbs = queue_requests(
        work.store, clock, pipeline.resume, lambda part: None, pipeline.lanes.remove
    )
    found = await carry_out(verbs, {"do": do, "args": args}, NoLine())
    assert isinstance(found, dict)
    return found


async def states(work: AtWork) -> Counter[InboxState]:
    return Counter(item.state for item in await work.store.inbox(*InboxState))


@hurried
class TestTooMany:
    async def test_what_is_one_too_many_is_kept_and_refused_with_one_notice(self) -> None:
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), *memory(), rules=AT_MOST_THREE
        ) as work:
            await work.say("runs")
            await later(1)
            for number in range(6):
                await work.say(f"{number}")
            await later(1)

            assert work.adapter.texts == [TOO_MANY]
            assert work.adapter.sent[0].reply_to == "m5"
            assert await states(work) == {
                InboxState.RUNNING: 1,
                InboxState.WAITING: 3,
                InboxState.REFUSED: 3,
            }
            await later(1000)
            assert work.adapter.texts == [TOO_MANY, "runs", "0 + 1 + 2"]

    async def test_the_refused_are_listed_with_the_reason_and_their_words(self) -> None:
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), *memory(), rules=AT_MOST_THREE
        ) as work:
            await work.say("runs")
            await later(1)
            for number in range(5):
                await work.say(f"{number}")
            await later(1000)

            listed = await ask(work, "queue.list")
            assert [(row["state"], row["reason"]) for row in listed["inbox"]] == [
                ("refused", REASON)
            ] * 2  # type: ignore[union-attr,index,call-overload]
            shown = await ask(work, "queue.show", id=listed["inbox"][0]["id"])  # type: ignore[index,call-overload]
            assert shown["text"] == "3"

    async def test_each_overflow_has_its_notice(self) -> None:
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), *memory(), rules=AT_MOST_THREE
        ) as work:
            for _ in range(2):
                await work.say("runs")
                await later(1)
                for number in range(6):
                    await work.say(f"{number}")
                await later(1000)

            assert work.adapter.texts.count(TOO_MANY) == 2

    async def test_after_one_turn_there_is_room_for_one_and_a_notice_for_the_next(self) -> None:
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), *memory(), rules=FOLLOWING
        ) as work:
            await work.say("runs")
            await later(1)
            for number in range(5):
                await work.say(f"{number}")
            await later(21)
            await work.say("has room")
            await work.say("has none")
            await later(1000)

            answered = [text for text in work.adapter.texts if text != TOO_MANY]
            assert answered == ["runs", "0", "1", "2", "has room"]
            assert work.adapter.texts.count(TOO_MANY) == 2

    async def test_another_conversation_does_not_notice(self) -> None:
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), *memory(), rules=AT_MOST_THREE
        ) as work:
            await work.say("runs")
            await later(1)
            for number in range(9):
                await work.say(f"{number}")
            await work.say("elsewhere", source=at_desk("other"))
            await later(1000)

            assert "elsewhere" in work.adapter.texts

    async def test_a_command_is_never_one_too_many(self) -> None:
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), *memory(), rules=AT_MOST_THREE
        ) as work:
            await work.say("runs")
            await later(1)
            for number in range(3):
                await work.say(f"{number}")
            await work.say("/stop")
            await later(1)

            assert "Stopped." in work.adapter.texts
            assert TOO_MANY not in work.adapter.texts

    async def test_a_refused_one_is_answered_when_it_is_taken_back_to_work(self) -> None:
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), *memory(), rules=AT_MOST_THREE
        ) as work:
            await work.say("runs")
            await later(1)
            for number in range(4):
                await work.say(f"{number}")
            await later(1000)
            (refused,) = await work.store.inbox(InboxState.REFUSED)

            again = await ask(work, "queue.retry", id=f"in{refused.id}")
            await later(1000)

            assert (again["state"], again["reason"]) == ("waiting", None)
            assert work.adapter.texts[-1] == "3"
            assert await states(work) == {InboxState.DONE: 5}

    async def test_the_agent_never_hears_of_a_refused_one(self) -> None:
        agent = ScriptedAgent(answer=slowly)
        async with at_work(policy_for(agent), *memory(), rules=AT_MOST_THREE) as work:
            await work.say("runs")
            await later(1)
            for number in range(4):
                await work.say(f"{number}")
            await later(1000)
            await work.say("last")
            await later(1000)

            seen = [entry.text for entry in agent.turns[-1].history]
            assert seen == ["runs", "runs", "0", "1", "2", "0 + 1 + 2"]


class TestOverARestart:
    async def test_what_was_not_too_much_before_is_not_too_much_after(self, tmp_path: Path) -> None:
        begun = asyncio.Event()

        async def never(turn: Turn) -> AsyncIterator[AgentEvent]:
            begun.set()
            await asyncio.Event().wait()
            yield Done()

        async def echo(turn: Turn) -> AsyncIterator[AgentEvent]:
            yield Text(" + ".join(message.text for message in turn.messages))

        store = await SqliteStore.connect(tmp_path / "turngate.db", SystemClock())
        burst = LaneRules(debounce=timedelta(milliseconds=50), waiting_per_session=3)
        async with at_work(
            policy_for(ScriptedAgent(answer=never)), store, SystemClock(), rules=burst
        ) as work:
            await asyncio.gather(*(work.say(text) for text in "abc"))
            await begun.wait()
            await asyncio.gather(*(work.say(text) for text in "def"))
        await store.close()

        store = await SqliteStore.connect(tmp_path / "turngate.db", SystemClock())
        async with at_work(
            policy_for(ScriptedAgent(answer=echo)), store, SystemClock(), rules=burst
        ) as work:
            await work.pipeline.recover()
            await work.adapter.until_sent(2)

            assert work.adapter.texts == ["a + b + c", "d + e + f"]
        await store.close()


@hurried
class TestDropping:
    async def test_one_that_waits_with_others_takes_none_of_them_along(self) -> None:
        async with at_work(policy_for(ScriptedAgent(answer=slowly)), *memory()) as work:
            await work.say("runs")
            await later(1)
            for text in "abc":
                await work.say(text)
            _, waiting, *_ = await work.store.inbox(InboxState.WAITING)

            await ask(work, "queue.drop", id=f"in{waiting.id}")
            await later(1000)

            assert work.adapter.texts == ["runs", "a + c"]
            assert await states(work) == {InboxState.DONE: 3, InboxState.REFUSED: 1}

    async def test_one_that_could_not_be_dropped_is_answered(self) -> None:
        async def full(inbox: InboxId, reason: str) -> None:
            raise StoreUnavailable("the disk is full")

        store, clock = memory()
        async with at_work(
            policy_for(ScriptedAgent(answer=slowly)), Odd(store, drop=full), clock
        ) as work:  # type: ignore[arg-type]
            await work.say("runs")
            await later(1)
            await work.say("a")
            (waiting,) = await work.store.inbox(InboxState.WAITING)
            failed = False
            try:
                await ask(work, "queue.drop", id=f"in{waiting.id}")
            except StoreUnavailable:
                failed = True
            await later(1000)

            assert failed
            assert work.adapter.texts == ["runs", "a"]
