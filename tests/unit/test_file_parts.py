"""
Files on their way out: through the outbox like every part, as a file where that is possible, else
in words.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from tests.at_work import at_desk
from tests.fakes import NOON, FileAdapter, FrozenClock, RecordingAdapter
from tests.oracle_store import MemoryStore
from tests.talk import opening
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import (
    NotSent,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.ports.adapter import Adapter
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery, DeliveryRules
from turngate.gateway.stores.session_files import SessionFiles

PATIENCE = 20.0


class Finding(FileAdapter):
    """Can tell whether a part has arrived."""

    found: Sent | None = None
    asked = 0

    async def find_sent(self, part: Part, since: datetime) -> Sent | None:
        self.asked += 1
        return self.found


class Editing(FileAdapter):
    """Can change what it sent."""

    async def edit(self, part: Part, message_id: str) -> Sent:
        raise AssertionError("a message cannot become a file")


@dataclass
class Office:
    """A delivery at work, and a file to be sent."""

    delivery: Delivery
    store: MemoryStore
    files: SessionFiles

    async def put_out(
        self, text: str = "", *, state: PartState = PartState.PENDING, edits: str | None = None
    ) -> Part:
        session = (await self.store.open(opening(at_desk()))).session
        file = await self.files.as_file("the content", session.id)
        part = Part(
            target=at_desk(), text=text, file=File(path=file.path, name="a.md"), edits=edits
        )
        (stored,) = await self.store.tell(session.id, entries=(), parts=(part,))
        return await self.store.record_sending(stored.id) if state is PartState.SENDING else stored

    async def settled(self, part: Part) -> Part:
        await self.delivery.deliver([part])
        (found,) = [each for each in await self.store.outbox(*PartState) if each.id == part.id]
        return found


class _Over(Exception):
    pass


@asynccontextmanager
async def office(adapter: Adapter, folder: Path) -> AsyncIterator[Office]:
    clock = FrozenClock()
    store = MemoryStore(clock)
    try:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            accounts = ConnectedAccounts({("web", "main"): adapter})
            delivery = Delivery(DeliveryRules(), accounts, store, clock, Observer(), tasks)
            yield Office(delivery, store, SessionFiles(folder / "files"))
            raise _Over
    except* _Over:
        pass


async def test_a_file_is_sent_with_its_caption_and_its_copy_deleted(tmp_path: Path) -> None:
    adapter = FileAdapter()
    async with office(adapter, tmp_path) as post:
        part = await post.put_out("see here")

        assert (await post.settled(part)).state is PartState.SENT

    assert adapter.files == [("a.md", b"the content")]
    assert adapter.texts == ["see here"]
    assert part.file is not None
    assert not Path(part.file.path).exists()


async def test_the_copy_stays_until_the_part_is_marked_as_sent(tmp_path: Path) -> None:
    class Looking(MemoryStore):
        there: list[bool] = []  # noqa: RUF012 - one test, one store

        async def record_sent(self, part: object, sent: Sent) -> None:
            (waiting,) = [each for each in await self.outbox(PartState.SENDING) if each.file]
            assert waiting.file is not None
            self.there.append(Path(waiting.file.path).exists())
            await super().record_sent(part, sent)  # type: ignore[arg-type]

    async with office(FileAdapter(), tmp_path) as post:
        post.delivery._store = post.store = Looking(FrozenClock())
        await post.settled(await post.put_out())

    assert Looking.there == [True]


async def test_where_no_file_can_be_sent_it_is_told_in_words(tmp_path: Path) -> None:
    adapter = RecordingAdapter()
    async with office(adapter, tmp_path) as post:
        assert (await post.settled(await post.put_out("see here"))).state is PartState.SENT

    assert adapter.texts == [
        "see here\n\n(a file was made here: a.md; this platform cannot show it)"
    ]
    assert adapter.sent[0].file is None


async def test_a_file_never_takes_the_place_of_a_preview(tmp_path: Path) -> None:
    adapter = Editing()
    async with office(adapter, tmp_path) as post:
        await post.settled(await post.put_out(edits="m1"))

    assert len(adapter.files) == 1


async def test_a_copy_that_is_gone_is_a_dead_letter_that_says_so(tmp_path: Path) -> None:
    adapter = FileAdapter()
    async with office(adapter, tmp_path) as post:
        part = await post.put_out()
        assert part.file is not None
        Path(part.file.path).unlink()

        settled = await post.settled(part)

    assert (settled.state, settled.reason) == (PartState.DEAD, "its file is no longer there")
    assert adapter.tried == []


@pytest.mark.parametrize("failure", [Undeliverable("blocked"), NotSent("later")])
async def test_the_copy_of_what_did_not_arrive_stays(tmp_path: Path, failure: Exception) -> None:
    async with office(FileAdapter(failure), tmp_path) as post:
        part = await post.put_out()
        delivering = asyncio.create_task(post.delivery.deliver([part]))
        while not await post.store.outbox(PartState.DEAD, PartState.FAILED):
            await asyncio.sleep(0)
        delivering.cancel()

        assert part.file is not None
        assert Path(part.file.path).exists()


class TestInDoubt:
    async def test_a_file_that_is_found_is_not_sent_again(self, tmp_path: Path) -> None:
        adapter = Finding()
        adapter.found = Sent(message_id="m9", at=NOON)
        async with office(adapter, tmp_path) as post:
            settled = await post.settled(await post.put_out(state=PartState.SENDING))

        assert (settled.state, settled.sent_id) == (PartState.SENT, "m9")
        assert adapter.files == []

    async def test_a_file_that_is_certainly_not_there_is_sent(self, tmp_path: Path) -> None:
        adapter = Finding()
        async with office(adapter, tmp_path) as post:
            await post.settled(await post.put_out(state=PartState.SENDING))

        assert (adapter.asked, adapter.texts) == (1, [""])
        assert len(adapter.files) == 1

    async def test_where_nobody_can_look_the_caption_says_that_it_may_come_twice(
        self, tmp_path: Path
    ) -> None:
        adapter = FileAdapter()
        async with office(adapter, tmp_path) as post:
            await post.settled(await post.put_out(state=PartState.SENDING))
            await post.settled(await post.put_out("see here", state=PartState.SENDING))

        assert adapter.texts == ["(possible repeat)", "(possible repeat)\n\nsee here"]

    async def test_an_answer_that_got_lost_is_looked_for(self, tmp_path: Path) -> None:
        adapter = Finding(Unreachable("no answer"))
        adapter.found = Sent(message_id="m9", at=NOON)
        async with office(adapter, tmp_path) as post:
            part = await post.put_out()
            await post.delivery.deliver([part])
            while not await post.store.outbox(PartState.SENT):
                post.delivery._clock.advance(seconds=1)  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)

        assert len(adapter.tried) == 1
        assert adapter.asked == 1
