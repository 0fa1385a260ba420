"""What a turn used and costs: the agent's word first, then the table, then an honest guess."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes import NOON, assistant, dm, message, said, user
from turngate.gateway.domain.agent_events import Turn as AgentTurn
from turngate.gateway.domain.ids import (
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import (
    Entry,
    Origin,
    Role,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Spent,
    Tokens,
)
from turngate.gateway.rules.pricing import (
    Prices,
    counted,
    priced,
)
from turngate.gateway.rules.token_estimate import estimate_text_tokens, estimate_tokens

PRICES = Prices(input=1.0, output=10.0, cache_read=0.1, cache_write=2.0)
REPORTED = Spent(
    tokens=Tokens(input=1_000_000, output=100_000, cache_read=10, cache_write=0), prompt_tokens=7
)


def turn(*history: Entry) -> AgentTurn:
    session = Session(
        id=SessionId("s"),
        key=SessionKey("k"),
        origin=dm(),
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
    )
    return AgentTurn(
        id=TurnId(1),
        session=session,
        source=dm(),
        messages=(message("how much is the fish"),),
        history=history,
        system="You are helpful.",
        context="DM with Ann",
    )


def test_what_was_reported_is_not_estimated() -> None:
    assert counted(REPORTED, turn(), [assistant("words")]) == REPORTED


def test_where_nothing_was_reported_all_that_was_shown_and_said_is_counted() -> None:
    history = (user("before"), assistant("yes"))
    answer = assistant("a fish is three pounds")
    result = said(Role.TOOL, "three")

    spent = counted(Spent(), turn(*history), [answer, result])

    words = ("You are helpful.", "DM with Ann", "how much is the fish")
    shown = sum(map(estimate_text_tokens, words)) + sum(map(estimate_tokens, (*history, result)))
    assert spent.estimated
    assert spent.tokens == Tokens(input=shown, output=estimate_tokens(answer))
    assert spent.prompt_tokens == shown


@pytest.mark.parametrize(
    "entries", [[], [said(Role.ASSISTANT, "There is no answer.", origin=Origin.COMMAND)]]
)
def test_an_agent_that_said_nothing_used_nothing(entries: list[Entry]) -> None:
    assert counted(Spent(), turn(), entries) == Spent()


def test_the_table_says_what_a_million_tokens_cost() -> None:
    cost = priced(REPORTED, PRICES).cost

    assert cost is not None
    assert cost.usd == pytest.approx(1.0 + 1.0 + 0.000001)
    assert (cost.status, cost.source) == (CostStatus.ESTIMATED, "config")


def test_what_the_agent_says_it_cost_wins_over_the_table() -> None:
    spent = replace(REPORTED, cost=Cost(usd=0.5, status=CostStatus.REPORTED))

    assert priced(spent, PRICES).cost == Cost(usd=0.5, status=CostStatus.REPORTED, source="agent")


def test_without_a_price_the_cost_is_unknown_and_not_nothing() -> None:
    assert priced(REPORTED, None).cost == Cost(status=CostStatus.UNKNOWN)


def test_what_was_not_used_has_no_cost() -> None:
    assert priced(Spent(), PRICES).cost is None
    assert priced(Spent(), None).cost is None
