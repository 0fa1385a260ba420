"""Events that could not be converted, over every store (findings H2, R3 and R6)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fakes import FrozenClock, dm, message
from tests.talk import key_of
from turngate.gateway.daemon.control.queue import queue_requests
from turngate.gateway.daemon.control.requests import carry_out
from turngate.gateway.domain.errors import AlreadySettled, MalformedRecord, Refused, UnknownWork
from turngate.gateway.domain.messages import InboundMessage, InboxState, MessageKind
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.store_values import LONGEST_RAW, MOST_UNREADABLE

NEVER = timedelta(days=10_000)
DAY = timedelta(days=1)


def event(raw: str = '{"kind": "new"}', *, id: str = "7") -> InboundMessage:  # noqa: A002
    return replace(
        message(id=id), kind=MessageKind.UNREADABLE, raw=raw, text="", event_ids=(f"event-{id}",)
    )


async def test_an_event_is_a_dead_letter_with_its_raw_form(store: Store) -> None:
    accepted = await store.set_aside(event(), key_of(), "it is new")

    (item,) = await store.inbox(InboxState.DEAD)
    assert (item.id, item.reason) == (accepted.id, "it is new")
    assert (item.message.kind, item.message.raw) == (MessageKind.UNREADABLE, '{"kind": "new"}')
    assert (await store.depth()).inbox_dead == 1


async def test_an_event_that_is_delivered_again_is_kept_once(store: Store) -> None:
    first = await store.set_aside(event(), key_of(), "it is new")
    again = await store.set_aside(event(), key_of(), "it is new")

    assert (first.id, again.duplicate) == (again.id, True)
    assert len(await store.inbox(InboxState.DEAD)) == 1


async def test_of_a_long_event_the_beginning_is_kept(store: Store) -> None:
    await store.set_aside(event("é" * LONGEST_RAW), key_of(), "it is new")

    (item,) = await store.inbox(InboxState.DEAD)
    assert item.message.raw == "é" * (LONGEST_RAW // 2)


async def test_the_oldest_events_make_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_UNREADABLE == 1000
    for module in ("turngate.gateway.stores.sqlite.inbox_table", "tests.oracle_store.inbox"):
        monkeypatch.setattr(f"{module}.MOST_UNREADABLE", 3)
    for number in range(5):
        await store.set_aside(event(id=str(number)), key_of(), "it is new")

    assert [item.message.id for item in await store.inbox(InboxState.DEAD)] == ["2", "3", "4"]


async def test_events_are_forgotten_after_a_week(store: Store, clock: FrozenClock) -> None:
    await store.set_aside(event(id="old"), key_of(), "it is new")
    clock.advance(days=6)
    await store.set_aside(event(id="young"), key_of(), "it is new")
    clock.advance(days=2)
    await store.prune(empty_after=NEVER, archive_after=NEVER, forget_after=NEVER)

    assert [item.message.id for item in await store.inbox(InboxState.DEAD)] == ["young"]


async def test_an_event_is_not_requeued_as_it_is(store: Store) -> None:
    accepted = await store.set_aside(event(), key_of(), "it is new")

    with pytest.raises(Refused, match="could not be read"):
        await store.requeue(accepted.id)


async def test_the_message_takes_the_place_of_its_event(store: Store) -> None:
    accepted = await store.set_aside(event(), key_of(), "it is new")
    read = replace(message("hello", id="7"), event_ids=("event-7", "C1:7"))
    again = await store.accept_again(accepted.id, read, key_of())

    (item,) = await store.inbox(InboxState.WAITING)
    assert (again.id, again.duplicate) == (accepted.id, False)
    assert (item.id, item.message, item.reason) == (accepted.id, read, None)
    assert (await store.accept(replace(read, event_ids=("C1:7",)), key_of())).duplicate
    with pytest.raises(AlreadySettled):
        await store.accept_again(accepted.id, read, key_of())


async def test_a_dropped_event_leaves_nothing_of_its_raw_form(store: Store) -> None:
    accepted = await store.set_aside(event(), key_of(), "it is new")
    await store.drop(accepted.id, "dropped by hand")

    assert (await store.trace(accepted.id)).item.message.raw is None
    with pytest.raises((AlreadySettled, UnknownWork)):
        await store.accept_again(accepted.id, message(), key_of())


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": 5},
        {"id": ["5"]},
        {"addressed_to_bot": "yes"},
        {"attachments": ({"type": "image"},)},
        {"source": replace(dm(), user_name={"first": "Ann"})},  # type: ignore[arg-type]
        {"sent_at": "noon"},
    ],
)
async def test_a_value_of_the_wrong_type_is_refused_and_not_stored(
    store: Store, wrong: dict[str, object]
) -> None:
    """Finding R6: it was stored, and the next start called the store damaged."""
    with pytest.raises(MalformedRecord):
        await store.accept(replace(message(), **wrong), key_of())  # type: ignore[arg-type]

    assert await store.inbox(*InboxState) == []


async def test_a_refused_message_with_a_wrong_value_can_be_traced(store: Store) -> None:
    """Finding R6."""
    wrong = replace(message(), id=5.5)  # type: ignore[arg-type]
    accepted = await store.reject(wrong, key_of(), "this user is not allowed")

    assert (await store.trace(accepted.id)).item.message.id == "5.5"


async def test_without_a_daemon_a_retry_says_what_it_needs(
    store: Store, clock: FrozenClock
) -> None:
    accepted = await store.set_aside(event(), key_of(), "it is new")
    requests = queue_requests(store, clock)
    asked = {"do": "queue.retry", "args": {"id": f"in{accepted.id}"}}

    with pytest.raises(Refused, match="only a running daemon can read it again"):
        await carry_out(requests, asked, None)  # type: ignore[arg-type]


async def test_what_could_not_be_read_is_shown(store: Store, clock: FrozenClock) -> None:
    accepted = await store.set_aside(event(), key_of(), "it is new")
    requests = queue_requests(store, clock)
    asked = {"do": "queue.show", "args": {"id": f"in{accepted.id}"}}
    shown = await carry_out(requests, asked, None)  # type: ignore[arg-type]

    assert isinstance(shown, dict)
    assert (shown["state"], shown["reason"]) == ("dead", "it is new")
    assert shown["raw"] == '{"kind": "new"}'
