"""
A turn shown in a message while it runs: at a polite pace, never in anybody's way, and never the
last word.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.at_work import at_desk
from tests.fakes import NOON, RecordingAdapter, assistant, message
from tests.hurry import LoopClock, hurried, later
from tests.oracle_store import MemoryStore
from tests.talk import begin
from turngate.gateway.domain.agent_events import (
    Done,
    Tool,
    ToolStatus,
)
from turngate.gateway.domain.errors import (
    NotSent,
    Retryable,
    Throttled,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.ports.adapter import (
    Adapter,
    Limits,
    Rate,
)
from turngate.gateway.domain.store_values import (
    LOST_PREVIEW,
    Begun,
    Outcome,
)
from turngate.gateway.domain.transcript import Reasoning, Text
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery, DeliveryRules
from turngate.gateway.outbound.preview import Preview
from turngate.gateway.outbound.preview_text import PreviewLabels
from turngate.gateway.rules.outcomes import MAY_STAND_ABOVE, in_place_of

SECOND = timedelta(seconds=1)


def now() -> float:
    return asyncio.get_running_loop().time()


class Editing(RecordingAdapter):
    """Remembers what each message said, and when; may fail, or take its time."""

    def __init__(
        self,
        *outcomes: BaseException | None,
        edits: tuple[BaseException | None, ...] = (),
        takes: float = 0.0,
    ) -> None:
        super().__init__(*outcomes)
        self.outcomes_of_edits = list(edits)
        self.takes = takes
        self.said: list[tuple[float, str, str]] = []

    async def send(self, part: Part) -> Sent:
        await asyncio.sleep(self.takes)
        await super().send(part)
        return self._says(f"b{len(self.sent)}", part)

    async def edit(self, part: Part, message_id: str) -> Sent:
        await asyncio.sleep(self.takes)
        outcome = self.outcomes_of_edits.pop(0) if self.outcomes_of_edits else None
        if outcome is not None:
            raise outcome
        return self._says(message_id, part)

    def _says(self, message_id: str, part: Part) -> Sent:
        self.said.append((now(), message_id, part.text))
        return Sent(message_id=message_id, at=NOON)

    @property
    def shown(self) -> list[str]:
        return [text for _, _, text in self.said]

    @property
    def messages(self) -> dict[str, str]:
        return {message_id: text for _, message_id, text in self.said}


class TypingOnly(RecordingAdapter):
    """Can show that work goes on, and nothing else."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.error = error
        self.typed_at: list[float] = []

    async def show_typing(self, target: SessionSource) -> None:
        self.typed_at.append(now())
        if self.error is not None:
            raise self.error


class TypingEditor(Editing):
    """Can do both."""

    def __init__(self) -> None:
        super().__init__()
        self.typed_at: list[float] = []

    async def show_typing(self, target: SessionSource) -> None:
        self.typed_at.append(now())


class ShowingScreen(Editing):
    """A screen that could edit, but follows."""

    def turn_began(self, *_: object) -> None: ...

    def turn_event(self, *_: object) -> None: ...

    def settled(self, *_: object) -> None: ...


class _Over(Exception):
    pass


@dataclass
class Playing:
    """A turn that runs."""

    delivery: Delivery
    store: MemoryStore
    tasks: asyncio.TaskGroup
    begun: Begun
    preview: Preview

    async def finish(self, *texts: str) -> None:
        """As the pipeline does."""
        parts = [Part(target=at_desk(), text=text, ordinal=at) for at, text in enumerate(texts)]
        outcome = Outcome(entries=(assistant("!"),), parts=tuple(parts))
        outcome = in_place_of(await self.preview.close(), outcome)
        await self.delivery.deliver(await self.store.finish(self.begun.turn, outcome))
        self.delivery.settled(at_desk(), ["q1"])


class Reacting(RecordingAdapter):
    """Puts signs on messages."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.error = error
        self.signs: list[tuple[str, str]] = []

    async def react(self, target: SessionSource, message_id: str, emoji: str) -> None:
        self.signs.append((message_id, emoji))
        if self.error is not None:
            raise self.error


class Drafting(Editing):
    """Shows drafts too."""

    def __init__(self, *outcomes: BaseException | None) -> None:
        super().__init__()
        self.outcomes_of_drafts = list(outcomes)
        self.drafts: list[tuple[float, str]] = []

    async def show_draft(self, part: Part) -> None:
        outcome = self.outcomes_of_drafts.pop(0) if self.outcomes_of_drafts else None
        if outcome is not None:
            raise outcome
        self.drafts.append((now(), part.text))


@asynccontextmanager
async def playing(
    adapter: Adapter,
    *,
    stream: bool = True,
    drafts: bool = False,
    shown_in: str | None = None,
    reaction: str | None = None,
) -> AsyncIterator[Playing]:
    clock = LoopClock()
    store = MemoryStore(clock)
    try:
        async with asyncio.TaskGroup() as tasks:
            delivery = Delivery(
                DeliveryRules(stream=stream, drafts=drafts, reaction=reaction),
                ConnectedAccounts({("web", "main"): adapter}),
                store,
                clock,
                Observer(),
                tasks,
            )
            begun = await begin(store, message("?", id="q1", source=at_desk()))
            preview = delivery.preview(at_desk(), begun.turn, ["q1"], shown_in=shown_in)
            yield Playing(delivery, store, tasks, begun, preview)
            await later()
            assert not tasks._tasks  # type: ignore[attr-defined]
            raise _Over
    except* _Over:
        pass


def using(name: str) -> Tool:
    return Tool(id="t", name=name, status=ToolStatus.STARTED)


@hurried
class TestInAMessage:
    async def test_the_first_words_are_a_message_and_the_answer_takes_its_place(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            turn.preview.show(Text("lo"))
            await later(2)
            await turn.finish("Hello.", "More.")

        assert adapter.shown == ["Hel …", "Hello …", "Hello.", "More."]
        assert adapter.messages == {"b1": "Hello.", "b2": "More."}

    async def test_it_is_an_answer_to_the_message_that_was_asked(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            await turn.finish("Hello.")

        assert [part.reply_to for part in adapter.sent] == ["q1"]

    async def test_it_is_on_disk_as_soon_as_it_is_there(self) -> None:
        async with playing(Editing()) as turn:
            turn.preview.show(Text("Hel"))
            await later(0.1)

            assert turn.store._turns[turn.begun.turn].preview == "b1"
            await turn.finish("Hello.")

    async def test_it_is_edited_at_the_platforms_pace_however_fast_the_agent_talks(self) -> None:
        adapter = Editing()
        adapter.limits = replace(adapter.limits, edit_every=3 * SECOND)
        async with playing(adapter) as turn:
            for _ in range(100):
                turn.preview.show(Text("word "))
                await later(0.1)
            await turn.preview.close()
            await turn.finish("Done.")

        assert [at for at, _, _ in adapter.said[:-1]] == pytest.approx([0.0, 3.0, 6.0, 9.0])
        assert adapter.shown[1].count("word") >= 30  # everything that had come by then

    async def test_without_a_pace_of_the_platform_it_is_edited_once_a_second(self) -> None:
        adapter = Editing()
        adapter.limits = replace(adapter.limits, edit_every=timedelta(0))
        async with playing(adapter) as turn:
            for _ in range(35):
                turn.preview.show(Text("word "))
                await later(0.1)
            await turn.finish("Done.")

        assert [at for at, _, _ in adapter.said[:-1]] == pytest.approx([0.0, 1.0, 2.0, 3.0])

    async def test_nothing_is_sent_while_nothing_can_be_seen(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            for event in (Text(" \n"), Reasoning(text="hmm"), Done()):
                turn.preview.show(event)
                await later(2)
            assert await turn.preview.close() is None
            await turn.finish("Hello.")

        assert adapter.shown == ["Hello."]

    async def test_what_does_not_change_is_not_edited(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            for event in (Text("Hello"), Text(" "), Reasoning(text="hmm"), using("search")):
                turn.preview.show(event)
                await later(2)
            assert adapter.shown == ["Hello …"]
            await turn.finish("Hello.")

    async def test_a_tool_is_shown_until_there_are_words(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            for event in (
                using("search"),
                using("read\nfile"),
                Text("Found"),
                using("search"),
                Text("it"),
            ):
                turn.preview.show(event)
                await later(2)
            await turn.finish("Found it.")

        assert adapter.shown == [
            "Using search …",
            "Using read file …",
            "Found …",
            "Found\n\nit …",
            "Found it.",
        ]

    async def test_it_never_says_more_than_fits_and_goes_on_growing(self) -> None:
        adapter = Editing()
        adapter.limits = Limits(
            largest_part=20,
            measure=lambda text: len(text.encode("utf-16-le")) // 2,
            edit_every=SECOND,
        )
        async with playing(adapter) as turn:
            for _ in range(20):
                turn.preview.show(Text("😀 "))
                await later(1)
            assert len(adapter.said) > 10
            await turn.finish("😀")

        assert max(adapter.limits.measure(text) for text in adapter.shown) <= 20
        assert all(text.endswith(" …") for text in adapter.shown[:-1])

    async def test_a_turn_that_began_again_goes_on_in_the_message_that_shows_it(self) -> None:
        adapter = Editing()
        async with playing(adapter, shown_in="b7") as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            await turn.finish("Hello.")

        assert adapter.sent == []
        assert [said[1:] for said in adapter.said] == [("b7", "Hel …"), ("b7", "Hello.")]

    async def test_one_whose_message_nobody_can_find_shows_none_and_its_answer_says_so(
        self,
    ) -> None:
        adapter = Editing()
        async with playing(adapter, shown_in=LOST_PREVIEW) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            await turn.finish("Hello.")

        assert adapter.shown == [f"{MAY_STAND_ABOVE}Hello."]

    async def test_that_there_will_be_one_is_on_disk_before_it_is_sent(self) -> None:
        adapter = Editing(takes=5.0)
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            assert turn.store._turns[turn.begun.turn].preview == LOST_PREVIEW
            await later(5)
            assert turn.store._turns[turn.begun.turn].preview == "b1"
            await turn.finish("Hello.")

    async def test_a_turn_that_began_again_and_says_nothing_still_has_its_message_replaced(
        self,
    ) -> None:
        adapter = Editing()
        async with playing(adapter, shown_in="b7") as turn:
            await turn.finish("Hello.")

        assert adapter.messages == {"b7": "Hello."}

    async def test_an_answer_that_is_there_at_once_needs_no_preview(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hello."))
            await turn.finish("Hello.")

        assert adapter.shown == ["Hello."]

    async def test_the_answer_comes_after_an_edit_that_is_under_way(self) -> None:
        adapter = Editing(takes=5.0)
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(6)
            turn.preview.show(Text("lo"))
            await later(1)
            await turn.finish("Hello.")

        assert adapter.shown == ["Hel …", "Hello …", "Hello."]

    async def test_a_platform_that_never_answers_does_not_keep_the_turn_for_ever(self) -> None:
        adapter = Editing(takes=1e9)
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(1)
            assert await turn.preview.close() == LOST_PREVIEW
            assert now() == pytest.approx(30)
            adapter.takes = 0
            await turn.finish("Hello.")

        assert adapter.shown == [f"{MAY_STAND_ABOVE}Hello."]

    async def test_a_platform_without_edits_is_shown_nothing_before_the_answer(self) -> None:
        adapter = RecordingAdapter()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            await turn.finish("Hello.")

        assert adapter.texts == ["Hello."]

    async def test_nor_is_any_without_streaming(self) -> None:
        adapter = Editing()
        async with playing(adapter, stream=False, shown_in="b7") as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            assert adapter.said == []
            await turn.finish("Hello.")

        assert adapter.messages == {"b7": "Hello."}

    async def test_a_screen_that_follows_needs_no_message(self) -> None:
        adapter = ShowingScreen()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            await turn.finish("Hello.")

        assert adapter.shown == ["Hello."]


@hurried
class TestTrouble:
    async def test_a_first_message_that_nobody_knows_of_ends_the_preview(self) -> None:
        adapter = Editing(Unreachable("no answer"))
        async with playing(adapter) as turn:
            for _ in range(5):
                turn.preview.show(Text("word "))
                await later(10)
            assert len(adapter.tried) == 1
            await turn.finish("Hello.")

        assert adapter.shown == [f"{MAY_STAND_ABOVE}Hello."]

    @pytest.mark.parametrize(
        "error", [Throttled("slow down", retry_after=4.0), NotSent("no route")]
    )
    async def test_a_first_message_that_certainly_did_not_leave_is_sent_later(
        self, error: Exception
    ) -> None:
        adapter = Editing(error)
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(10)
            await turn.finish("Hello.")

        assert adapter.shown == ["Hel …", "Hello."]
        assert 4.0 <= adapter.said[0][0] <= 6.0

    @pytest.mark.parametrize(
        "error", [Unreachable("no answer"), NotSent("no route"), Retryable("not now")]
    )
    async def test_an_edit_that_failed_for_now_is_made_up_for_by_the_next(
        self, error: Exception
    ) -> None:
        adapter = Editing(edits=(error,))
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            turn.preview.show(Text("lo"))
            await later(10)
            await turn.finish("Hello.")

        assert adapter.shown == ["Hel …", "Hello …", "Hello."]

    async def test_a_throttled_edit_pauses_the_preview_as_long_as_the_platform_said(self) -> None:
        adapter = Editing(edits=(Throttled("slow down", retry_after=30.0),))
        async with playing(adapter) as turn:
            for _ in range(40):
                turn.preview.show(Text("word "))
                await later(1)
            await turn.finish("Hello.")

        first, second = [at for at, _, _ in adapter.said][:2]
        assert 30.0 <= second - first <= 32.0

    @pytest.mark.parametrize(
        "error", [Undeliverable("gone"), Unauthorized("bad token"), ValueError("a bug")]
    )
    async def test_any_other_error_ends_the_preview_and_not_the_turn(
        self, error: Exception
    ) -> None:
        adapter = Editing(edits=(error,))
        async with playing(adapter) as turn:
            for _ in range(5):
                turn.preview.show(Text("word "))
                await later(10)
            assert adapter.shown == ["word …"]
            await turn.finish("Hello.")

        assert adapter.messages == {"b1": "Hello."}

    async def test_if_the_message_was_deleted_the_answer_is_a_new_one(self) -> None:
        adapter = Editing(edits=(Undeliverable("gone"), Undeliverable("gone")))
        async with playing(adapter) as turn:
            for _ in range(2):
                turn.preview.show(Text("word "))
                await later(2)
            await turn.finish("Hello.")

        assert adapter.messages["b2"] == "Hello."

    async def test_a_turn_that_ends_without_an_answer_leaves_no_mark_behind(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            turn.delivery.settled(at_desk(), ["q1"])
            await later(2)

        assert adapter.messages == {"b1": "Hel"}

    async def test_nor_does_one_that_only_used_a_tool(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            turn.preview.show(using("search"))
            await later(2)
            turn.delivery.settled(at_desk(), ["q1"])
            await later(2)

        assert adapter.messages == {"b1": "(There is no answer.)"}

    async def test_nor_does_one_whose_session_was_deleted(self) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            await turn.preview.close()
            await turn.store.delete(turn.begun.opened.session.id)
            turn.delivery.settled(at_desk(), ["q1"])
            await later(2)

        assert adapter.messages == {"b1": "Hel"}


@hurried
class TestGivingWay:
    @pytest.mark.parametrize(
        "error", [NotSent("no route"), Throttled("slow down", retry_after=10.0)]
    )
    async def test_a_preview_waits_until_the_answers_of_its_chat_have_gone(
        self, error: Exception
    ) -> None:
        adapter = Editing(error)
        async with playing(adapter) as turn:
            other = await begin(turn.store, message("?", id="q2", source=at_desk(user="bob")))
            parts = (Part(target=at_desk(user="bob"), text="An answer."),)
            await turn.delivery.deliver(await turn.store.finish(other.turn, Outcome(parts=parts)))
            turn.preview.show(Text("Hel"))
            await later(12)
            await turn.finish("Hello.")

        assert adapter.shown == ["An answer.", "Hel …", "Hello."]

    async def test_previews_leave_room_for_the_answer(self) -> None:
        adapter = Editing()
        adapter.limits = replace(adapter.limits, per_chat=Rate(count=4, per=timedelta(minutes=1)))
        async with playing(adapter) as turn:
            for _ in range(20):
                turn.preview.show(Text("word "))
                await later(1)
            assert len(adapter.said) == 2
            await turn.finish("Hello.", "More.")
            assert now() == pytest.approx(20)

        assert adapter.shown[2:] == ["Hello.", "More."]


@hurried
class TestDrafts:
    async def test_what_is_being_written_is_a_draft_and_the_answer_a_message_of_its_own(
        self,
    ) -> None:
        adapter = Drafting()
        async with playing(adapter, drafts=True) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            turn.preview.show(Text("lo"))
            await later(2)
            await turn.finish("Hello.")

        assert [text for _, text in adapter.drafts] == ["Hel …", "Hello …"]
        assert adapter.shown == ["Hello."]

    async def test_a_draft_is_shown_again_before_it_vanishes(self) -> None:
        adapter = Drafting()
        async with playing(adapter, drafts=True) as turn:
            turn.preview.show(Text("Hel"))
            await later(70)
            await turn.finish("Hello.")

        times = [at for at, _ in adapter.drafts]
        assert len(times) == 4
        assert max(after - before for before, after in pairwise(times)) < 30

    async def test_where_there_are_none_a_message_is_edited(self) -> None:
        adapter = Editing()
        async with playing(adapter, drafts=True) as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            await turn.finish("Hello.")

        assert adapter.messages == {"b1": "Hello."}

    async def test_a_message_that_an_earlier_run_has_shown_is_edited(self) -> None:
        adapter = Drafting()
        async with playing(adapter, drafts=True, shown_in="b7") as turn:
            turn.preview.show(Text("Hel"))
            await later(2)
            await turn.finish("Hello.")

        assert (adapter.drafts, adapter.messages) == ([], {"b7": "Hello."})

    async def test_a_draft_that_fails_costs_no_answer(self) -> None:
        adapter = Drafting(Unreachable("no answer"), ValueError("a bug"))
        async with playing(adapter, drafts=True) as turn:
            for _ in range(4):
                turn.preview.show(Text("word "))
                await later(10)
            await turn.finish("Hello.")

        assert adapter.shown == ["Hello."]


@hurried
class TestReaction:
    async def test_a_message_whose_turn_begins_gets_a_sign_if_the_operator_wants_one(self) -> None:
        for reaction, signs in ((None, []), ("👀", [("q1", "👀")])):
            adapter = Reacting()
            async with playing(adapter, reaction=reaction) as turn:
                await later(1)
                await turn.finish("Hello.")

            assert (adapter.signs, adapter.texts) == (signs, ["Hello."])

    async def test_a_turn_that_began_again_has_it_already(self) -> None:
        adapter = Reacting()
        async with playing(adapter, reaction="👀", shown_in="b7") as turn:
            await turn.finish("Hello.")

        assert adapter.signs == []

    @pytest.mark.parametrize("error", [Unreachable("no answer"), ValueError("a bug")])
    async def test_its_errors_harm_nobody(self, error: Exception) -> None:
        adapter = Reacting(error)
        async with playing(adapter, reaction="👀") as turn:
            await later(1)
            await turn.finish("Hello.")

        assert adapter.texts == ["Hello."]


@hurried
class TestTyping:
    async def test_it_is_shown_at_once_and_again_until_the_answer_comes(self) -> None:
        adapter = TypingOnly()
        async with playing(adapter) as turn:
            await later(10)
            await turn.finish("Hello.")
            await later(20)

        assert adapter.typed_at == [0.0, 4.0, 8.0]

    async def test_it_ends_when_there_is_something_to_read(self) -> None:
        adapter = TypingEditor()
        async with playing(adapter) as turn:
            turn.preview.show(using("search"))
            await later(6)
            turn.preview.show(Text("Hel"))
            await later(20)
            await turn.finish("Hello.")

        assert adapter.typed_at == [0.0, 4.0]

    @pytest.mark.parametrize(
        "error", [NotSent("no route"), Undeliverable("no"), ValueError("a bug")]
    )
    async def test_its_errors_harm_nobody(self, error: Exception) -> None:
        adapter = TypingOnly(error)
        async with playing(adapter) as turn:
            await later(10)
            await turn.finish("Hello.")

        assert adapter.texts == ["Hello."]

    async def test_a_pause_that_the_platform_asks_for_holds_for_it_too(self) -> None:
        adapter = TypingOnly(Throttled("slow down", retry_after=30.0))
        async with playing(adapter) as turn:
            await later(29)
            assert adapter.typed_at == [0.0]
            await later(10)
            await turn.finish("Hello.")

    async def test_it_is_shown_without_streaming_too(self) -> None:
        adapter = TypingEditor()
        async with playing(adapter, stream=False) as turn:
            turn.preview.show(Text("Hel"))
            await later(6)
            await turn.finish("Hello.")

        assert adapter.typed_at == [0.0, 4.0]

    async def test_it_ends_with_a_turn_that_nobody_closed(self) -> None:
        adapter = TypingOnly()
        async with playing(adapter) as turn:
            turn.delivery.settled(at_desk(), ["q1"])
            await later(20)

        assert len(adapter.typed_at) <= 1


def shown(text: str, limits: Limits) -> str:
    words = PreviewLabels(limits)
    words.add(Text(text))
    return words.so_far()


class TestCutting:
    @pytest.mark.parametrize("length", [0, 1, 17, 18])
    def test_what_fits_into_one_message_is_shown_whole(self, length: int) -> None:
        limits = Limits(largest_part=20, measure=len, edit_every=SECOND)

        assert shown("x" * length, limits) == ("x" * length + " …" if length else "")

    def test_a_longer_answer_is_shown_from_the_beginning_of_its_newest_message(self) -> None:
        words = PreviewLabels(Limits(largest_part=40, measure=len, edit_every=SECOND))
        seen = []
        for number in range(12):
            words.add(Text(f"sentence {number}. "))
            seen.append(words.so_far())

        assert seen[:2] == ["sentence 0. …", "sentence 0. sentence 1. …"]
        assert all(len(text) <= 40 for text in seen)
        assert len(set(seen)) == 12
        assert all(f"sentence {number}. …" in text for number, text in enumerate(seen))
        assert all(text.startswith("…\n\nsentence") for text in seen[3:])

    def test_a_platform_that_takes_nothing_is_given_nothing(self) -> None:
        assert shown("hello", Limits(largest_part=1, measure=len, edit_every=SECOND)) == ""

    def test_earlier_messages_are_neither_kept_nor_measured(self) -> None:
        measured: list[int] = []
        words = PreviewLabels(
            Limits(
                largest_part=20,
                measure=lambda text: measured.append(len(text)) or len(text),
                edit_every=SECOND,
            )
        )
        for _ in range(1000):
            words.add(Text("word "))
            words.so_far()

        assert len("".join(words._pieces)) <= 20
        assert max(measured) <= 40

    def test_a_measure_that_jumps_is_never_exceeded(self) -> None:
        limits = Limits(
            largest_part=20,
            measure=lambda text: len(text) + 7 * (text.count("`") % 2),
            edit_every=SECOND,
        )

        assert limits.measure(shown("ab`cd`" * 30, limits)) <= 20

    def test_code_that_is_still_being_written_is_closed(self) -> None:
        words = PreviewLabels(Limits(largest_part=60, measure=len, edit_every=SECOND))
        words.add(Text("Look:\n```py\nx = 1"))
        half = words.so_far()
        words.add(Text("\n```\nDone."))

        assert half == "Look:\n```py\nx = 1\n```\n …"
        assert words.so_far() == "Look:\n```py\nx = 1\n```\nDone. …"

    def test_code_that_goes_on_in_a_further_message_is_opened_there(self) -> None:
        limits = Limits(largest_part=60, measure=len, edit_every=SECOND)

        text = shown("```py\n" + "word = 1\n" * 12, limits)

        assert text.startswith("…\n\n```py\nword = 1\n")
        assert text.endswith("```\n …")
        assert len(text) <= 60

    def test_code_that_grows_over_several_messages_stays_code(self) -> None:
        words = PreviewLabels(Limits(largest_part=60, measure=len, edit_every=SECOND))
        words.add(Text("```py\n"))
        for number in range(40):
            words.add(Text(f"x = {number}\n"))
            text = words.so_far()

            assert text.count("```") == 2
            assert f"x = {number}\n" in text

    def test_no_word_and_no_emoji_is_cut_in_half(self) -> None:
        limits = Limits(largest_part=16, measure=len, edit_every=SECOND)

        assert shown("words of an answer", limits) == "…\n\nan answer …"
        assert shown("👨‍👩‍👧" * 10, limits).strip("…\n ") in ("👨‍👩‍👧", "👨‍👩‍👧" * 2)


@hurried
class TestWhereNothingElseShowsThatWorkGoesOn:
    async def test_after_half_a_minute_of_silence_the_message_says_so_and_becomes_the_answer(
        self,
    ) -> None:
        adapter = Editing()
        async with playing(adapter) as turn:
            await asyncio.sleep(45)
            assert adapter.shown == ["Still working on it…"]
            turn.preview.show(Text("Here it is."))
            await asyncio.sleep(2)
            await turn.finish("Here it is.")

        assert adapter.messages == {"b1": "Here it is."}

    async def test_whoever_cannot_edit_says_it_once(self) -> None:
        adapter = RecordingAdapter()
        async with playing(adapter) as turn:
            await asyncio.sleep(300)
            await turn.finish("Here it is.")

        assert adapter.texts == ["Still working on it…", "Here it is."]

    async def test_a_quick_answer_needs_no_such_words(self) -> None:
        adapter = RecordingAdapter()
        async with playing(adapter) as turn:
            await asyncio.sleep(20)
            await turn.finish("Here it is.")
            await asyncio.sleep(60)

        assert adapter.texts == ["Here it is."]

    async def test_a_typing_sign_is_enough(self) -> None:
        adapter = TypingOnly()
        async with playing(adapter) as turn:
            await asyncio.sleep(120)
            await turn.finish("Here it is.")

        assert adapter.texts == ["Here it is."]
