"""`turngate usage`, as an operator meets it, with a daemon and without one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands import daemon, turngate
from tests.fakes import message
from tests.talk import begin
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.store_values import Outcome
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Payer,
    Spent,
    Tokens,
)
from turngate.gateway.stores.sqlite import SqliteStore

ANN = Payer(
    day="2026-05-04", platform="telegram", account="main", chat="-100", user="42", agent="main"
)
SPENT = Spent(
    tokens=Tokens(input=1200, output=300, cache_read=50),
    cost=Cost(usd=0.25, status=CostStatus.REPORTED),
)
UNPRICED = Spent(tokens=Tokens(input=100), estimated=True, cost=Cost(status=CostStatus.UNKNOWN))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder that is not there yet."""
    return tmp_path / "state"


def fill(state: Path, *paid: tuple[Payer, Spent]) -> None:
    """Let something have been used."""

    async def opened() -> None:
        with take_lock(state) as lock:
            store = await SqliteStore.connect(lock.state.database, SystemClock())
            for number, (payer, spent) in enumerate(paid):
                begun = await begin(store, message(id=str(number)))
                await store.finish(begun.turn, Outcome(spent=spent, payer=payer))
            await store.close()

    asyncio.run(opened())


def test_where_nothing_was_used_it_says_so(state: Path) -> None:
    assert turngate(state, "usage").stdout == "No usage recorded.\n"
    assert json.loads(turngate(state, "usage", "--json").stdout)["usage"] == []


def test_the_latest_day_comes_first_and_the_sum_last(state: Path) -> None:
    fill(state, (ANN, SPENT), (replace(ANN, day="2026-05-05"), SPENT))

    lines = turngate(state, "usage").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["DAY", "TURNS", "INPUT", "OUTPUT", "CACHED", "TOKENS", "COST"],
        ["2026-05-05", "1", "1,200", "300", "50", "1,550", "$0.25"],
        ["2026-05-04", "1", "1,200", "300", "50", "1,550", "$0.25"],
        ["all", "2", "2,400", "600", "100", "3,100", "$0.50"],
    ]


def test_people_chats_and_agents_are_named_as_in_the_config_the_largest_first(state: Path) -> None:
    small = replace(SPENT, cost=Cost(usd=0.01, status=CostStatus.REPORTED))
    fill(
        state,
        (ANN, small),
        (replace(ANN, account="support", chat="7", user="", agent="coder"), SPENT),
    )

    listed = {
        by: turngate(state, "usage", "--by", by).stdout.splitlines()
        for by in ("user", "chat", "agent")
    }
    assert [line.split()[0] for line in listed["user"]] == [
        "USER",
        "(unknown)",
        "telegram:42",
        "all",
    ]
    assert [line.split()[0] for line in listed["chat"]] == [
        "CHAT",
        "telegram/support:7",
        "telegram:-100",
        "all",
    ]
    assert [line.split()[0] for line in listed["agent"]] == ["AGENT", "coder", "main", "all"]


def test_what_is_estimated_or_has_no_price_is_marked_and_explained(state: Path) -> None:
    fill(
        state,
        (ANN, UNPRICED),
        (replace(ANN, user="43"), SPENT),
        (replace(ANN, user="43"), UNPRICED),
    )

    result = turngate(state, "usage", "--by", "user")
    assert [line.split()[-2:] for line in result.stdout.splitlines()[1:]] == [
        ["~1,650", "$0.25+"],
        ["~100", "?"],
        ["~1,750", "$0.25+"],
    ]
    assert result.stderr == (
        "~ 2 turns reported no tokens; theirs are estimated from the text.\n"
        "+ 2 turns had no known price; agents.NAME.price in the config says what an agent costs.\n"
    )


def test_the_document_has_every_number(state: Path) -> None:
    fill(state, (ANN, SPENT), (ANN, UNPRICED))

    assert json.loads(
        turngate(state, "usage", "--by", "chat", "--since", "2026-05-04", "--json").stdout
    ) == {
        "by": "chat",
        "since": "2026-05-04",
        "usage": [
            {
                "chat": "telegram:-100",
                "turns": 2,
                "tokens": {
                    "input": 1300,
                    "output": 300,
                    "cache_read": 50,
                    "cache_write": 0,
                    "total": 1650,
                },
                "cost_usd": 0.25,
                "estimated_turns": 1,
                "unpriced_turns": 1,
            }
        ],
        "total": {
            "turns": 2,
            "tokens": {
                "input": 1300,
                "output": 300,
                "cache_read": 50,
                "cache_write": 0,
                "total": 1650,
            },
            "cost_usd": 0.25,
            "estimated_turns": 1,
            "unpriced_turns": 1,
        },
    }


def test_days_before_the_one_asked_for_are_left_out(state: Path) -> None:
    fill(state, (ANN, SPENT))

    assert turngate(state, "usage", "--since", "2026-05-05").stdout == "No usage recorded.\n"


@pytest.mark.parametrize("day", ["yesterday", "2026-5-4", "20260504", "2026-02-30"])
def test_what_is_no_day_is_refused_with_an_example(state: Path, day: str) -> None:
    result = turngate(state, "usage", "--since", day)

    assert result.returncode == 1
    assert "is no day; write one as 2026-05-04" in result.stderr


def test_an_unknown_way_to_tell_apart_is_wrong_usage(state: Path) -> None:
    assert turngate(state, "usage", "--by", "moon").returncode == 2


def test_a_running_daemon_tells_of_what_was_just_said(state: Path) -> None:
    with daemon(state):
        turngate(state, "chat", said="how much is the fish")
        document = json.loads(turngate(state, "usage", "--by", "user", "--json").stdout)

    (row,) = document["usage"]
    assert (row["user"], row["turns"], row["cost_usd"]) == ("local:cli", 1, 0.0)
    assert row["tokens"]["total"] > 0


def test_prices_and_the_model_come_from_the_config_and_budgets_hold(state: Path) -> None:
    config = state.parent / "turngate.yaml"
    config.write_text(
        "agents:\n  main:\n    model: parrot\n    base_url: "
        "http://ann:secret@127.0.0.1:9/v1?key=secret\n"
        "    price: {input: 1000000, output: 0}\nbudgets: {user: {usd_per_day: 5}}\ntimezone: "
        "Europe/Berlin\n"
        "turns: {debounce: 1ms}\n"
    )
    first = turngate(state, "chat", "--config", str(config), said="one two three four five")
    second = turngate(state, "chat", "--config", str(config), said="six")
    (session,) = json.loads(turngate(state, "sessions", "list", "--json").stdout)["sessions"]

    assert "You said:" in first.stdout
    assert (
        "Today's budget of $5.00 is used up; it starts again at 00:00 Europe/Berlin."
        in second.stderr
    )
    assert (second.returncode, second.stdout) == (1, "")
    assert (session["cost_usd"], session["cost_status"]) == (5.0, "estimated")
    assert session["model"] == {
        "name": "parrot",
        "provider": "echo",
        "base_url": "http://127.0.0.1:9/v1",
    }
