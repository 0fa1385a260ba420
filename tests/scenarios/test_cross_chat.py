"""What an agent sends to another place than the one it was asked from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.at_work import AtWork, at_work
from tests.fakes import FrozenClock, RecordingAdapter, ScriptedAgent
from tests.oracle_store import MemoryStore
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Send,
    Turn,
)
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.transcript import Origin, Text
from turngate.gateway.rules.authorization import Access, Allowed
from turngate.gateway.rules.context_prompt import HomeChannel
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route
from turngate.gateway.stores.sqlite import SqliteStore

ANN = SessionSource(platform="chatter", chat_id="1", user_id="1")
OPS = SessionSource(platform="chatter", chat_type=ChatType.GROUP, chat_id="ops")
ACCESS = Access(
    allow=(Allowed(platform="chatter", person="1"), Allowed(platform="chatter", chat="ops"))
)


class Locating(RecordingAdapter):
    """Knows that numbers are people."""

    def source_of(self, chat: str, thread: str | None) -> SessionSource:
        if chat.isdecimal():
            return SessionSource(platform="chatter", chat_id=chat, user_id=chat, thread_id=thread)
        return SessionSource(
            platform="chatter", chat_type=ChatType.GROUP, chat_id=chat, thread_id=thread
        )


def sending(*sends: Send, **decisions: object) -> Policy:
    async def answer(turn: Turn) -> AsyncIterator[AgentEvent]:
        for send in sends:
            yield send
        yield Text("Done.")
        yield Done()

    agent = ConfiguredAgent(name="main", agent=ScriptedAgent(answer=answer))
    return Policy(agents={"main": agent}, access=ACCESS, connected=("chatter",), **decisions)  # type: ignore[arg-type]


async def asked(work: AtWork, parts: int = 2) -> list[tuple[str | None, str]]:
    await work.say("tell them", source=ANN)
    await work.adapter.until_sent(parts)
    return [(part.target.chat_id, part.text) for part in work.adapter.sent]


async def test_it_arrives_there_and_stands_in_the_transcript_there() -> None:
    policy, clock = sending(Send(target="chatter:ops", text="Ship it.")), FrozenClock()
    async with at_work(
        policy, MemoryStore(clock), clock, adapter=Locating(platform="chatter")
    ) as work:
        sent = await asked(work)

        assert set(sent) == {("ops", "Ship it."), ("1", "Done.")}
        there = await work.entries(OPS)
        assert [(entry.text, entry.origin) for entry in there] == [("Ship it.", Origin.DELIVERY)]


async def test_where_nobody_may_talk_nothing_is_sent_and_the_person_hears_why() -> None:
    policy, clock = (
        sending(Send(target="chatter:secret", text="x"), Send(target="chatter:99", text="y")),
        FrozenClock(),
    )
    async with at_work(
        policy, MemoryStore(clock), clock, adapter=Locating(platform="chatter")
    ) as work:
        sent = await asked(work, parts=3)

        assert {chat for chat, _ in sent} == {"1"}
        told = " ".join(text for _, text in sent)
        assert "A message to chatter:secret was not sent: permission denied for that chat" in told
        assert "A message to chatter:99 was not sent" in told


async def test_the_home_of_an_account_can_be_written_to() -> None:
    home = HomeChannel(platform="chatter", chat_id="lounge")
    policy, clock = (
        sending(Send(target="chatter", text="Good morning."), homes=(home,)),
        FrozenClock(),
    )
    async with at_work(
        policy, MemoryStore(clock), clock, adapter=Locating(platform="chatter")
    ) as work:
        assert ("lounge", "Good morning.") in await asked(work)


async def test_what_is_no_target_is_told() -> None:
    policy, clock = sending(Send(target="somewhere nice", text="x")), FrozenClock()
    async with at_work(
        policy, MemoryStore(clock), clock, adapter=Locating(platform="chatter")
    ) as work:
        assert any("this is no target" in text for _, text in await asked(work))


async def test_a_turn_that_wrote_to_others_does_not_run_again_after_a_crash(tmp_path: Path) -> None:
    never = asyncio.Event()
    agent = ScriptedAgent(Send(target="chatter:ops", text="once"), never)
    policy = Policy(
        agents={"main": ConfiguredAgent(name="main", agent=agent)},
        access=ACCESS,
        connected=("chatter",),
    )
    async with life(tmp_path, policy) as work:
        await asked(work, parts=1)

    async with life(tmp_path, policy) as work:
        await work.pipeline.recover()
        await work.adapter.until_sent(1)

        assert "I was interrupted while working on this" in work.adapter.texts[0]
        assert len(agent.turns) == 1


@asynccontextmanager
async def life(folder: Path, policy: Policy) -> AsyncIterator[AtWork]:
    store, clock = await SqliteStore.connect(folder / "turngate.db", SystemClock()), SystemClock()
    try:
        async with at_work(policy, store, clock, adapter=Locating(platform="chatter")) as work:
            yield work
    finally:
        await store.close()


async def test_a_chosen_agent_answers_in_this_conversation() -> None:
    poet, main = ScriptedAgent(Text("verse"), Done()), ScriptedAgent(Text("prose"), Done())
    policy, clock = (
        Policy(
            agents={
                "main": ConfiguredAgent(name="main", agent=main),
                "poet": ConfiguredAgent(name="poet", agent=poet),
            },
            routes=[Route(agent="main", choices=("poet",))],
            access=ACCESS,
        ),
        FrozenClock(),
    )
    async with at_work(
        policy, MemoryStore(clock), clock, adapter=RecordingAdapter(platform="chatter")
    ) as work:
        for count, text in enumerate(("/agent", "/agent poe", "/agent poet", "hello"), start=1):
            await work.say(text, source=ANN)
            await work.adapter.until_sent(count)

        listed, meant, chosen, answered = work.adapter.texts
        assert "- `poet`" in listed
        assert "Did you mean `/agent poet`?" in meant
        assert (chosen, answered) == ("`poet` answers in this conversation from now on.", "verse")
        assert main.turns == []


class LocatingElsewhere(Locating):
    def source_of(self, chat: str, thread: str | None) -> SessionSource:
        return replace(super().source_of(chat, thread), platform="elsewhere")


async def test_on_another_platform_an_id_mentions_nobody() -> None:
    """Finding C2: there it is the id of somebody else."""
    home = HomeChannel(platform="elsewhere", chat_id="lounge")
    sends = [Send(target=each, text="Ask <@1>.") for each in ("elsewhere", "chatter:ops")]
    policy, clock = sending(*sends, homes=(home,)), FrozenClock()
    policy = replace(policy, connected=("chatter", "elsewhere"))
    other = LocatingElsewhere(platform="elsewhere")
    async with at_work(
        policy,
        MemoryStore(clock),
        clock,
        adapter=Locating(platform="chatter"),
        others={("elsewhere", "main"): other},
    ) as work:
        assert ("ops", "Ask <@1>.") in await asked(work)
        entries = await work.entries(other.source_of("lounge", None))

    assert [entry.text for entry in entries] == ["Ask <@\u20601>."]
