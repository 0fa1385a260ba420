"""
What every store promises about what was used: sums that add up, at once with the turn, and outlive
the session.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes import assistant, dm, message
from tests.talk import begin
from turngate.gateway.domain.errors import AlreadySettled, UnknownWork
from turngate.gateway.domain.ids import LARGEST_NUMBER
from turngate.gateway.domain.messages import InboxState
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Outcome
from turngate.gateway.domain.usage import (
    By,
    Cost,
    CostStatus,
    Payer,
    Spending,
    Spent,
    Tokens,
    Used,
)

ANN = Payer(
    day="2026-05-04", platform="telegram", account="main", chat="42", user="42", agent="main"
)
SPENT = Spent(
    tokens=Tokens(input=10, output=2, cache_read=3, cache_write=4),
    cost=Cost(usd=0.25, status=CostStatus.REPORTED),
)
ONCE = Spending(turns=1, tokens=SPENT.tokens, usd=0.25)


async def pay(
    store: Store, payer: Payer = ANN, spent: Spent = SPENT, *, failure: str | None = None
) -> Session:
    """A turn that used something."""
    number = sum([used.spending.turns for used in await store.usage(By.DAY)])
    begun = await begin(store, message(id=f"{payer}{number}"))
    await store.finish(
        begun.turn, Outcome(entries=(assistant("hi"),), spent=spent, payer=payer, failure=failure)
    )
    return await store.session(begun.opened.session.id)


async def sums(store: Store, by: By = By.DAY, since: str = "") -> dict[Payer, Spending]:
    """What was used, by whom."""
    return {used.payer: used.spending for used in await store.usage(by, since=since)}


async def test_where_nothing_was_used_there_is_nothing_to_tell(store: Store) -> None:
    assert [await store.usage(by) for by in By] == [[], [], [], []]


async def test_a_turn_that_nobody_pays_for_is_in_no_sum(store: Store) -> None:
    begun = await begin(store, message())
    await store.finish(begun.turn, Outcome(entries=(assistant("hi"),), spent=SPENT))

    assert await store.usage(By.DAY) == []


@pytest.mark.parametrize("failure", [None, "it broke down"])
async def test_turns_of_one_payer_add_up_whether_they_failed_or_not(
    store: Store, failure: str | None
) -> None:
    await pay(store)
    await pay(store, failure=failure)

    assert await sums(store) == {Payer(day="2026-05-04"): ONCE + ONCE}


async def test_the_same_turns_are_told_apart_in_four_ways(store: Store) -> None:
    await pay(store)
    await pay(store, replace(ANN, user="43"))
    await pay(store, replace(ANN, chat="-100", agent="coder"))
    await pay(store, replace(ANN, day="2026-05-05", account="support"))

    there = {"platform": "telegram", "account": "main"}
    support = {"platform": "telegram", "account": "support"}
    assert await sums(store, By.DAY) == {
        Payer(day="2026-05-04"): ONCE + ONCE + ONCE,
        Payer(day="2026-05-05"): ONCE,
    }
    assert await sums(store, By.AGENT) == {
        Payer(agent="coder"): ONCE,
        Payer(agent="main"): ONCE + ONCE + ONCE,
    }
    assert await sums(store, By.USER) == {
        Payer(**there, user="42"): ONCE + ONCE,
        Payer(**there, user="43"): ONCE,
        Payer(**support, user="42"): ONCE,
    }
    assert await sums(store, By.CHAT) == {
        Payer(**there, chat="-100"): ONCE,
        Payer(**there, chat="42"): ONCE + ONCE,
        Payer(**support, chat="42"): ONCE,
    }


async def test_earlier_days_can_be_left_out(store: Store) -> None:
    await pay(store)
    await pay(store, replace(ANN, day="2026-05-05"))

    assert await store.usage(By.AGENT, since="2026-05-05") == [
        Used(payer=Payer(agent="main"), spending=ONCE)
    ]
    assert await store.usage(By.AGENT, since="2026-05-06") == []


async def test_what_was_estimated_and_what_has_no_price_is_counted(store: Store) -> None:
    await pay(
        store,
        spent=Spent(tokens=Tokens(input=1), estimated=True, cost=Cost(status=CostStatus.UNKNOWN)),
    )
    await pay(
        store, spent=Spent(tokens=Tokens(input=1), cost=Cost(usd=1.0, status=CostStatus.PARTIAL))
    )
    session = await pay(store, spent=Spent(tokens=Tokens(input=1)))

    expected = Spending(turns=3, estimated=1, unpriced=2, tokens=Tokens(input=3), usd=1.0)
    assert await sums(store) == {Payer(day="2026-05-04"): expected}
    assert session.tokens_estimated


@pytest.mark.parametrize("usd", [float("nan"), float("inf"), -5.0, 1e300])
async def test_a_price_that_cannot_be_spoils_no_sum(store: Store, usd: float) -> None:
    await pay(store)
    await pay(store, spent=Spent(cost=Cost(usd=usd, status=CostStatus.REPORTED)))

    assert await sums(store) == {Payer(day="2026-05-04"): ONCE + Spending(turns=1, unpriced=1)}


async def test_numbers_beyond_all_bounds_stay_numbers(store: Store) -> None:
    huge = Spent(tokens=Tokens(input=LARGEST_NUMBER))
    await pay(store, spent=huge)
    await pay(store, spent=huge)
    await pay(store, replace(ANN, user="43"), spent=huge)

    (used,) = await store.usage(By.DAY)
    assert used.spending.tokens.input == LARGEST_NUMBER


async def test_a_deleted_session_leaves_its_sums(store: Store) -> None:
    session = await pay(store)
    await store.delete(session.id)

    assert await sums(store) == {Payer(day="2026-05-04"): ONCE}


async def test_a_turn_that_cannot_be_finished_is_in_no_sum(store: Store) -> None:
    begun = await begin(store, message())
    await store.delete(begun.opened.session.id)

    with pytest.raises(UnknownWork):
        await store.finish(begun.turn, Outcome(spent=SPENT, payer=ANN))
    assert await store.usage(By.DAY) == []


async def test_a_turn_is_paid_for_once(store: Store) -> None:
    begun = await begin(store, message())
    await store.finish(begun.turn, Outcome(spent=SPENT, payer=ANN))

    with pytest.raises(AlreadySettled):
        await store.finish(begun.turn, Outcome(spent=SPENT, payer=ANN))
    assert await sums(store) == {Payer(day="2026-05-04"): ONCE}


async def test_what_is_used_outside_a_turn_is_the_sessions_too_and_no_interaction(
    store: Store,
) -> None:
    before = await pay(store)
    await store.charge(before.id, SPENT, ANN)

    after = await store.session(before.id)
    assert await sums(store) == {Payer(day="2026-05-04"): ONCE + ONCE}
    assert (after.tokens, after.messages) == (SPENT.tokens + SPENT.tokens, before.messages)
    assert after.last_interaction_at == before.last_interaction_at


async def test_what_was_used_for_a_session_that_is_gone_was_used_all_the_same(store: Store) -> None:
    session = await pay(store)
    await store.delete(session.id)
    await store.charge(session.id, SPENT, ANN)

    assert await sums(store) == {Payer(day="2026-05-04"): ONCE + ONCE}
    assert await store.sessions() == []


async def test_half_a_character_in_a_name_spoils_nothing(store: Store) -> None:
    await pay(store, replace(ANN, user="a\ud83d"))

    (used,) = await store.usage(By.USER)
    assert used.payer.user == "a\ufffd"


async def test_a_refused_turn_keeps_its_message_for_another_day(store: Store) -> None:
    begun = await begin(store, message("precious", source=dm()))
    await store.finish(begun.turn, Outcome(failure="the budget is used up", refused=True))

    (item,) = await store.inbox(InboxState.REFUSED)
    assert (item.message.text, item.reason) == ("precious", "the budget is used up")
    assert (await store.requeue(item.id)).state is InboxState.RUNNING
