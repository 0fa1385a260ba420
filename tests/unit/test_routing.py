"""Which agent answers where, and what an operator's decisions come to."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fakes import NOON, ScriptedAgent
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.session import ResetPolicy, Session
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route, agent_for
from turngate.gateway.rules.session_lifecycle import ResetPolicies

GROUP = SessionSource(
    platform="slack", account="work", chat_type=ChatType.GROUP, chat_id="C1", user_id="U1"
)


@pytest.mark.parametrize(
    "route",
    [
        Route(agent="poet"),
        Route(agent="poet", platform="slack"),
        Route(agent="poet", account="work"),
        Route(agent="poet", chat_type="group"),
        Route(agent="poet", chat="C1"),
        Route(agent="poet", user="U1"),
        Route(
            agent="poet", platform="slack", account="work", chat_type="group", chat="C1", user="U1"
        ),
    ],
)
def test_a_route_fits_where_all_that_it_names_is_so(route: Route) -> None:
    assert agent_for(GROUP, [route]) == "poet"


@pytest.mark.parametrize(
    "route",
    [
        Route(agent="poet", platform="web"),
        Route(agent="poet", account="main"),
        Route(agent="poet", chat_type="dm"),
        Route(agent="poet", chat="C2"),
        Route(agent="poet", user="U2"),
        Route(agent="poet", chat="C1", user="U2"),
    ],
)
def test_one_thing_that_differs_is_enough_not_to_fit(route: Route) -> None:
    assert agent_for(GROUP, [route]) == "main"


def test_the_first_route_that_fits_wins() -> None:
    routes = [Route(agent="clerk", chat="C2"), Route(agent="poet", chat="C1"), Route(agent="cook")]

    assert agent_for(GROUP, routes) == "poet"


def test_a_route_for_a_person_knows_him_by_his_lasting_id() -> None:
    source = SessionSource(platform="signal", chat_id="c", user_id="+49", user_id_alt="uuid")

    assert agent_for(source, [Route(agent="poet", user="uuid")]) == "poet"
    assert agent_for(source, [Route(agent="poet", user="+49")]) == "main"


class TestPolicy:
    POLICY = Policy(
        agents={
            name: ConfiguredAgent(name=name, agent=ScriptedAgent()) for name in ("main", "poet")
        },
        routes=[Route(agent="poet", chat="C1")],
        history=HistoryRules(messages=30),
        resets=ResetPolicies(by_platform={"slack": ResetPolicy(idle_after=timedelta(hours=1))}),
    )

    def session(self, agent: str | None) -> Session:
        return Session(
            id=SessionId("s"),
            key=SessionKey("k"),
            origin=GROUP,
            started_at=NOON,
            last_interaction_at=NOON,
            updated_at=NOON,
            agent=agent,
        )

    def test_the_agent_that_was_chosen_answers_then_the_one_routed_to(self) -> None:
        assert self.POLICY.agent_of(self.session("main")).name == "main"
        assert self.POLICY.agent_of(self.session(None)).name == "poet"

    def test_an_agent_that_is_gone_is_replaced_and_named(self) -> None:
        assert self.POLICY.agent_of(self.session("cook")).name == "poet"
        assert self.POLICY.missing_agent(self.session("cook")) == "cook"
        assert self.POLICY.missing_agent(self.session("main")) is None

    def test_agents_have_their_conversations_apart(self) -> None:
        assert self.POLICY.key_of(GROUP).startswith("agent:poet:")

    def test_an_opening_knows_key_owner_and_reset(self) -> None:
        opening = self.POLICY.opening(GROUP)

        assert opening.key == self.POLICY.key_of(GROUP)
        assert opening.owner == "slack/work:U1"
        assert opening.policy == ResetPolicy(idle_after=timedelta(hours=1))

    def test_more_is_read_than_is_shown_because_commands_are_not(self) -> None:
        assert self.POLICY.history_to_read > 30

    def test_without_a_key_nothing_is_hidden_and_with_one_it_is_not_shown(self) -> None:
        hiding = Policy(agents={}, privacy_key=b"k" * 32)

        assert self.POLICY.redactor("slack") is None
        assert hiding.redactor("slack") is not None
        assert "kkk" not in repr(hiding)
