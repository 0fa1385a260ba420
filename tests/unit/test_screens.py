"""
Screens: what a late one is shown, what a slow one is told, and that nothing is kept for nobody.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes import NOON, FrozenClock
from tests.hurry import hurried, later
from turngate.adapters.screens import Screens, Watch
from turngate.gateway.domain.agent_events import (
    Done,
    Tool,
    ToolStatus,
)
from turngate.gateway.domain.errors import StoreUnavailable, Unreachable
from turngate.gateway.domain.ids import PartId, TurnId
from turngate.gateway.domain.live_view import (
    Arrived,
    Began,
    FellBehind,
    Happened,
    Settled,
    Shown,
)
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.adapter import FindsSent, FollowsTurns
from turngate.gateway.domain.transcript import Text

HERE = SessionSource.browser("desk")
TURN = TurnId(7)


def screens() -> Screens:
    return Screens("web", SessionSource.browser, FrozenClock())


async def shown(watch: Watch) -> list[Shown]:
    """Everything that waits to be shown."""
    events: list[Shown] = []
    while True:
        try:
            async with asyncio.timeout(1):
                events.append(await watch.next())
        except TimeoutError:
            return events


def tool(status: ToolStatus, output: str | None = None) -> Tool:
    return Tool(id="t1", name="search", status=status, output=output)


def happened(event: Text | Tool | Done) -> Happened:
    return Happened(turn=TURN, event=event)


@hurried
class TestWatching:
    async def test_a_screen_is_shown_a_turn_from_beginning_to_end(self) -> None:
        web = screens()
        part = Part(target=HERE, text="Hello", id=PartId(3), turn=TURN)
        with web.watch("desk") as watch:
            web.turn_began(HERE, TURN, ["m1"])
            web.turn_event(HERE, TURN, Text("Hel"))
            web.turn_event(HERE, TURN, Text("lo"))
            await web.send(part)
            web.settled(HERE, ["m1"])

            assert watch.live is None
            assert await shown(watch) == [
                Began(turn=TURN, messages=("m1",)),
                happened(Text("Hel")),
                happened(Text("lo")),
                Arrived(part=part),
                Settled(messages=("m1",)),
            ]

    async def test_a_late_screen_gets_the_turn_as_it_stands_and_then_exactly_what_comes_since(
        self,
    ) -> None:
        web = screens()
        web.turn_began(HERE, TURN, ["m1"])
        web.turn_event(HERE, TURN, Text("Let me "))
        web.turn_event(HERE, TURN, tool(ToolStatus.STARTED))
        web.turn_event(HERE, TURN, Text("see"))
        with web.watch("desk") as watch:
            web.turn_event(HERE, TURN, tool(ToolStatus.DONE, "found"))
            web.turn_event(HERE, TURN, Text(" it."))

            assert watch.live is not None
            assert (watch.live.turn, watch.live.messages) == (TURN, ("m1",))
            assert watch.live.text == "Let me see"
            assert list(watch.live.tools.values()) == [tool(ToolStatus.STARTED)]
            assert await shown(watch) == [
                happened(tool(ToolStatus.DONE, "found")),
                happened(Text(" it.")),
            ]

    async def test_at_whatever_moment_a_screen_opens_it_shows_the_whole_text_once(self) -> None:
        pieces = [f"{number} " for number in range(20)]
        for moment in range(len(pieces) + 1):
            web = screens()
            web.turn_began(HERE, TURN, ["m1"])
            for piece in pieces[:moment]:
                web.turn_event(HERE, TURN, Text(piece))
            with web.watch("desk") as watch:
                for piece in pieces[moment:]:
                    web.turn_event(HERE, TURN, Text(piece))
                since = [event.event for event in await shown(watch) if isinstance(event, Happened)]
                live = watch.live.text if watch.live else ""

            assert live + "".join(
                event.text for event in since if isinstance(event, Text)
            ) == "".join(pieces)

    async def test_a_screen_that_opens_after_the_turn_has_nothing_running(self) -> None:
        web = screens()
        web.turn_began(HERE, TURN, ["m1", "m2"])
        web.settled(HERE, ["m1", "m2"])

        with web.watch("desk") as watch:
            assert watch.live is None

    async def test_a_command_that_is_answered_meanwhile_does_not_end_the_turn(self) -> None:
        web = screens()
        web.turn_began(HERE, TURN, ["m1"])
        web.settled(HERE, ["m2"])

        with web.watch("desk") as watch:
            assert watch.live is not None

    async def test_all_screens_of_a_conversation_see_the_same_and_others_nothing(self) -> None:
        web = screens()
        with web.watch("desk") as one, web.watch("desk") as two, web.watch("other") as other:
            web.turn_began(HERE, TURN, ["m1"])

            assert await shown(one) == await shown(two) == [Began(turn=TURN, messages=("m1",))]
            assert await shown(other) == []

    async def test_nothing_is_kept_when_nobody_watches_and_nothing_runs(self) -> None:
        web = screens()
        for number in range(100):
            with web.watch(f"{number}"), web.watch(f"{number}"):
                web.turn_began(SessionSource.browser(f"{number}"), TURN, ["m1"])
                web.settled(SessionSource.browser(f"{number}"), ["m1"])

        assert not web._live
        assert not web._watches


@hurried
class TestFallingBehind:
    async def test_a_slow_screen_is_told_once_and_keeps_no_more(self) -> None:
        web = screens()
        with web.watch("desk") as watch:
            for number in range(50_000):
                web.turn_event(HERE, TURN, Text(f"{number}"))

            events = await shown(watch)
            assert len(events) <= 1001
            assert events.count(FellBehind()) == 1
            assert events[-1] == FellBehind()

    async def test_it_is_told_once_also_if_it_reads_a_little_now_and_then(self) -> None:
        web = screens()
        with web.watch("desk") as watch:
            events: list[Shown] = []
            for number in range(5000):
                web.turn_event(HERE, TURN, Text(f"{number}"))
                if number % 2 and FellBehind() not in events[-1:]:
                    events.append(await watch.next())
            events += await shown(watch)

            assert events.count(FellBehind()) == 1
            assert events[-1] == FellBehind()
            assert events[:-1] == [happened(Text(f"{number}")) for number in range(len(events) - 1)]

    async def test_a_slow_screen_takes_nothing_from_a_quick_one(self) -> None:
        web = screens()
        with web.watch("desk"), web.watch("desk") as quick:
            for number in range(5000):
                web.turn_event(HERE, TURN, Text(f"{number}"))
                assert await quick.next() == happened(Text(f"{number}"))


@hurried
class TestSaying:
    async def test_what_is_typed_is_received_with_an_id_that_is_its_own_in_the_conversation(
        self,
    ) -> None:
        web, received = screens(), []

        async def receive(message: InboundMessage) -> None:
            received.append(message)

        running = asyncio.ensure_future(web.run(receive))
        await later(1)
        await web.say("desk", "m1", "hello")
        await web.say("other", "m1", "hello")
        running.cancel()

        first, second = received
        assert (first.id, first.text, first.source, first.sent_at) == ("m1", "hello", HERE, NOON)
        assert not set(first.event_ids) & set(second.event_ids)

    async def test_before_and_after_nobody_listens(self) -> None:
        async def receive(message: InboundMessage) -> None: ...

        web = screens()
        with pytest.raises(Unreachable):
            await web.say("desk", "m1", "hello")
        running = asyncio.ensure_future(web.run(receive))
        await later(1)
        running.cancel()
        await later(1)
        with pytest.raises(Unreachable):
            await web.say("desk", "m1", "hello")

    async def test_what_could_not_be_stored_is_heard_of(self) -> None:
        async def receive(message: InboundMessage) -> None:
            raise StoreUnavailable("full")

        web = screens()
        running = asyncio.ensure_future(web.run(receive))
        await later(1)
        with pytest.raises(StoreUnavailable):
            await web.say("desk", "m1", "hello")
        running.cancel()


@hurried
class TestSending:
    async def test_a_part_arrives_whoever_is_there(self) -> None:
        part = Part(target=HERE, text="Hello", id=PartId(3))

        assert (await screens().send(part)).message_id == "3"

    async def test_a_part_in_doubt_has_arrived_because_the_transcript_has_it(self) -> None:
        web, part = screens(), Part(target=HERE, text="Hello", id=PartId(3))

        assert isinstance(web, FindsSent)
        assert isinstance(web, FollowsTurns)
        assert await web.find_sent(part, NOON) == await web.send(part)
