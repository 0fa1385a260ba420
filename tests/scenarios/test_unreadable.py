"""
Events that no adapter could convert: kept, counted, retried after an upgrade (findings H2, R3).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.at_work import AtWork, at_desk, at_work, numbers, policy_for
from tests.fakes import NOON, FrozenClock, RecordingAdapter, ScriptedAgent, dm, message
from tests.oracle_store import MemoryStore
from turngate.gateway.domain.agent_events import Done
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    InboxState,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.authorization import Access, Allowed, Refusal

ALLOWED = SessionSource(
    platform="chatty", chat_type=ChatType.GROUP, chat_id="1", user_id="7", scope=None
)
ACCESS = Access(
    allow=(Allowed(platform="chatty", chat="1"), Allowed(platform="chatty", person="7"))
)


class Upgraded(RecordingAdapter):
    """Reads again what it is told to read."""

    def __init__(self, read: InboundMessage | Exception | None) -> None:
        super().__init__(platform="chatty")
        self.read = read

    async def read_again(self, raw: str) -> InboundMessage | None:
        assert raw == '{"new": 1}'
        if isinstance(self.read, Exception):
            raise self.read
        return self.read


def event(source: SessionSource = ALLOWED) -> InboundMessage:
    return InboundMessage(
        id="7",
        event_ids=("update:7",),
        source=source,
        sent_at=NOON,
        kind=MessageKind.UNREADABLE,
        raw='{"new": 1}',
    )


def working(adapter: RecordingAdapter) -> object:
    policy = policy_for(ScriptedAgent(Text("An answer."), Done()), access=ACCESS)
    others = {("chatty", "main"): adapter}
    return at_work(policy, MemoryStore(FrozenClock()), FrozenClock(), others=others)  # type: ignore[arg-type]


async def dead(work: AtWork) -> list[str]:
    return [item.reason or "" for item in await work.store.inbox(InboxState.DEAD)]


async def test_an_event_of_an_allowed_chat_is_set_aside_and_counted() -> None:
    async with working(Upgraded(None)) as work:  # type: ignore[attr-defined]
        await work.pipeline.receive(event())
        await work.pipeline.receive(event())

        assert await dead(work) == ["this version cannot read it"]
        counted = numbers(work.observer).decode()
    assert 'turngate_messages_total{outcome="unreadable",platform="chatty"} 1.0' in counted


async def test_of_a_chat_that_is_not_allowed_nothing_is_kept() -> None:
    async with working(Upgraded(None)) as work:  # type: ignore[attr-defined]
        await work.pipeline.receive(event(replace(ALLOWED, chat_id="2")))
        await work.pipeline.receive(event(dm("8", platform="chatty")))

        assert await dead(work) == []
        rows = await work.store.inbox(*InboxState)
    assert {row.message.raw for row in rows} == {None}


async def test_an_event_of_an_unknown_source_is_kept_up_to_a_limit() -> None:
    nobody = SessionSource(platform="chatty", chat_type=ChatType.GROUP)
    async with working(Upgraded(None)) as work:  # type: ignore[attr-defined]
        for number in range(100):
            await work.pipeline.receive(replace(event(nobody), event_ids=(f"update:{number}",)))

        assert len(await dead(work)) == 60


async def test_a_retry_takes_the_message_in() -> None:
    read = message("hello", id="7", source=dm("7", platform="chatty"))
    adapter = Upgraded(read)
    async with working(adapter) as work:  # type: ignore[attr-defined]
        await work.pipeline.receive(event())
        (item,) = await work.store.inbox(InboxState.DEAD)
        await work.pipeline.read_again(item)
        await adapter.until_sent(1)
        await asyncio.sleep(0)

        assert adapter.texts == ["An answer."]
        assert (await work.store.trace(item.id)).item.state is InboxState.DONE


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (message(id="7", source=dm("8", platform="chatty")), Refusal.UNPAIRED.value),
        (replace(message(id="7"), source=replace(ALLOWED, chat_id="2")), Refusal.CHAT.value),
        (None, "there is nothing in it for the bot"),
    ],
)
async def test_what_a_retry_finds_is_admitted_like_any_message(
    read: InboundMessage | None, reason: str
) -> None:
    async with working(Upgraded(read)) as work:  # type: ignore[attr-defined]
        await work.pipeline.receive(event())
        (item,) = await work.store.inbox(InboxState.DEAD)
        await work.pipeline.read_again(item)

        after = (await work.store.trace(item.id)).item
    assert (after.state, after.reason) == (InboxState.REFUSED, reason)


@pytest.mark.parametrize("read", [ValueError("no such type"), KeyError("x"), event()])
async def test_what_still_cannot_be_read_stays(read: InboundMessage | Exception) -> None:
    async with working(Upgraded(read)) as work:  # type: ignore[attr-defined]
        await work.pipeline.receive(event())
        (item,) = await work.store.inbox(InboxState.DEAD)
        with pytest.raises(Refused, match="it still cannot be read"):
            await work.pipeline.read_again(item)

        assert len(await dead(work)) == 1


async def test_an_account_that_cannot_read_again_says_so() -> None:
    async with working(RecordingAdapter(platform="chatty")) as work:  # type: ignore[attr-defined]
        await work.pipeline.receive(event())
        (item,) = await work.store.inbox(InboxState.DEAD)
        with pytest.raises(Refused, match="chatty/main cannot read it again"):
            await work.pipeline.read_again(item)


@pytest.mark.parametrize("wrong", [{"text": 5}, {"id": ["5"]}, {"addressed_to_bot": "yes"}])
async def test_a_message_with_a_value_of_the_wrong_type_is_set_aside(
    wrong: dict[str, object],
) -> None:
    """Finding R6."""
    async with working(RecordingAdapter()) as work:  # type: ignore[attr-defined]
        await work.pipeline.receive(replace(work.message("hello"), **wrong))

        assert await dead(work) == ["a value in it has the wrong type"]
        await work.say("and this is answered", source=at_desk("other"))
        await work.adapter.until_sent(1)
