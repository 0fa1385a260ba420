"""
`queue` and `trace` over every store: the shapes of the contract, and what may be retried or
dropped.
"""

from __future__ import annotations

import pytest

from tests.fakes import NOON, FrozenClock, assistant, dm, message
from tests.talk import begin, exchange, key_of, opening
from turngate.gateway.daemon.control.queue import queue_requests
from turngate.gateway.daemon.control.requests import carry_out
from turngate.gateway.domain.errors import (
    AlreadySettled,
    Refused,
    UnknownWork,
)
from turngate.gateway.domain.ids import PartId
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.outbox import (
    Part,
    PartState,
    Sent,
)
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.store_values import InboxItem, Outcome

ROW = {"id", "key", "state", "age_s", "attempts", "reason"}
STEP = {"at", "step", "detail"}


class NoLine:
    async def item(self, value: Json) -> None:
        raise AssertionError(value)

    async def next(self) -> None:
        return None


class Operator:
    """Asks, and remembers what was taken up."""

    def __init__(self, store: Store, clock: FrozenClock) -> None:
        self.items: list[InboxItem] = []
        self.parts: list[Part] = []
        self._requests = queue_requests(store, clock, self.items.append, self.parts.append)

    async def ask(self, do: str, **args: Json) -> dict[str, Json]:
        found = await carry_out(self._requests, {"do": do, "args": args}, NoLine())
        assert isinstance(found, dict)
        return found

    async def rows(self, table: str) -> list[dict[str, Json]]:
        rows = (await self.ask("queue.list"))[table]
        assert isinstance(rows, list)
        return rows  # type: ignore[return-value]


@pytest.fixture
def operator(store: Store, clock: FrozenClock) -> Operator:
    return Operator(store, clock)


async def failed(store: Store, text: str = "hello", *, dead: bool = False) -> InboxItem:
    """A message whose turn went wrong."""
    begun = await begin(store, message(text))
    await store.finish(begun.turn, Outcome(failure="the model is away", dead=dead))
    (item,) = await store.inbox(InboxState.DEAD if dead else InboxState.FAILED)
    return item


async def undelivered(store: Store, text: str = "hi") -> Part:
    """An answer that no platform took."""
    await exchange(store, answer=text)
    (part,) = await store.outbox(PartState.PENDING)
    await store.record_sending(part.id)
    await store.record_unsent(part.id, "the chat is gone", retry_at=None)
    (part,) = await store.outbox(PartState.DEAD)
    return part


async def test_an_empty_queue_has_both_directions(operator: Operator) -> None:
    assert await operator.ask("queue.list") == {"inbox": [], "outbox": []}


async def test_a_listing_has_the_shape_of_the_contract(
    store: Store, operator: Operator, clock: FrozenClock
) -> None:
    await store.accept(message("waits", id="9", source=dm("7")), key_of(dm("7")))
    await undelivered(store)
    clock.advance(seconds=90)

    (inbound,), (outbound,) = await operator.rows("inbox"), await operator.rows("outbox")

    assert set(inbound) == set(outbound) == ROW
    assert inbound == {
        "id": inbound["id"],
        "key": key_of(dm("7")),
        "state": "waiting",
        "age_s": 90.0,
        "attempts": 0,
        "reason": None,
    }
    assert (outbound["key"], outbound["state"], outbound["age_s"]) == (key_of(), "dead", 90.0)
    assert (outbound["attempts"], outbound["reason"]) == (1, "the chat is gone")


async def test_what_was_answered_and_sent_is_not_listed(store: Store, operator: Operator) -> None:
    await exchange(store)
    (part,) = await store.outbox(PartState.PENDING)
    await store.record_sending(part.id)
    await store.record_sent(part.id, Sent(message_id="p1", at=NOON))

    assert await operator.ask("queue.list") == {"inbox": [], "outbox": []}


@pytest.mark.parametrize("dead", [False, True])
async def test_a_message_is_shown_with_its_words_and_steps(
    store: Store, operator: Operator, dead: bool
) -> None:
    item = await failed(store, "the words", dead=dead)

    shown = await operator.ask("queue.show", id=f"in{item.id}")

    assert set(shown) == ROW | {"text", "raw", "steps"}
    assert (shown["text"], shown["state"], shown["reason"]) == (
        "the words",
        "dead" if dead else "failed",
        "the model is away",
    )
    steps = shown["steps"]
    assert isinstance(steps, list)
    assert all(set(step) == STEP for step in steps)  # type: ignore[arg-type]
    assert [step["step"] for step in steps][:2] == ["stored", "claimed"]  # type: ignore[index,call-overload]


async def test_a_part_is_shown_with_its_words_however_many_were_sent_before(
    store: Store, operator: Operator
) -> None:
    target = dm()
    begun = await begin(store, message())
    many = tuple(Part(target=target, text=f"{number}", ordinal=number) for number in range(1001))
    parts = await store.finish(begun.turn, Outcome(entries=(assistant("hi"),), parts=many))
    for part in parts[:-1]:
        await store.record_sending(part.id)
        await store.record_sent(part.id, Sent(message_id=f"p{part.id}", at=NOON))

    shown = await operator.ask("queue.show", id=f"out{parts[-1].id}")

    assert set(shown) == ROW | {"text"}
    assert shown["text"] == "1000"


async def test_a_message_that_failed_goes_back_to_work(store: Store, operator: Operator) -> None:
    item = await failed(store)

    again = await operator.ask("queue.retry", id=f"in{item.id}")

    assert set(again) == ROW
    assert (again["state"], again["attempts"], again["reason"]) == ("running", 0, None)
    assert [(one.id, one.turn) for one in operator.items] == [(item.id, item.turn)]


async def test_a_part_that_died_goes_back_to_work(store: Store, operator: Operator) -> None:
    part = await undelivered(store)

    again = await operator.ask("queue.retry", id=f"out{part.id}")

    assert (again["state"], [one.id for one in operator.parts]) == ("pending", [part.id])


async def test_what_is_dropped_is_no_longer_there(store: Store, operator: Operator) -> None:
    item = await failed(store)

    assert await operator.ask("queue.drop", id=f"in{item.id}") == {"id": f"in{item.id}"}

    (row,) = await store.inbox(InboxState.REFUSED)
    assert (row.reason, row.message.text) == ("dropped by hand", "")
    with pytest.raises(AlreadySettled):
        await operator.ask("queue.retry", id=f"in{item.id}")


async def test_a_part_that_is_dropped_is_gone(store: Store, operator: Operator) -> None:
    part = await undelivered(store)

    await operator.ask("queue.drop", id=f"out{part.id}")

    assert await operator.rows("outbox") == []


@pytest.mark.parametrize("verb", ["queue.retry", "queue.drop"])
async def test_what_runs_or_was_answered_is_left_alone(
    store: Store, operator: Operator, verb: str
) -> None:
    await exchange(store)
    begun = await begin(store, message("runs", id="2"))
    (running,) = await store.inbox(InboxState.RUNNING)
    (done,) = await store.inbox(InboxState.DONE)

    for item in (running, done):
        with pytest.raises(AlreadySettled):
            await operator.ask(verb, id=f"in{item.id}")

    assert operator.items == []
    await store.finish(begun.turn, Outcome())


@pytest.mark.parametrize("verb", ["queue.show", "queue.retry", "queue.drop", "trace"])
async def test_a_row_that_is_not_there_is_told(operator: Operator, verb: str) -> None:
    with pytest.raises(UnknownWork):
        await operator.ask(verb, id="in99")


@pytest.mark.parametrize("verb", ["queue.show", "queue.retry", "queue.drop"])
@pytest.mark.parametrize(
    "name", ["", "12", "in", "IN1", "in-1", "in1 ", "out1.5", "in" + "9" * 19, "in\u0661"]
)
async def test_what_is_no_name_is_told_with_an_example(
    operator: Operator, verb: str, name: str
) -> None:
    with pytest.raises(Refused, match="such as in12 and out7"):
        await operator.ask(verb, id=name)


async def test_a_part_of_a_deleted_session_is_listed_without_a_key(
    store: Store, operator: Operator
) -> None:
    await undelivered(store)
    (session,) = await store.sessions()
    await store.delete(session.id)

    assert [row["key"] for row in await operator.rows("outbox")] in ([], [None])


async def test_a_trace_tells_one_message_step_by_step(
    store: Store, operator: Operator, clock: FrozenClock
) -> None:
    session = await exchange(store, "hello", id="m1")
    clock.advance(seconds=1)
    (part,) = await store.outbox(PartState.PENDING)
    await store.record_sending(part.id)
    await store.record_sent(part.id, Sent(message_id="p1", at=clock.now()))

    trace = await operator.ask("trace", id="m1")

    assert set(trace) == {"message", "steps"}
    told, steps = trace["message"], trace["steps"]
    assert isinstance(told, dict)
    assert isinstance(steps, list)
    assert set(told) >= ROW | {"message_id", "session"}
    assert (told["message_id"], told["session"], told["state"]) == ("m1", session.id, "done")
    assert all(set(step) == STEP for step in steps)  # type: ignore[arg-type]
    words = [step["step"] for step in steps]  # type: ignore[index,call-overload]
    assert words[:3] == ["received", "admitted", "stored"]
    assert words[-2:] == ["sending", "sent"]
    assert await operator.ask("trace", id=str(told["id"])) == trace


async def test_a_refused_message_is_traced_to_its_reason(store: Store, operator: Operator) -> None:
    asked = opening()
    accepted = await store.accept(message(), asked.key)
    session = (await store.open(asked)).session
    await store.refuse([accepted.id], "too many messages wait", session=session.id, parts=())

    steps = (await operator.ask("trace", id=f"in{accepted.id}"))["steps"]

    assert isinstance(steps, list)
    assert steps[-1]["step"] == "refused"  # type: ignore[index,call-overload]
    assert steps[-1]["detail"] == "too many messages wait"  # type: ignore[index,call-overload]


async def test_a_name_that_several_platforms_gave_is_asked_back(
    store: Store, operator: Operator
) -> None:
    first = await store.accept(message(id="7", source=dm("1")), key_of(dm("1")))
    second = await store.accept(message(id="7", source=dm("2")), key_of(dm("2")))

    with pytest.raises(
        Refused, match=f"2 messages are called 7: in{second.id}, in{first.id}; trace one of these"
    ):
        await operator.ask("trace", id="7")


async def test_a_part_cannot_be_traced_as_a_message(operator: Operator) -> None:
    with pytest.raises(UnknownWork, match="there is no message out1"):
        await operator.ask("trace", id="out1")


async def test_an_unknown_part_is_told(store: Store, operator: Operator) -> None:
    for verb in ("queue.show", "queue.retry", "queue.drop"):
        with pytest.raises(UnknownWork):
            await operator.ask(verb, id=f"out{PartId(99)}")
