"""
Answers on their way to a platform in a process of its own, over a real store: streamed, lost,
found, replaced.

Time is real here, and nothing depends on how much of it passes: each step waits for what it needs
to see.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.at_work import AtWork, at_work, policy_for
from tests.fakes import ScriptedAgent
from tests.simulators.running import PATIENCE, Remote, as_process
from tests.simulators.scripted_adapter import (
    PLATFORM,
    EditingAdapter,
    FindingAdapter,
    ScriptedAdapter,
)
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import Done
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.authorization import Access, Allowed
from turngate.gateway.stores.sqlite import SqliteStore

ANN = Access(allow=(Allowed(platform=PLATFORM, person="ann"),))


@pytest.fixture
async def platform() -> AsyncIterator[Remote]:
    async with as_process("tests.simulators.scripted") as remote:
        yield remote
        assert await remote.violations() == []


async def say_hi(platform: Remote) -> None:
    await platform.say("hi", chat="ann", user="ann")


async def history(platform: Remote) -> list[str]:
    """Everything that the first message ever said."""
    first = (await platform.messages())[0]
    return [*first["edits"], first["text"]]


@asynccontextmanager
async def daemon(folder: Path, agent: Agent, adapter: ScriptedAdapter) -> AsyncIterator[AtWork]:
    """One run of the gateway, cut off when the block is left."""
    clock = SystemClock()
    store = await SqliteStore.connect(folder / "state.db", clock)
    try:
        async with at_work(policy_for(agent, access=ANN), store, clock, adapter=adapter) as work:
            await work.delivery.recover()
            await work.pipeline.recover()
            work.tasks.create_task(adapter.run(work.pipeline.receive))
            yield work
    finally:
        await adapter.close()
        await store.close()


async def until_settled(work: AtWork) -> None:
    """Wait until nothing is on its way."""
    open_parts = [state for state in PartState if state not in (PartState.SENT, PartState.DEAD)]
    async with asyncio.timeout(PATIENCE):
        while await work.store.inbox(
            InboxState.WAITING, InboxState.RUNNING
        ) or await work.store.outbox(*open_parts):
            await asyncio.sleep(0.01)


async def test_a_streamed_answer_ends_as_one_message_without_a_mark(
    platform: Remote, tmp_path: Path
) -> None:
    goes_on, ends = asyncio.Event(), asyncio.Event()
    agent = ScriptedAgent(Text("Hello "), goes_on, Text("Ann "), ends, Text("Lee."), Done())
    async with daemon(tmp_path, agent, EditingAdapter(platform.url)) as work:
        await say_hi(platform)
        await platform.until_shown("Hello …")
        goes_on.set()
        await platform.until_shown("Hello Ann …")
        ends.set()
        await until_settled(work)

        assert await platform.texts() == ["Hello Ann Lee."]
        assert await history(platform) == ["Hello …", "Hello Ann …", "Hello Ann Lee."]


async def test_a_send_whose_answer_was_lost_is_found_and_not_repeated(
    platform: Remote, tmp_path: Path
) -> None:
    await platform.fault("lost answer", method="send")
    async with daemon(
        tmp_path, ScriptedAgent(Text("Hello."), Done()), FindingAdapter(platform.url)
    ) as work:
        await say_hi(platform)
        await platform.until_shown("Hello.")
        await until_settled(work)

        assert await platform.texts() == ["Hello."]
        assert len(await platform.calls(method="sent")) == 1
        assert [part.sent_id for part in await work.store.outbox(PartState.SENT)] == ["b1"]


async def test_a_send_that_a_reset_swallowed_is_looked_for_and_made_again(
    platform: Remote, tmp_path: Path
) -> None:
    await platform.fault("reset", method="send")
    async with daemon(
        tmp_path, ScriptedAgent(Text("Hello."), Done()), FindingAdapter(platform.url)
    ) as work:
        await say_hi(platform)
        await platform.until_shown("Hello.")
        await until_settled(work)

        assert await platform.texts() == ["Hello."]


async def test_where_nobody_can_look_the_repeat_says_so(platform: Remote, tmp_path: Path) -> None:
    await platform.fault("lost answer", method="send")
    async with daemon(
        tmp_path, ScriptedAgent(Text("Hello."), Done()), ScriptedAdapter(platform.url)
    ) as work:
        await say_hi(platform)
        await platform.until_shown("Hello.", "(possible repeat)\n\nHello.")
        await until_settled(work)


@pytest.mark.parametrize("fault", ["500", "429"])
async def test_what_was_refused_before_the_effect_is_repeated_without_a_word(
    platform: Remote, tmp_path: Path, fault: str
) -> None:
    await platform.fault(fault, method="send", retry_after=0.1)
    async with daemon(
        tmp_path, ScriptedAgent(Text("Hello."), Done()), ScriptedAdapter(platform.url)
    ) as work:
        await say_hi(platform)
        await platform.until_shown("Hello.")
        await until_settled(work)

        assert await platform.texts() == ["Hello."]


@pytest.mark.parametrize("fault", ["lost answer", "reset", "500", "429"])
async def test_whatever_happens_to_the_last_edit_the_answer_is_one_message(
    platform: Remote, tmp_path: Path, fault: str
) -> None:
    ends = asyncio.Event()
    agent = ScriptedAgent(Text("Hello "), ends, Text("Ann."), Done())
    async with daemon(tmp_path, agent, EditingAdapter(platform.url)) as work:
        await say_hi(platform)
        await platform.until_shown("Hello …")
        await platform.fault(fault, method="edit", retry_after=0.1)
        ends.set()
        await until_settled(work)

        assert await platform.texts() == ["Hello Ann."]


async def test_after_a_kill_in_the_middle_the_answer_replaces_the_preview(
    platform: Remote, tmp_path: Path
) -> None:
    goes_on, never = asyncio.Event(), asyncio.Event()
    agent = ScriptedAgent(Text("Hello "), goes_on, Text("Ann "), never)
    async with daemon(tmp_path, agent, EditingAdapter(platform.url)):
        await say_hi(platform)
        await platform.until_shown("Hello …")
        goes_on.set()
        await platform.until_shown("Hello Ann …")  # it is edited only when it is on disk
    goes_on = asyncio.Event()
    agent = ScriptedAgent(Text("Good "), goes_on, Text("morning."), Done())
    async with daemon(tmp_path, agent, EditingAdapter(platform.url)) as work:
        await platform.until_shown("Good …")
        goes_on.set()
        await until_settled(work)

        assert await platform.texts() == ["Good morning."]
        assert len(agent.turns) == 1


async def test_an_answer_that_was_on_its_way_in_a_kill_replaces_the_preview_too(
    platform: Remote, tmp_path: Path
) -> None:
    class Dying(EditingAdapter):
        """The process ends with the last edit."""

        async def edit(self, part: Part, message_id: str) -> Sent:
            sent = await super().edit(part, message_id)
            if part.id:
                await asyncio.Event().wait()
            return sent

    ends = asyncio.Event()
    agent = ScriptedAgent(Text("Hello "), ends, Text("Ann."), Done())
    async with daemon(tmp_path, agent, Dying(platform.url)):
        await say_hi(platform)
        await platform.until_shown("Hello …")
        ends.set()
        await platform.until_shown("Hello Ann.")
    async with daemon(tmp_path, ScriptedAgent(), EditingAdapter(platform.url)) as work:
        await until_settled(work)

        assert await platform.texts() == ["Hello Ann."]
