"""Budgets: who may use no more today, what he is told, and when it is another day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

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
from turngate.gateway.rules.budgets import Budget, Budgets, money, why_not
from turngate.gateway.turns.billing import Today

DAY = "2026-05-04"
ANN = Payer(day=DAY, platform="telegram", account="main", chat="-100", user="42", agent="main")
BEN = replace(ANN, user="43")
ELSEWHERE = replace(ANN, chat="7")
DOLLAR = Spending(turns=1, tokens=Tokens(input=60, output=40), usd=1.0)


def today(**budgets: Budget) -> Today:
    return Today(lambda: Budgets(zone="Europe/Berlin", **budgets))


def after(today: Today, *payers: Payer) -> Today:
    for payer in payers:
        today.take(payer, DOLLAR)
    return today


def test_without_budgets_nobody_is_refused() -> None:
    assert why_not(after(today(), *[ANN] * 100).standing(ANN)) is None


@pytest.mark.parametrize(
    ("budgets", "sentence"),
    [
        (
            {"user": Budget(usd_per_day=1.0)},
            "Today's budget of $1.00 is used up; it starts again at 00:00 Europe/Berlin.",
        ),
        (
            {"user": Budget(tokens_per_day=100)},
            "Today's budget of 100 tokens is used up; it starts again at 00:00 Europe/Berlin.",
        ),
        (
            {"chat": Budget(usd_per_day=0.5)},
            "Today's budget of $0.50 for this chat is used up; it starts again at 00:00 "
            "Europe/Berlin.",
        ),
        (
            {"total": Budget(tokens_per_day=100)},
            "Today's budget of 100 tokens for all users is used up; it starts again at 00:00 "
            "Europe/Berlin.",
        ),
    ],
)
def test_a_reached_budget_is_one_sentence(budgets: dict[str, Budget], sentence: str) -> None:
    limited = today(**budgets)

    assert why_not(limited.standing(ANN)) is None
    assert why_not(after(limited, ANN).standing(ANN)) == sentence


@pytest.mark.parametrize(
    ("budgets", "refused"),
    [
        ({"user": Budget(usd_per_day=1.0)}, [ANN, ELSEWHERE]),
        ({"chat": Budget(usd_per_day=1.0)}, [ANN, BEN]),
        ({"total": Budget(usd_per_day=1.0)}, [ANN, BEN, ELSEWHERE]),
    ],
)
def test_each_budget_concerns_those_it_is_for(
    budgets: dict[str, Budget], refused: list[Payer]
) -> None:
    limited = after(today(**budgets), ANN)

    assert [who for who in (ANN, BEN, ELSEWHERE) if why_not(limited.standing(who))] == refused


def test_less_than_the_budget_is_not_the_budget() -> None:
    assert (
        why_not(after(today(user=Budget(usd_per_day=1.01, tokens_per_day=101)), ANN).standing(ANN))
        is None
    )


def test_a_budget_of_nothing_lets_nothing_run() -> None:
    assert why_not(today(user=Budget(usd_per_day=0.0)).standing(ANN)) is not None


def test_somebody_without_a_name_has_only_the_budgets_of_the_chat_and_of_everybody() -> None:
    limited = today(user=Budget(usd_per_day=0.0), chat=Budget(usd_per_day=5.0))
    standing = limited.standing(replace(ANN, user=""))

    assert why_not(standing) is None
    assert [allowance.in_words for allowance in standing.allowances] == ["$5.00 for this chat"]


def test_a_new_day_begins_with_nothing() -> None:
    limited = after(today(user=Budget(usd_per_day=1.0)), ANN)

    assert why_not(limited.standing(replace(ANN, day="2026-05-05"))) is None


def test_what_comes_late_for_yesterday_takes_nothing_from_today() -> None:
    limited = after(today(user=Budget(usd_per_day=1.0)), ANN)
    tomorrow = replace(ANN, day="2026-05-05")
    limited.take(tomorrow, DOLLAR)
    limited.take(ANN, DOLLAR)

    assert limited.standing(tomorrow).used == DOLLAR


def test_a_day_that_a_wrong_clock_comes_back_to_has_what_was_used_on_it() -> None:
    limited = after(today(user=Budget(usd_per_day=1.0)), ANN)
    next_year = replace(ANN, day="2027-05-04")
    assert why_not(limited.standing(next_year)) is None
    limited.take(next_year, DOLLAR)

    assert limited.standing(ANN).used == DOLLAR
    assert why_not(limited.standing(ANN)) is not None


def test_the_day_goes_on_where_an_earlier_run_left_it() -> None:
    limited = today(
        user=Budget(usd_per_day=1.0), chat=Budget(usd_per_day=9.0), total=Budget(usd_per_day=9.0)
    )
    limited.begin(
        DAY,
        [
            Used(payer=ANN.only(By.USER), spending=DOLLAR),
            Used(payer=ANN.only(By.CHAT), spending=DOLLAR + DOLLAR),
            Used(payer=Payer(day=DAY), spending=DOLLAR + DOLLAR + DOLLAR),
        ],
    )
    standing = limited.standing(ANN)

    assert standing.used == DOLLAR
    left = [allowance.left_in_words for allowance in (*standing.allowances, *standing.everybody)]
    assert left == [
        "$0.00 of $1.00",
        "$7.00 of $9.00 for this chat",
        "$6.00 of $9.00 for all users",
    ]


@pytest.mark.parametrize(
    ("moment", "zone", "day"),
    [
        (datetime(2026, 5, 4, 21, 59, tzinfo=UTC), "Europe/Berlin", "2026-05-04"),
        (datetime(2026, 5, 4, 22, 0, tzinfo=UTC), "Europe/Berlin", "2026-05-05"),
        (datetime(2026, 5, 4, 12, 0, tzinfo=UTC), "UTC", "2026-05-04"),
    ],
)
def test_the_day_is_that_of_the_place_where_the_gateway_lives(
    moment: datetime, zone: str, day: str
) -> None:
    assert Budgets(zone=zone).day(moment) == day


@pytest.mark.parametrize(
    ("usd", "words"), [(0.0, "$0.00"), (0.0042, "$0.0042"), (0.01, "$0.01"), (1234.5, "$1,234.50")]
)
def test_money_is_written_as_people_write_it(usd: float, words: str) -> None:
    assert money(usd) == words


@pytest.mark.parametrize(
    ("cost", "usd"),
    [
        (None, 0.0),
        (Cost(usd=0.5, status=CostStatus.REPORTED), 0.5),
        (Cost(status=CostStatus.UNKNOWN), None),
        (Cost(usd=0.5, status=CostStatus.PARTIAL), 0.5),
    ],
)
def test_a_price_that_nobody_knows_is_not_nothing(cost: Cost | None, usd: float | None) -> None:
    assert Spending.of(Spent(tokens=Tokens(input=1), cost=cost)).known_usd == usd
