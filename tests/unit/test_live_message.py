"""
A turn shown in its platform's own stream: what was said stays, tools stand beside the words, one
message remains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.fakes import NOON
from tests.hurry import hurried, later
from tests.unit.test_preview import Editing, TypingEditor, now, playing
from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import (
    NotSent,
    Throttled,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import Limits
from turngate.gateway.domain.store_values import LOST_PREVIEW
from turngate.gateway.domain.transcript import Text
from turngate.gateway.outbound.preview_text import PreviewText
from turngate.gateway.rules.outcomes import MAY_STAND_ABOVE

LIMITS = Limits(largest_part=20, measure=len, edit_every=timedelta(seconds=1))


def tool(status: ToolStatus = ToolStatus.STARTED, name: str = "search", id_: str = "t1") -> Tool:
    return Tool(id=id_, name=name, status=status)


class Streaming(Editing):
    """Has streams, where it says so; may fail to begin them and to go on with them."""

    def __init__(
        self, *begins: BaseException | None, grows: tuple[BaseException | None, ...] = ()
    ) -> None:
        super().__init__()
        self.begins, self.grows = list(begins), list(grows)
        self.streamed: list[tuple[float, str]] = []
        self.tools: list[tuple[str, str]] = []
        self.has_streams = True

    def can_stream(self, target: SessionSource) -> bool:
        return self.has_streams

    async def begin(self, part: Part, tools: Sequence[Tool]) -> Sent:
        self._fail(self.begins)
        self._stream(part, tools)
        return Sent(message_id="s1", at=NOON)

    async def grow(self, part: Part, message_id: str, tools: Sequence[Tool]) -> None:
        assert message_id == "s1"
        self._fail(self.grows)
        self._stream(part, tools)

    def _fail(self, outcomes: list[BaseException | None]) -> None:
        outcome = outcomes.pop(0) if outcomes else None
        if outcome is not None:
            raise outcome

    def _stream(self, part: Part, tools: Sequence[Tool]) -> None:
        self.streamed.append((now(), part.text))
        self.tools += [(each.name, each.status.value) for each in tools]


class Finding(Streaming):
    """Can be asked for previews that got lost."""

    def __init__(
        self, *found: str | BaseException | None, begins: tuple[BaseException | None, ...] = ()
    ) -> None:
        super().__init__(*begins)
        self.found = list(found)
        self.looked_for: list[Part] = []

    async def find_preview(self, part: Part) -> Sent | None:
        self.looked_for.append(part)
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, BaseException):
            raise found
        return Sent(message_id=found, at=NOON) if found is not None else None


class WithStatus(TypingEditor):
    """What it shows of its work stays until it is taken away, and is shown in some chats."""

    def __init__(self, *, has_status: bool = True, error: BaseException | None = None) -> None:
        super().__init__()
        self.has_status = has_status
        self.error = error
        self.hidden: list[float] = []

    def has_status_in(self, target: SessionSource) -> bool:
        return self.has_status

    async def hide_typing(self, target: SessionSource) -> None:
        self.hidden.append(now())
        if self.error is not None:
            raise self.error


@hurried
class TestInAStream:
    async def test_it_grows_without_a_mark_and_the_answer_ends_it(self) -> None:
        adapter = Streaming()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            turn.preview.show(Text("lo"))
            await later(2)
            await turn.finish("Hello.", "More.")

        assert [text for _, text in adapter.streamed] == ["Hel", "Hello"]
        assert adapter.messages == {"s1": "Hello.", "b1": "More."}

    async def test_it_keeps_the_platforms_pace(self) -> None:
        adapter = Streaming()
        adapter.limits = replace(adapter.limits, edit_every=timedelta(seconds=3))
        async with playing(adapter) as turn:
            for _ in range(100):
                turn.preview.show(Text("word "))
                await later(0.1)
            await turn.finish("Done.")

        times = [at for at, _ in adapter.streamed]
        assert len(times) > 2
        assert all(second - first > 2.999 for first, second in pairwise(times))

    async def test_tools_are_shown_beside_the_words_each_change_once(self) -> None:
        adapter = Streaming()
        async with playing(adapter) as turn:
            turn.preview.show(tool())
            await later(2)
            turn.preview.show(tool(ToolStatus.DONE))
            turn.preview.show(tool(name="pay", id_="t2"))
            await later(2)
            turn.preview.show(Text("There."))
            turn.preview.show(tool(ToolStatus.FAILED, name="pay", id_="t2"))
            await later(2)
            await turn.finish("There.")

        assert adapter.tools == [
            ("search", "started"),
            ("search", "done"),
            ("pay", "started"),
            ("pay", "failed"),
        ]
        assert adapter.messages == {"s1": "There."}

    async def test_where_there_is_none_a_message_is_edited(self) -> None:
        adapter = Streaming()
        adapter.has_streams = False
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            await turn.finish("Hello.")

        assert (adapter.streamed, adapter.messages) == ([], {"b1": "Hello."})

    async def test_one_that_is_refused_becomes_a_message_that_is_edited(self) -> None:
        adapter = Streaming(Undeliverable("no streams here"))
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            turn.preview.show(Text("lo"))
            await later(2)
            await turn.finish("Hello.")

        assert adapter.shown == ["Hel …", "Hello …", "Hello."]
        assert adapter.messages == {"b1": "Hello."}

    async def test_one_that_ended_too_early_is_edited_from_then_on(self) -> None:
        adapter = Streaming(grows=(Undeliverable("it has ended"),))
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            turn.preview.show(Text("lo"))
            await later(2)
            await turn.finish("Hello.")

        assert adapter.shown == ["Hello …", "Hello."]
        assert adapter.messages == {"s1": "Hello."}

    @pytest.mark.parametrize("trouble", [NotSent("not now"), Throttled("slowly", retry_after=2)])
    async def test_what_did_not_arrive_is_shown_later(self, trouble: BaseException) -> None:
        adapter = Streaming(trouble, grows=(trouble,))
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(10)
            turn.preview.show(Text("lo"))
            await later(10)
            await turn.finish("Hello.")

        assert [text for _, text in adapter.streamed] == ["Hel", "Hello"]

    async def test_one_that_an_earlier_run_began_is_edited(self) -> None:
        """Nobody knows how much of it was shown."""
        adapter = Streaming()
        async with playing(adapter, shown_in="s0") as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            await turn.finish("Hello.")

        assert (adapter.streamed, adapter.messages) == ([], {"s0": "Hello."})

    async def test_one_that_no_answer_replaces_says_so_and_ends(self) -> None:
        adapter = Streaming()
        async with playing(adapter) as turn:
            turn.preview.show(tool())
            await later(1)
            await turn.preview.close()
            turn.delivery.settled(turn.preview.showing.target, ["q1"])

        assert adapter.messages == {"s1": "(There is no answer.)"}


@hurried
class TestThatGotLost:
    async def test_a_beginning_is_looked_for_and_gone_on_with(self) -> None:
        adapter = Finding("s9", begins=(Unreachable("nobody knows"),))
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(10)
            await turn.finish("Hello.")

        assert adapter.messages["s9"] == "Hello."
        assert [(part.reply_to, part.turn) for part in adapter.looked_for] == [
            ("q1", turn.begun.turn)
        ]

    async def test_a_beginning_that_is_certainly_not_there_is_made_again(self) -> None:
        adapter = Finding(None, begins=(Unreachable("nobody knows"),))
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(10)
            await turn.finish("Hello.")

        assert adapter.messages == {"s1": "Hello."}

    async def test_what_an_earlier_run_lost_is_found_and_replaced(self) -> None:
        adapter = Finding("s9")
        async with playing(adapter, shown_in=LOST_PREVIEW) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            await turn.finish("Hello.")

        assert adapter.messages == {"s9": "Hello."}

    async def test_what_an_earlier_run_did_not_send_leaves_no_trace(self) -> None:
        adapter = Finding(None)
        async with playing(adapter, shown_in=LOST_PREVIEW) as turn:
            await later(1)
            await turn.finish("Hello.")

        assert adapter.messages == {"b1": "Hello."}

    async def test_it_is_looked_for_once_more_before_the_answer(self) -> None:
        adapter = Finding(Unreachable("not now"), "s9", begins=(Unreachable("nobody knows"),))
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(10)
            await turn.finish("Hello.")

        assert adapter.messages == {"s9": "Hello."}

    async def test_if_nobody_knows_the_answer_says_so(self) -> None:
        adapter = Finding(Unreachable("not now"))
        async with playing(adapter, shown_in=LOST_PREVIEW) as turn:
            await later(1)
            await turn.finish("Hello.")

        assert adapter.messages == {"b1": MAY_STAND_ABOVE + "Hello."}


@hurried
class TestStatus:
    async def test_it_is_taken_away_once_at_the_end(self) -> None:
        adapter = WithStatus()
        async with playing(adapter) as turn:
            await later(9)
            await turn.finish("Hello.")

        assert len(adapter.typed_at) == 3
        assert len(adapter.hidden) == 1

    async def test_where_it_has_no_place_a_person_is_told_that_it_takes_long(self) -> None:
        adapter = WithStatus(has_status=False)
        async with playing(adapter) as turn:
            await later(60)
            await turn.finish("Hello.")

        assert (adapter.typed_at, adapter.hidden) == ([], [])
        assert adapter.shown == ["Still working on it…", "Hello."]

    async def test_one_that_stays_spoils_nothing(self) -> None:
        adapter = WithStatus(error=RuntimeError("a bug"))
        async with playing(adapter) as turn:
            await later(1)
            await turn.finish("Hello.")

        assert adapter.messages == {"b1": "Hello."}


def test_a_story_never_takes_back_what_it_said() -> None:
    story, states = PreviewText(LIMITS), list[str]()
    for piece in ("  One ", "two", " three", " four", " and far too many more"):
        story.add(Text(piece))
        states.append(story.so_far())

    assert states == ["One", "One two", "One two three", "One two three four", "One two three four"]


def test_a_story_has_a_blank_line_where_a_tool_was_used_and_tells_nothing_of_what_it_was_given() -> (  # noqa: E501
    None
):
    story = PreviewText(LIMITS)
    story.add(Text("Wait."))
    story.add(Tool(id="t", name="pay", status=ToolStatus.STARTED, title="Pay", input='{"card": 1}'))
    story.add(Tool(id="t", name="pay", status=ToolStatus.DONE, output="secret"))
    story.add(Text("Paid."))

    assert story.so_far() == "Wait.\n\nPaid."
    assert story.untold == (Tool(id="t", name="pay", status=ToolStatus.DONE, title="Pay"),)
