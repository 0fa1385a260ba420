"""What is said arrives whole: cut to the size its platform takes, or as a file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.at_work import AtWork, at_work, policy_for
from tests.fakes import FrozenClock, RecordingAdapter, ScriptedAgent
from tests.oracle_store import MemoryStore
from turngate.gateway.domain.errors import Unreachable
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import Limits
from turngate.gateway.domain.transcript import Text
from turngate.gateway.outbound.rendering import join
from turngate.gateway.outbound.send_part import ROOM_FOR_MARK
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.stores.session_files import SessionFiles

SMALL = Limits(largest_part=200, measure=len, edit_every=timedelta(seconds=1))
CODE = "```python\n" + "\n".join(f"    value_{n} = {n}" for n in range(40)) + "\n```"


class Filing(RecordingAdapter):
    """Takes files."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []

    async def send_file(self, part: Part) -> Sent:
        assert part.file is not None
        self.files.append(await asyncio.to_thread(Path(part.file.path).read_text))
        return await self.send(part)


async def answered(
    answer: str, adapter: RecordingAdapter, folder: Path, *, most: int = 20
) -> AtWork:
    """An answer of an agent, sent."""
    adapter.limits = SMALL
    clock, files = FrozenClock(), SessionFiles(folder)
    agent = ScriptedAgent(Text(answer))
    async with at_work(
        policy_for(agent), MemoryStore(clock), clock, adapter=adapter, files=files
    ) as work:
        work.pipeline.splitter.most_parts = most
        await work.say("go on")
        await work.adapter.until_sent(1)
        while await work.store.outbox("pending", "sending"):  # type: ignore[arg-type]
            await asyncio.sleep(0)
    return work


async def test_a_long_answer_comes_in_parts_that_fit_and_are_the_answer_together(
    tmp_path: Path,
) -> None:
    work = await answered(f"Here it is:\n\n{CODE}\n\nThat is all.", RecordingAdapter(), tmp_path)

    texts = work.adapter.texts
    assert len(texts) > 3
    assert max(map(len, texts)) <= SMALL.largest_part - ROOM_FOR_MARK
    assert all(text.count("```") % 2 == 0 for text in texts)
    assert join(texts) == f"Here it is:\n\n{CODE}\n\nThat is all."
    assert [part.ordinal for part in work.adapter.sent] == list(range(len(texts)))


async def test_too_many_parts_are_a_file_with_the_whole_text(tmp_path: Path) -> None:
    adapter = Filing()
    await answered(CODE, adapter, tmp_path, most=3)

    first, second = adapter.sent
    assert "All of it is in the file." in first.text
    assert len(first.text) <= SMALL.largest_part
    assert (adapter.files, second.file and second.file.name) == ([CODE], "answer.md")


async def test_where_no_file_can_be_sent_there_are_many_parts(tmp_path: Path) -> None:
    work = await answered(CODE, RecordingAdapter(), tmp_path, most=3)

    assert len(work.adapter.texts) > 3
    assert join(work.adapter.texts) == CODE


async def test_a_repeat_fits_with_its_mark(tmp_path: Path) -> None:
    adapter = RecordingAdapter(Unreachable("no answer"))
    work = await answered("word " * 300, adapter, tmp_path)

    assert work.adapter.texts[0].startswith("(possible repeat)")
    assert max(map(len, work.adapter.texts)) <= SMALL.largest_part


async def test_what_a_command_says_is_cut_too(tmp_path: Path) -> None:
    adapter, clock = RecordingAdapter(), FrozenClock()
    adapter.limits = SMALL
    async with at_work(
        policy_for(ScriptedAgent()), MemoryStore(clock), clock, adapter=adapter
    ) as work:
        await work.say("/help")
        await adapter.until_sent(3)

    assert max(map(len, adapter.texts)) <= SMALL.largest_part


@pytest.mark.parametrize("text", ["x", "ends with blanks   ", "😀" * 90])
async def test_what_fits_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    work = await answered(text, RecordingAdapter(), tmp_path)

    assert work.adapter.texts == [text.strip()]


async def test_a_preview_becomes_the_first_part_and_buttons_stand_under_the_last() -> None:
    adapter, clock = RecordingAdapter(), FrozenClock()
    adapter.limits = SMALL
    async with at_work(
        policy_for(ScriptedAgent()), MemoryStore(clock), clock, adapter=adapter
    ) as work:
        splitter: Splitter = work.pipeline.splitter
        target = work.message("?").source
        part = Part(target=target, text="word " * 100, edits="b1", buttons=({"n": 1},))  # type: ignore[arg-type]
        first, *between, last = await splitter.parts((part,), "s")  # type: ignore[arg-type]

    assert (first.edits, bool(first.buttons)) == ("b1", False)
    assert (last.edits, bool(last.buttons)) == (None, True)
    assert all(each.edits is None and not each.buttons for each in between)


async def test_an_answer_that_cannot_be_kept_as_a_file_comes_as_messages_all_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "files").write_text("no folder can be made here")
    work = await answered(CODE, Filing(), tmp_path / "files" / "here", most=2)

    assert len(work.adapter.texts) > 2
    assert "value_39 = 39" in work.adapter.texts[-1]


async def test_an_adapter_that_cannot_measure_costs_no_answer(tmp_path: Path) -> None:
    def broken(text: str) -> int:
        raise RuntimeError("a bug")

    clock, adapter = FrozenClock(), RecordingAdapter()
    adapter.limits = replace(SMALL, measure=broken)
    agent = ScriptedAgent(Text("Paid."))
    async with at_work(
        policy_for(agent), MemoryStore(clock), clock, adapter=adapter, files=SessionFiles(tmp_path)
    ) as work:
        await work.say("pay the bill")
        await adapter.until_sent(1)

        assert adapter.texts == ["Paid."]
        assert (await work.texts())[-1] == "Paid."
