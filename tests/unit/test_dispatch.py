"""
Commands and messages that are one too many, each answered without a turn, whatever the
disk does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.at_work import at_desk, policy_for
from tests.fakes import ScriptedAgent, assistant, message, no_quarantine
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from turngate.gateway.commands import COMMANDS
from turngate.gateway.commands.dispatch import CommandDispatch, StoredCommand
from turngate.gateway.commands.registry import Call, Retry
from turngate.gateway.domain.errors import AlreadySettled, StoreUnavailable
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import Claim, Outcome
from turngate.gateway.domain.transcript import Origin, Role
from turngate.gateway.inbound.pairing import Pairing
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.rules.outcomes import TOO_MANY, asked
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.stores.waiting_store import WaitingStore
from turngate.gateway.turns.batch import ActiveBatch, QueuedMessage
from turngate.gateway.turns.billing import Billing
from turngate.gateway.turns.compaction import Compaction
from turngate.gateway.turns.lanes import LaneRules, Lanes
from turngate.gateway.turns.recorder import TurnRecorder


class Odd:
    """A store of which one verb is done differently."""

    def __init__(self, store: Store, **verbs: object) -> None:
        self._store = store
        self._verbs = verbs

    def __getattr__(self, name: str) -> object:
        return self._verbs.get(name) or getattr(self._store, name)


def failing(verb: Callable[..., object], times: int) -> Callable[..., object]:
    """The verb of a store that is unavailable for a while."""
    left = [times]

    async def tried(*args: object, **named: object) -> object:
        if left[0] > 0:
            left[0] -= 1
            raise StoreUnavailable("the disk is full")
        return await verb(*args, **named)  # type: ignore[misc]

    return tried


class Counter:
    """Commands and turns with their lanes, and short ways to run them."""

    def __init__(self, store: Store, clock: LoopClock, tasks: asyncio.TaskGroup) -> None:
        self.policy: Policy = policy_for(ScriptedAgent())
        self.key = self.policy.key_of(at_desk())
        self.store = store
        store = WaitingStore(store, Observer())
        self.lanes = Lanes(LaneRules(), self._work, no_quarantine(tasks), tasks)
        accounts = ConnectedAccounts()
        observer = Observer()
        splitter = Splitter(
            accounts=accounts, files=SessionFiles(Path("no-files-here")), observer=observer
        )
        billing = Billing(self.policy, store, observer, clock)
        compaction = Compaction(self.policy, store, observer, clock, billing, tasks)
        self.recorder = TurnRecorder(
            policy=self.policy,
            store=store,
            billing=billing,
            compaction=compaction,
        )
        self.dispatch = CommandDispatch(
            policy=self.policy,
            store=store,
            observer=observer,
            clock=clock,
            lanes=self.lanes,
            pairing=Pairing(store, b""),
            splitter=splitter,
            standing=billing.standing,
            compact=compaction.on_request,
        )
        self.stopped = 0

    async def _work(self, key: SessionKey, running: ActiveBatch) -> None:
        """A turn that runs until it is stopped."""
        stop = asyncio.Event()
        running.stoppable(stop.set)
        await stop.wait()
        self.stopped += 1

    async def stored(
        self,
        text: str,
        *,
        id: str = "m1",  # noqa: A002
        first: bool | None = None,  # noqa: A002, RUF100
    ) -> QueuedMessage:
        inbound = message(text, id=id, source=at_desk())
        accepted = await self.store.accept(inbound, self.key)
        surplus = first is not None
        return QueuedMessage(
            id=accepted.id, message=inbound, is_surplus=surplus, is_first_surplus=bool(first)
        )

    async def command(
        self,
        text: str,
        *,
        id: str = "m1",  # noqa: A002
        beside: bool = True,  # noqa: A002, RUF100
    ) -> Retry | tuple[Part, ...]:
        call = COMMANDS.find(text)
        assert isinstance(call, Call)
        queued = await self.stored(text, id=id)
        stored = StoredCommand(
            row=queued.id,
            message=queued.message,
            recovered=queued.recovered,
            is_beside=beside,
            set_stop=lambda stop: None,
        )
        return await self.dispatch.run(self.key, call, stored)

    async def talk(self, question: str = "why", answer: str = "because") -> None:
        """One exchange that is over."""
        inbound = message(question, id=f"talk-{question}", source=at_desk())
        accepted = await self.store.accept(inbound, self.key)
        opening = self.policy.opening(at_desk())
        claim = Claim(inbox=(accepted.id,), opening=opening, entries=(asked(inbound),), history=50)
        await self.store.finish(
            (await self.store.begin(claim)).turn, Outcome(entries=(assistant(answer),))
        )

    async def said(self) -> list[tuple[Role, Origin, str]]:
        session = await self.store.current(self.key)
        assert session is not None
        return [
            (entry.role, entry.origin, entry.text)
            for entry in (await self.store.transcript(session.id)).entries
        ]


@asynccontextmanager
async def counter(**verbs: Callable[[MemoryStore], object]) -> AsyncIterator[Counter]:
    clock = LoopClock()
    store = MemoryStore(clock)
    async with asyncio.TaskGroup() as tasks:
        odd = Odd(store, **{name: make(store) for name, make in verbs.items()})
        yield Counter(odd, clock, tasks)  # type: ignore[arg-type]


@hurried
class TestCommands:
    async def test_one_is_answered_kept_and_done_in_one_go(self) -> None:
        async with counter() as at:
            (part,) = await at.command("/title Plans")  # type: ignore[misc]

            assert (part.text, part.reply_to, part.target) == (
                "This conversation is now called “Plans”.",
                "m1",
                at_desk(),
            )
            assert await at.said() == [
                (Role.USER, Origin.COMMAND, "/title Plans"),
                (Role.ASSISTANT, Origin.COMMAND, "This conversation is now called “Plans”."),
            ]
            assert [item.state for item in await at.store.inbox(*InboxState)] == [InboxState.DONE]

    async def test_the_answer_to_new_stands_in_the_new_conversation(self) -> None:
        async with counter() as at:
            await at.talk()
            (part,) = await at.command("/new")  # type: ignore[misc]

            assert part.text == "A new conversation has begun. /resume brings the last one back."
            assert [text for _, _, text in await at.said()] == ["/new", part.text]

    async def test_one_that_stops_a_turn_waits_until_it_has_stopped(self) -> None:
        async with counter() as at:
            at.lanes.join(at.key).take(await at.stored("runs", id="m0"))
            await later(5)
            (part,) = await at.command("/stop")  # type: ignore[misc]

            assert (part.text, at.stopped) == ("Stopped.", 1)

    async def test_one_that_needs_quiet_is_refused_beside_a_turn(self) -> None:
        async with counter() as at:
            await at.talk()
            (part,) = await at.command("/undo")  # type: ignore[misc]

            assert part.text.startswith("A turn is running or waiting here.")
            assert len(await at.said()) == 4

    async def test_a_question_that_is_asked_again_is_handed_back_and_nothing_is_kept_yet(
        self,
    ) -> None:
        async with counter() as at:
            await at.talk("why")
            again = await at.command("/retry", beside=False)

            assert isinstance(again, Retry)
            assert [entry.text for entry in again.entries] == ["why"]
            assert [text for _, _, text in await at.said()] == ["why", "because"]
            assert [item.message.text for item in await at.store.inbox(InboxState.WAITING)] == [
                "/retry"
            ]

    @pytest.mark.parametrize("verb", ["open", "rename", "answer"])
    async def test_a_disk_that_is_full_for_a_while_delays_the_answer_and_loses_nothing(
        self, verb: str
    ) -> None:
        async with counter(**{verb: lambda store: failing(getattr(store, verb), 4)}) as at:
            (part,) = await at.command("/title Plans")  # type: ignore[misc]

            assert part.text == "This conversation is now called “Plans”."
            assert len(await at.said()) == 2

    async def test_one_that_was_answered_before_is_not_answered_twice(self) -> None:
        async with counter() as at:
            await at.command("/help")
            with pytest.raises(AlreadySettled):
                await at.command("/help")

            assert len(await at.said()) == 2


@hurried
class TestOneTooMany:
    async def test_the_first_is_told_and_the_others_are_not(self) -> None:
        async with counter() as at:
            first = await at.recorder.refuse(
                ActiveBatch([await at.stored("a", id="1", first=True)])
            )
            second = await at.recorder.refuse(
                ActiveBatch([await at.stored("b", id="2", first=False)])
            )

            assert [(part.text, part.reply_to) for part in first] == [(TOO_MANY, "1")]
            assert second == ()

    async def test_many_are_refused_in_one_write(self) -> None:
        async with counter() as at:
            stored = [
                await at.stored("a", id=str(number), first=number == 1) for number in range(4)
            ]
            told = await at.recorder.refuse(ActiveBatch(stored))

            assert [part.reply_to for part in told] == ["1"]
            assert len(await at.store.inbox(InboxState.REFUSED)) == 4

    async def test_it_keeps_its_words_and_is_not_in_the_transcript(self) -> None:
        async with counter() as at:
            await at.recorder.refuse(ActiveBatch([await at.stored("a", first=True)]))

            (item,) = await at.store.inbox(InboxState.REFUSED)
            assert (item.message.text, item.reason) == ("a", "too many messages wait")
            assert await at.said() == []

    @pytest.mark.parametrize("verb", ["open", "refuse"])
    async def test_a_disk_that_is_full_for_a_while_delays_the_notice(self, verb: str) -> None:
        async with counter(**{verb: lambda store: failing(getattr(store, verb), 4)}) as at:
            assert (
                len(await at.recorder.refuse(ActiveBatch([await at.stored("a", first=True)]))) == 1
            )


@hurried
class TestBeginning:
    async def test_a_few_turns_begin_at_a_time_so_that_others_can_end(self) -> None:
        waiting, may_begin = list[object](), asyncio.Event()

        def held_up(store: Store) -> object:
            async def begin(claim: Claim) -> object:
                waiting.append(claim)
                await may_begin.wait()
                return await store.begin(claim)

            return begin

        async with counter(begin=held_up) as at:
            stored = [await at.stored("a", id=str(number)) for number in range(200)]
            begun = [
                asyncio.ensure_future(at.recorder.begin(ActiveBatch([each]), [each.message], None))
                for each in stored
            ]
            await asyncio.sleep(1)
            assert 0 < len(waiting) < 100

            may_begin.set()
            assert len({each.turn for each in await asyncio.gather(*begun)}) == 200
