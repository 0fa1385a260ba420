"""
What every adapter must do, checked at its port: a real adapter, its platform's simulator over
loopback, and a `receive` that can fail and be slow. `adapters.py` lists the adapters and what each
can do; a test of a capability exists only for those that have it. Nothing is timed: each step waits
for what it needs to see.
"""

from __future__ import annotations

import asyncio
import base64
import gc
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.contracts.adapter_scene import (
    LONG_AGO,
    Ear,
    Scene,
    for_adapters,
    gateway,
    listening,
    only_our_errors,
    part,
)
from tests.contracts.adapters import CAPABILITIES, OTHER_ACCOUNT, AdapterUnderTest
from tests.fakes import FrozenClock
from tests.full_length import examples
from tests.oracle_store import MemoryStore
from tests.simulators.running import PATIENCE
from turngate.gateway.domain.agent_events import File
from turngate.gateway.domain.errors import (
    GapRemains,
    NotSent,
    Refused,
    StoreUnavailable,
    Throttled,
    Unauthorized,
    Undeliverable,
    Unreachable,
)
from turngate.gateway.domain.messages import (
    MAIN_ACCOUNT,
    Attachment,
    MessageKind,
)
from turngate.gateway.domain.outbox import Button
from turngate.gateway.domain.ports.adapter import (
    AsksWithButtons,
    CatchesUp,
    EditsMessages,
    FetchesFiles,
    FindsSent,
    Reacts,
    SendsFiles,
    ShowsTyping,
    TellsProgress,
)
from turngate.gateway.domain.transcript import MediaType
from turngate.gateway.rules.session_keys import build_session_key

BYTES = bytes(range(256)) * 500


@pytest.fixture
def kind() -> str:
    """Of the fault that a test is about; tests that are about one say so."""
    return ""


@pytest.fixture
async def at(tested: AdapterUnderTest, kind: str) -> AsyncIterator[Scene]:
    """
    A fresh platform and an adapter of its main account.

    It is in a hurry only where no answer comes: this machine may be busy. Whatever a test is about,
    no adapter may ask for what its platform forbids.
    """
    async with tested.simulator() as sim:
        async with tested.adapter(sim, hasty=kind == "half-open") as adapter:
            yield Scene(tested=tested, sim=sim, adapter=adapter)
        assert await sim.violations() == []


@for_adapters()
async def test_it_can_do_what_it_says_and_no_more(at: Scene) -> None:
    assert {each for each in CAPABILITIES if isinstance(at.adapter, each)} == at.tested.capabilities
    assert at.adapter.platform == at.here.platform


@for_adapters()
async def test_what_a_person_says_arrives_with_where_it_came_from(at: Scene) -> None:
    ear, before = Ear(), datetime.now(UTC) - timedelta(seconds=2)
    async with at.listening(ear):
        id_ = await at.say("Grüße, 你好 😀")
        (message,) = await ear.until_heard()

    assert (message.id, message.text, message.kind) == (id_, "Grüße, 你好 😀", MessageKind.NEW)
    assert replace(message.source, user_name=None) == at.here
    assert before <= message.sent_at <= datetime.now(UTC) + timedelta(seconds=2)
    assert message.event_ids
    assert not message.from_bot


@for_adapters()
async def test_a_round_trip_ends_where_it_began(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.say("ping")
        (message,) = await ear.until_heard()
        sent = await at.adapter.send(part(message.source, "pong"))

    (shown,) = await at.sim.messages()
    assert (shown["id"], shown["chat"], shown["text"]) == (sent.message_id, at.here.chat_id, "pong")


@for_adapters()
async def test_a_chat_is_heard_in_the_order_in_which_it_was_said(at: Scene) -> None:
    ear, numbers = Ear(), [str(number) for number in range(30)]
    async with at.listening(ear):
        for number in numbers:
            await at.say(number)
        await ear.until_heard(len(numbers))

    assert ear.texts == numbers


@for_adapters(own_fault="reorder")
async def test_what_comes_the_wrong_way_round_is_put_in_order(at: Scene) -> None:
    ear = Ear()
    for text in "abc":
        await at.say(text)
    await at.sim.fault("reorder", does="receive", times=None)
    async with at.listening(ear):
        await ear.until_heard(3)

    assert ear.texts == ["a", "b", "c"]


@for_adapters()
async def test_the_same_message_under_another_number_is_known_to_the_store(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    async with at.listening(ear):
        await at.say("once", repeat=1)
        first, second = await ear.until_heard(2)
    accepted = [
        await store.accept(each, build_session_key(each.source)) for each in (first, second)
    ]

    assert first.id == second.id
    assert [each.duplicate for each in accepted] == [False, True]


@for_adapters(own_fault="duplicate")
async def test_an_answer_with_everything_twice_gives_nobody_two_messages(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    await at.say("once")
    await at.say("once", to=at.there)
    await at.sim.fault("duplicate", does="receive")
    async with at.listening(ear):
        heard = await ear.until_heard(4)
    accepted = [await store.accept(each, build_session_key(each.source)) for each in heard]

    assert sum(not each.duplicate for each in accepted) == 2


@for_adapters()
async def test_messages_of_two_chats_are_never_taken_for_one(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    async with at.listening(ear):
        await at.say("the same words")
        await at.say("the same words", to=at.there)
        await at.say("the same words")
        heard = await ear.until_heard(3)
    accepted = [await store.accept(each, build_session_key(each.source)) for each in heard]

    assert not any(each.duplicate for each in accepted)


@for_adapters()
async def test_an_edit_is_an_event_of_its_own(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    async with at.listening(ear):
        id_ = await at.say("tpyo")
        await at.sim.do("change", chat=at.here.chat_id, id=id_, text="typo")
        said, edited = await ear.until_heard(2)
    accepted = [await store.accept(each, build_session_key(each.source)) for each in (said, edited)]

    assert (edited.id, edited.kind, edited.text) == (id_, MessageKind.EDIT, "typo")
    assert [each.duplicate for each in accepted] == [False, False]


@for_adapters(hands_out_again=True)
async def test_what_could_not_be_stored_is_handed_out_again(at: Scene) -> None:
    ear = Ear(StoreUnavailable("the disk is full"))
    async with at.listening(ear):
        await at.say("keep me")
        await ear.until_heard()

    assert [message.text for message in ear.tried] == ["keep me", "keep me"]


@for_adapters(hands_out_again=True)
async def test_nothing_is_acknowledged_before_it_is_stored(at: Scene) -> None:
    ear = Ear()
    ear.may_go_on.clear()
    async with at.listening(ear):
        await at.say()
        await ear.until(lambda: len(ear.tried) == 1)

        assert not await at.all_is_acknowledged()
        ear.may_go_on.set()
        await at.sim.until(at.all_is_acknowledged)


@for_adapters(hands_out_again=True)
async def test_an_acknowledgement_that_got_lost_is_made_again(at: Scene) -> None:
    ear = Ear()
    await at.sim.fault("reset", does="acknowledge")
    async with at.listening(ear):
        await at.say()
        await at.sim.until(at.all_is_acknowledged)

    assert {message.text for message in ear.heard} == {"hello"}


@for_adapters()
async def test_what_is_never_taken_does_not_hold_up_what_comes_after_it(at: Scene) -> None:
    ear = Ear(Refused("too long"))
    await at.say("a novel")
    await at.say("a word")
    async with at.listening(ear):
        await ear.until_heard()

    assert ear.texts == ["a word"]


@for_adapters()
@pytest.mark.parametrize(
    "kind", ["reset", "500", "502 html", "429", "html", "garbage", "truncated", "wrong types"]
)
async def test_whatever_the_platform_answers_the_next_message_is_heard(
    at: Scene, kind: str
) -> None:
    ear = Ear()
    await at.sim.fault(kind, does="receive", times=3, after=False, retry_after=0.01)
    async with at.listening(ear):
        await at.say()
        await ear.until_heard()

    assert ear.texts == ["hello"]


@for_adapters()
@pytest.mark.parametrize("kind", ["half-open"])
async def test_a_connection_that_went_silent_is_given_up(at: Scene, kind: str) -> None:
    ear = Ear()
    await at.sim.fault(kind, does="receive")
    async with at.listening(ear):
        await at.say()
        await ear.until_heard()

    assert ear.texts == ["hello"]


@for_adapters(CatchesUp)
async def test_what_was_said_since_is_read_again_in_order(at: Scene) -> None:
    since = datetime.now(UTC) - timedelta(hours=1)
    await at.say("long before", at=since.timestamp() - 60)
    for number in range(5):
        await at.say(str(number), to=at.tested.chats[number % 2], at=since.timestamp() + number)

    caught_up = [message async for message in at.adapter.catch_up(since)]

    assert [message.text for message in caught_up] == ["0", "1", "2", "3", "4"]
    assert [message.sent_at for message in caught_up] == [
        since + timedelta(seconds=number) for number in range(5)
    ]


@for_adapters(CatchesUp, hands_out_again=False)
async def test_what_could_not_be_stored_is_caught_up_with(at: Scene) -> None:
    ear = Ear(StoreUnavailable("the disk is full"))
    async with at.listening(ear):
        await at.say("keep me")
        await ear.until(lambda: len(ear.tried) == 1)

    assert [message.text async for message in at.adapter.catch_up(LONG_AGO)] == ["keep me"]


@for_adapters(CatchesUp)
async def test_what_is_caught_up_and_heard_too_is_known_to_the_store(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    async with at.listening(ear):
        await at.say()
        (heard,) = await ear.until_heard()
    (caught_up,) = [message async for message in at.adapter.catch_up(LONG_AGO)]
    accepted = [
        await store.accept(each, build_session_key(each.source)) for each in (heard, caught_up)
    ]

    assert [each.duplicate for each in accepted] == [False, True]


@for_adapters(CatchesUp)
async def test_more_than_one_page_is_caught_up(at: Scene) -> None:
    for number in range(230):
        await at.say(str(number))

    texts = [message.text async for message in at.adapter.catch_up(LONG_AGO)]

    assert texts == [str(number) for number in range(230)]


@for_adapters(CatchesUp, knows_of_gaps=True)
async def test_a_past_that_was_forgotten_is_said_to_be_a_gap(at: Scene) -> None:
    now, texts = datetime.now(UTC), list[str]()

    async def catch_up() -> None:
        async for message in at.adapter.catch_up(LONG_AGO):
            texts.append(message.text)

    await at.say("forgotten", at=now.timestamp() - 7200)
    await at.say("remembered", at=now.timestamp() - 60)
    await at.sim.do("forget", before=now.timestamp() - 3600)

    with pytest.raises(GapRemains):
        await catch_up()

    assert texts == ["remembered"]


@for_adapters(CatchesUp)
@pytest.mark.parametrize(
    "kind", ["reset", "500", "502 html", "html", "garbage", "truncated", "wrong types", "half-open"]
)
async def test_a_past_that_cannot_be_read_now_is_no_empty_past(at: Scene, kind: str) -> None:
    await at.say()
    await at.sim.fault(kind, does="history", times=None)

    with pytest.raises((Unreachable, NotSent)):
        [message async for message in at.adapter.catch_up(LONG_AGO)]


@for_adapters(TellsProgress)
async def test_progress_is_that_the_platform_answers_not_that_people_write(at: Scene) -> None:
    assert at.adapter.progress is None
    async with at.listening(Ear()):
        await _until_progress(at.adapter, at.adapter.progress)
        await _until_progress(at.adapter, at.adapter.progress)


@for_adapters(TellsProgress)
@pytest.mark.parametrize("kind", ["half-open"])
async def test_a_platform_that_does_not_answer_makes_no_progress(at: Scene) -> None:
    await at.tested.go_deaf(at.sim)
    async with listening(at.adapter, Ear().receive):

        async def has_tried() -> bool:
            return len(await at.sim.calls(does="receive")) > 1

        await at.sim.until(has_tried)
        assert at.adapter.progress is None
        await at.sim.heal()
        await _until_progress(at.adapter, None)


async def _until_progress(adapter: TellsProgress, last: datetime | None) -> None:
    async with asyncio.timeout(PATIENCE):
        while adapter.progress == last:
            await asyncio.sleep(0.005)


@for_adapters()
async def test_parts_arrive_in_the_order_in_which_they_are_sent(at: Scene) -> None:
    for number in range(10):
        await at.adapter.send(part(at.here, str(number), number))

    assert await at.sim.texts() == [str(number) for number in range(10)]


@for_adapters()
async def test_two_previews_that_say_the_same_are_two_messages(at: Scene) -> None:
    """A preview has no id yet by which it could be known again."""
    first = await at.adapter.send(part(at.here, "Hel …", 0))
    second = await at.adapter.send(part(at.here, "Hel …", 0))

    assert [message["id"] for message in await at.sim.messages()] == [
        first.message_id,
        second.message_id,
    ]


@for_adapters(quotes=True)
async def test_an_answer_names_what_it_answers(at: Scene) -> None:
    id_ = await at.say()

    await at.adapter.send(replace(part(at.here), reply_to=id_))

    (shown,) = await at.sim.messages()
    assert shown["reply_to"] == id_


@for_adapters()
@given(data=st.data())
@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_a_part_is_counted_as_the_platform_counts_it(at: Scene, data: st.DataObject) -> None:
    text, limits = data.draw(at.tested.texts), at.adapter.limits

    sent = await at.adapter.send(part(at.here, text))

    (shown,) = [each for each in await at.sim.messages() if each["id"] == sent.message_id]
    assert (shown["text"], shown["size"]) == (text, limits.measure(text))


@for_adapters()
@given(data=st.data())
@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_the_largest_part_is_taken_and_one_more_is_not(
    at: Scene, data: st.DataObject
) -> None:
    limits, text = at.adapter.limits, data.draw(at.tested.texts)
    # An adapter may count an emoji as two where its platform takes it for one.
    assume(limits.measure(text) == len(text))
    full = text + "x" * (limits.largest_part - limits.measure(text))

    await at.adapter.send(part(at.here, full))
    with pytest.raises(Undeliverable):
        await at.adapter.send(part(at.here, full + "x"))

    assert (await at.sim.texts())[-1] == full


@for_adapters()
async def test_formatting_that_is_refused_is_left_out_and_no_word_with_it(at: Scene) -> None:
    text = "**bold** `code` " + "word " * (at.adapter.limits.largest_part // 10) + "end"
    await at.tested.refuse_formatting(at.sim, does="send")

    await at.adapter.send(part(at.here, text))

    assert await at.sim.texts() == [text]


@for_adapters()
@pytest.mark.parametrize("seconds", [1, 7, 3600])
async def test_a_pause_that_is_asked_for_is_told_to_the_second_and_for_this_chat_only(
    at: Scene, seconds: int
) -> None:
    await at.sim.fault("429", does="send", chat=at.here.chat_id, retry_after=seconds)

    with pytest.raises(Throttled) as caught:
        await at.adapter.send(part(at.here))
    await at.adapter.send(part(at.there))

    assert (caught.value.retry_after, caught.value.everywhere) == (seconds, False)
    assert [message["chat"] for message in await at.sim.messages()] == [at.there.chat_id]


@for_adapters(says_whose_pause=True)
async def test_a_pause_for_the_whole_account_is_told_as_such(at: Scene) -> None:
    await at.sim.fault("429", does="send", retry_after=3, everywhere=True)

    with pytest.raises(Throttled) as caught:
        await at.adapter.send(part(at.here))

    assert (caught.value.retry_after, caught.value.everywhere) == (3, True)


@for_adapters()
@pytest.mark.parametrize("kind", ["500", "502 html"])
async def test_an_error_of_the_platform_is_tried_again_later(at: Scene, kind: str) -> None:
    await at.sim.fault(kind, does="send")

    with pytest.raises((NotSent, Unreachable)):
        await at.adapter.send(part(at.here))

    assert await at.sim.texts() == []
    assert len(await at.sim.calls(does="send")) == 1


@for_adapters()
@pytest.mark.parametrize(
    "kind", ["lost answer", "502 html", "html", "garbage", "truncated", "wrong types", "half-open"]
)
async def test_nobody_says_that_nothing_happened_when_it_did(at: Scene, kind: str) -> None:
    await at.sim.fault(kind, does="send", after=True)

    with pytest.raises(Unreachable):
        await at.adapter.send(part(at.here))

    assert await at.sim.texts() == ["hello"]
    assert len(await at.sim.calls(does="send")) == 1


@for_adapters()
@pytest.mark.parametrize("kind", ["reset", "half-open"])
async def test_a_line_that_breaks_before_anything_happened_is_in_doubt(
    at: Scene, kind: str
) -> None:
    await at.sim.fault(kind, does="send")

    with pytest.raises(Unreachable):
        await at.adapter.send(part(at.here))

    assert await at.sim.texts() == []
    assert len(await at.sim.calls(does="send")) == 1


@for_adapters()
async def test_a_platform_that_nobody_reaches_was_sent_nothing(at: Scene) -> None:
    async with at.tested.adapter(at.sim, url="http://127.0.0.1:1") as astray:
        with pytest.raises(NotSent):
            await astray.send(part(at.here))


@for_adapters()
async def test_a_slow_answer_is_an_answer(at: Scene) -> None:
    await at.sim.fault("slow", does="send")

    sent = await at.adapter.send(part(at.here))

    assert [message["id"] for message in await at.sim.messages()] == [sent.message_id]


@for_adapters()
async def test_a_chat_that_blocked_the_bot_gets_nothing_more(at: Scene) -> None:
    await at.sim.do("block", chat=at.here.chat_id)

    with pytest.raises(Undeliverable):
        await at.adapter.send(part(at.here))


@for_adapters()
async def test_a_chat_that_does_not_exist_takes_nothing(at: Scene) -> None:
    with pytest.raises(Undeliverable):
        await at.adapter.send(part(at.tested.nowhere))


@for_adapters(FindsSent)
@pytest.mark.parametrize(("kind", "is_there"), [("lost answer", True), ("reset", False)])
async def test_a_part_in_doubt_is_found_or_certainly_not_there(
    at: Scene, kind: str, is_there: bool
) -> None:
    since = datetime.now(UTC)
    await at.adapter.send(part(at.here, "the same words", 1))
    await at.sim.fault(kind, does="send")
    with pytest.raises(Unreachable):
        await at.adapter.send(part(at.here, "the same words", 2))

    found = await at.adapter.find_sent(part(at.here, "the same words", 2), since)

    ids = [message["id"] for message in await at.sim.messages()]
    assert (found and found.message_id) == (ids[1] if is_there else None)


@for_adapters(FindsSent)
@pytest.mark.parametrize(
    "kind", ["reset", "500", "502 html", "html", "garbage", "truncated", "wrong types", "half-open"]
)
async def test_not_to_know_is_not_to_have_found_nothing(at: Scene, kind: str) -> None:
    await at.adapter.send(part(at.here))
    for does in ("find", "history"):
        await at.sim.fault(kind, does=does, times=None)

    with pytest.raises((Unreachable, NotSent)):
        await at.adapter.find_sent(part(at.here), datetime.now(UTC))


@for_adapters(EditsMessages)
async def test_an_edit_changes_the_message_in_place(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Hel …"))

    edited = await at.adapter.edit(part(at.here, "Hello."), sent.message_id)

    assert edited.message_id == sent.message_id
    assert await at.sim.texts() == ["Hello."]


@for_adapters(EditsMessages)
async def test_saying_what_it_already_says_is_success(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Hello."))

    edited = await at.adapter.edit(part(at.here, "Hello."), sent.message_id)

    assert edited.message_id == sent.message_id


@for_adapters(EditsMessages)
async def test_a_message_that_is_gone_cannot_be_edited(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Hel …"))
    await at.sim.do("delete", id=sent.message_id)

    with pytest.raises(Undeliverable):
        await at.adapter.edit(part(at.here, "Hello."), sent.message_id)


@for_adapters(EditsMessages)
async def test_an_edit_whose_formatting_is_refused_says_all_of_it(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Hel …"))
    await at.tested.refuse_formatting(at.sim, does="edit")

    await at.adapter.edit(part(at.here, "**Hello** Ann."), sent.message_id)

    assert await at.sim.texts() == ["**Hello** Ann."]


@for_adapters(EditsMessages)
@pytest.mark.parametrize(
    "kind", ["reset", "lost answer", "500", "502 html", "html", "garbage", "truncated", "half-open"]
)
async def test_an_edit_that_failed_may_be_made_again(at: Scene, kind: str) -> None:
    sent = await at.adapter.send(part(at.here, "Hel …"))
    await at.sim.fault(kind, does="edit")

    with only_our_errors():
        await at.adapter.edit(part(at.here, "Hello."), sent.message_id)
    await at.adapter.edit(part(at.here, "Hello."), sent.message_id)

    assert await at.sim.texts() == ["Hello."]


@for_adapters(EditsMessages)
async def test_a_pause_asked_for_by_an_edit_is_heeded_too(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Hel …"))
    await at.sim.fault("429", does="edit", chat=at.here.chat_id, retry_after=5)

    with pytest.raises(Throttled) as caught:
        await at.adapter.edit(part(at.here, "Hello."), sent.message_id)

    assert (caught.value.retry_after, caught.value.everywhere) == (5, False)


YES_NO = (Button(label="Yes", nonce="0f" * 16), Button(label="No", nonce="1e" * 16))


@for_adapters(AsksWithButtons)
async def test_a_question_is_shown_with_its_buttons(at: Scene) -> None:
    sent = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=YES_NO))

    (shown,) = await at.sim.messages()
    assert (shown["id"], shown["text"]) == (sent.message_id, "Sure?")
    assert [(button["label"], button["nonce"]) for button in shown["buttons"]] == [
        (button.label, button.nonce) for button in YES_NO
    ]


@for_adapters(AsksWithButtons)
async def test_a_press_brings_back_the_nonce_alone(at: Scene) -> None:
    ear = Ear()
    sent = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=YES_NO))
    async with at.listening(ear):
        pressed = {"message": sent.message_id, "nonce": YES_NO[1].nonce}
        await at.sim.do("press", chat=at.here.chat_id, user=at.there.user_id, **pressed)
        (press,) = await ear.until_heard()

    assert (press.kind, press.text) == (MessageKind.BUTTON, YES_NO[1].nonce)
    assert (press.source.chat_id, press.source.user_id) == (at.here.chat_id, at.there.user_id)


@for_adapters(AsksWithButtons)
async def test_two_presses_are_two_events(at: Scene) -> None:
    ear, store = Ear(), MemoryStore(FrozenClock())
    sent = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=YES_NO))
    async with at.listening(ear):
        for button in YES_NO:
            pressed = {"message": sent.message_id, "nonce": button.nonce}
            await at.sim.do("press", chat=at.here.chat_id, user=at.here.user_id, **pressed)
        presses = await ear.until_heard(2)
    accepted = [await store.accept(each, build_session_key(each.source)) for each in presses]

    assert not any(each.duplicate for each in accepted)


@for_adapters(AsksWithButtons, EditsMessages)
async def test_an_edit_without_buttons_takes_them_away(at: Scene) -> None:
    sent = await at.adapter.ask(replace(part(at.here, "Sure?"), buttons=YES_NO))

    await at.adapter.edit(part(at.here, "Sure? Yes."), sent.message_id)

    (shown,) = await at.sim.messages()
    assert (shown["text"], shown["buttons"]) == ("Sure? Yes.", [])


@for_adapters(AsksWithButtons, EditsMessages)
async def test_an_edit_may_bring_buttons(at: Scene) -> None:
    sent = await at.adapter.send(part(at.here, "Using pay ..."))

    await at.adapter.edit(
        replace(part(at.here, "I was interrupted."), buttons=YES_NO), sent.message_id
    )

    (shown,) = await at.sim.messages()
    assert [button["nonce"] for button in shown["buttons"]] == [button.nonce for button in YES_NO]


@for_adapters(ShowsTyping)
async def test_typing_is_shown_where_the_answer_will_be(at: Scene) -> None:
    await at.adapter.show_typing(await at.tested.where_typing_shows(at.sim, at.there))

    assert await at.sim.do("typing") == [at.there.chat_id]


@for_adapters(ShowsTyping)
@pytest.mark.parametrize(
    "kind", ["reset", "500", "502 html", "429", "html", "garbage", "half-open", "403"]
)
async def test_typing_fails_with_errors_of_ours_only(at: Scene, kind: str) -> None:
    place = await at.tested.where_typing_shows(at.sim, at.here)
    await at.sim.fault(kind, does="type")

    with only_our_errors():
        await at.adapter.show_typing(place)

    assert await at.sim.calls(does="type")


@for_adapters(Reacts)
async def test_a_reaction_is_put_on_what_a_person_said(at: Scene) -> None:
    id_ = await at.say()

    await at.adapter.react(at.here, id_, "👀")

    (update,) = await at.sim.updates()
    assert update["reactions"] == ["👀"]


@for_adapters(Reacts)
async def test_a_reaction_to_what_is_gone_is_no_error(at: Scene) -> None:
    await at.adapter.react(at.here, "404404", "👀")


@for_adapters(SendsFiles)
async def test_a_file_arrives_byte_by_byte(at: Scene, tmp_path: Path) -> None:
    path = tmp_path / "random-name"
    path.write_bytes(BYTES)

    sent = await at.adapter.send_file(
        replace(part(at.here, "Here."), file=File(path=str(path), name="ü.bin"))
    )

    (shown,) = await at.sim.messages()
    assert (shown["id"], shown["text"], shown["file"]["name"]) == (
        sent.message_id,
        "Here.",
        "ü.bin",
    )
    assert base64.b64decode(shown["file"]["content"]) == BYTES


@for_adapters(SendsFiles)
async def test_a_file_that_is_gone_cannot_be_delivered(at: Scene, tmp_path: Path) -> None:
    with pytest.raises(Undeliverable):
        await at.adapter.send_file(replace(part(at.here), file=File(path=str(tmp_path / "gone"))))


@for_adapters(SendsFiles)
async def test_a_file_whose_answer_was_lost_is_in_doubt(at: Scene, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(BYTES)
    await at.sim.fault("lost answer", does="send_file")

    with pytest.raises(Unreachable):
        await at.adapter.send_file(replace(part(at.here), file=File(path=str(path))))

    assert len(await at.sim.messages()) == 1


@for_adapters(FetchesFiles)
async def test_what_a_person_sent_is_fetched_byte_by_byte(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.say("look", file=("../ü.bin", BYTES))
        (message,) = await ear.until_heard()
    (attachment,) = message.attachments

    assert (message.text, attachment.name, attachment.size) == ("look", "../ü.bin", len(BYTES))
    assert await _fetched(at.adapter, attachment) == BYTES


@for_adapters(FetchesFiles)
async def test_a_file_that_the_platform_does_not_have_is_refused(at: Scene) -> None:
    with pytest.raises(Refused):
        await _fetched(at.adapter, Attachment(type=MediaType.FILE, ref="f404", name="gone"))


@for_adapters(FetchesFiles)
@pytest.mark.parametrize("kind", ["truncated", "reset", "html", "500", "502 html", "half-open"])
async def test_a_download_that_breaks_off_is_never_taken_for_the_file(at: Scene, kind: str) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.say("look", file=("a.bin", BYTES))
        (message,) = await ear.until_heard()
    await at.sim.fault(kind, does="fetch", times=None)

    with pytest.raises((Unreachable, Refused)):  # a page to log in is an answer, too
        await _fetched(at.adapter, message.attachments[0])


async def _fetched(adapter: object, attachment: Attachment) -> bytes:
    assert isinstance(adapter, FetchesFiles)
    return b"".join([chunk async for chunk in adapter.fetch(attachment)])


@for_adapters()
async def test_refused_credentials_end_the_run(at: Scene) -> None:
    async with at.tested.adapter(at.sim, trusted=False) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.run(Ear().receive)

    assert len(await at.sim.calls(does="receive")) <= 1  # platforms delete bots that insist


@for_adapters()
async def test_refused_credentials_are_told_by_a_send(at: Scene) -> None:
    async with at.tested.adapter(at.sim, trusted=False) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.send(part(at.here))


@for_adapters()
async def test_credentials_that_are_revoked_end_the_run(at: Scene) -> None:
    ear = Ear()
    running = asyncio.ensure_future(at.adapter.run(ear.receive))
    await _until_progress(at.adapter, None)
    await at.say()
    await ear.until_heard()
    await at.tested.revoke(at.sim)

    with pytest.raises(Unauthorized):
        await running


@for_adapters()
async def test_two_accounts_keep_apart(at: Scene) -> None:
    mine, theirs = Ear(), Ear()
    async with at.of_account(OTHER_ACCOUNT) as other, at.listening(mine), other.listening(theirs):
        await at.say("to main")
        await other.say("to the other")
        (to_main,) = await mine.until_heard()
        (to_other,) = await theirs.until_heard()
        await at.adapter.send(part(to_main.source, "from main"))
        await other.adapter.send(part(to_other.source, "from the other"))

    assert (to_main.text, to_main.source.account) == ("to main", MAIN_ACCOUNT)
    assert (to_other.text, to_other.source.account) == ("to the other", OTHER_ACCOUNT)
    assert build_session_key(to_main.source) != build_session_key(to_other.source)
    assert await at.sim.texts() == ["from main"]
    assert await at.sim.texts(OTHER_ACCOUNT) == ["from the other"]


@for_adapters()
async def test_one_account_that_is_refused_disturbs_no_other(at: Scene) -> None:
    ear = Ear()
    async with (
        at.tested.adapter(at.sim, account=OTHER_ACCOUNT, trusted=False) as stranger,
        at.listening(ear),
    ):
        with pytest.raises(Unauthorized):
            await stranger.run(Ear().receive)
        await at.say()
        await ear.until_heard()

    assert ear.texts == ["hello"]


@for_adapters(hands_out_again=True)
async def test_a_run_that_is_cancelled_while_it_stores_acknowledges_nothing(at: Scene) -> None:
    ear = Ear()
    ear.may_go_on.clear()
    async with at.listening(ear):
        await at.say()
        await ear.until(lambda: len(ear.tried) == 1)

    assert not await at.all_is_acknowledged()


@for_adapters()
async def test_a_run_that_is_cancelled_leaves_nothing_behind(at: Scene) -> None:
    before, ear = asyncio.all_tasks(), Ear()
    async with at.of_account(MAIN_ACCOUNT) as mine, mine.listening(ear):
        await mine.say()
        await ear.until_heard()
        await mine.adapter.send(part(mine.here))
    del mine
    gc.collect()

    async def is_quiet() -> bool:
        return await at.sim.connections() == 0 and not [
            *filter(_is_of_an_adapter, asyncio.all_tasks() - before)
        ]

    await at.sim.until(is_quiet)


def _is_of_an_adapter(task: asyncio.Task[object]) -> bool:
    """The simulator answers on this very loop, in tasks of its own."""
    code = str(getattr(task.get_coro(), "cr_code", ""))
    return "aiohttp/web" not in code and "tests/simulators" not in code


@for_adapters()
async def test_it_can_be_run_again_after_it_was_cancelled(at: Scene) -> None:
    ear = Ear()
    async with at.listening(ear):
        await at.say("one")
        await ear.until_heard()
    async with at.listening(ear):
        await at.say("two")
        await ear.until(lambda: "two" in ear.texts)


@for_adapters()
async def test_through_the_whole_gateway_each_message_is_answered_once(
    at: Scene, tmp_path: Path
) -> None:
    async with gateway(tmp_path, at):
        await at.say("alpha", repeat=2)
        await at.until_answered("alpha")
        await at.say("omega", to=at.there)
        await at.until_answered("omega")

    assert len(await at.sim.texts()) == 2


@for_adapters()
async def test_through_the_whole_gateway_two_accounts_answer_for_themselves(
    at: Scene, tmp_path: Path
) -> None:
    async with at.of_account(OTHER_ACCOUNT) as other, gateway(tmp_path, at, other):
        await at.say("alpha")
        await other.say("omega")
        await at.until_answered("alpha")
        await other.until_answered("omega")

    assert (len(await at.sim.texts()), len(await at.sim.texts(OTHER_ACCOUNT))) == (1, 1)


@for_adapters(TellsProgress)
@pytest.mark.parametrize("kind", ["half-open"])
async def test_through_the_whole_gateway_a_deaf_platform_is_noticed_and_forgiven(
    at: Scene, tmp_path: Path
) -> None:
    async with gateway(tmp_path, at) as open_gateway:

        async def is_ready() -> bool:
            return (await open_gateway.health.readiness()).ready

        async def is_not_ready() -> bool:
            return not await is_ready()

        await at.sim.until(is_ready)
        await at.tested.go_deaf(at.sim)
        await at.sim.until(is_not_ready)
        await at.sim.heal()
        await at.sim.until(is_ready)


@for_adapters()
async def test_through_the_whole_gateway_what_was_said_while_it_was_away_is_answered(
    at: Scene, tmp_path: Path
) -> None:
    async with gateway(tmp_path, at):
        await at.say("alpha")
        await at.until_answered("alpha")
    await at.say("omega")
    async with at.of_account(MAIN_ACCOUNT) as again, gateway(tmp_path, again):
        await at.until_answered("omega")

    assert len(await at.sim.texts()) == 2
