"""Who may be chosen to answer, and by whom."""

from __future__ import annotations

from tests.fakes import ScriptedAgent
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route

ANN = SessionSource(platform="telegram", chat_id="1", user_id="1")


def policy(*routes: Route) -> Policy:
    return Policy(
        agents={
            name: ConfiguredAgent(name=name, agent=ScriptedAgent(), is_offered=name != "coder")
            for name in ("main", "poet", "coder")
        },
        routes=routes,
    )


def test_everybody_may_choose_who_only_talks() -> None:
    assert policy().offered(ANN, to_admin=False) == ("main", "poet")


def test_an_admin_may_choose_who_acts() -> None:
    assert policy().offered(ANN, to_admin=True) == ("main", "poet", "coder")


def test_where_one_is_routed_to_he_may_be_chosen() -> None:
    assert policy(Route(agent="coder", user="1")).offered(ANN, to_admin=False) == (
        "coder",
        "main",
        "poet",
    )


def test_a_route_says_who_else_may_be_chosen_there() -> None:
    assert policy(Route(agent="poet", choices=("coder",))).offered(ANN, to_admin=False) == (
        "poet",
        "coder",
    )
    assert policy(Route(agent="poet", choices=())).offered(ANN, to_admin=False) == ("poet",)
