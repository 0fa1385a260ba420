"""What the operator decided, in the core's own words: who answers where, what belongs together, what agents may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta

from turngate.gateway.domain.messages import Model, Session, SessionKey, SessionSource
from turngate.gateway.domain.ports.adapter import Agent
from turngate.gateway.domain.ports.store import Opening
from turngate.gateway.rules.authorization import Access
from turngate.gateway.rules.budgets import Budgets
from turngate.gateway.rules.context_prompt import HomeChannel
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.pricing import Prices
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.rules.routing import MAIN_AGENT, Route, agent_for, route_of
from turngate.gateway.rules.session_keys import build_session_key, owner_of
from turngate.gateway.rules.session_lifecycle import ResetPolicies
from turngate.gateway.turns.agent_run import Patience

_NOT_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredAgent:
    """
    An agent under the name the config gives it.

    `repeatable`: a turn may run again if the daemon died during it. `has_workdir`: works on files, in a folder of the
    session's. `timeout` bounds a turn. `is_offered`: everybody may choose it, where no route says who may be chosen.
    `prices` is None where nobody said what it costs; `model` is who really answers, as far as that is known.
    `summarises`: only talks, so that it can be asked for a summary without being named for it.
    """

    name: str
    agent: Agent
    system: str = ""
    repeatable: bool = True
    has_workdir: bool = False
    timeout: timedelta | None = None
    is_offered: bool = True
    prices: Prices | None = None
    model: Model | None = None
    summarises: bool = False


@dataclass(slots=True, kw_only=True)
class Policy:
    """
    One for the whole gateway: whoever needs it holds it, and asks it anew each time. It changes in `become` alone.

    `privacy_key` is None where ids need not be hidden; `pairing_key` hides codes.
    """

    agents: Mapping[str, ConfiguredAgent]
    access: Access = field(default_factory=Access)
    routes: Sequence[Route] = ()
    per_user_in_groups: bool = True
    per_user_in_threads: bool = False
    resets: ResetPolicies = field(default_factory=ResetPolicies)
    history: HistoryRules = field(default_factory=HistoryRules)
    compacts: bool = True
    summariser: str | None = None
    idle_timeout: timedelta = timedelta(minutes=30)
    answer_within: timedelta = timedelta(hours=1)
    budgets: Budgets = field(default_factory=Budgets)
    privacy_key: bytes | None = field(default=None, repr=False)
    pairing_key: bytes = field(default=b"", repr=False)
    redact_emails: bool = False
    connected: tuple[str, ...] = ()
    homes: tuple[HomeChannel, ...] = ()

    def become(self, other: Policy) -> None:
        """Decide as the other does from now on, in everything and for everybody at once."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    @property
    def history_to_read(self) -> int:
        """How many entries a turn reads: some are commands, which are not shown."""
        return self.history.messages + _NOT_SHOWN

    def key_of(self, source: SessionSource) -> SessionKey:
        """Which conversation a message from there belongs to."""
        return build_session_key(
            source,
            agent=agent_for(source, self.routes),
            per_user_in_groups=self.per_user_in_groups,
            per_user_in_threads=self.per_user_in_threads,
        )

    def owner_of(self, source: SessionSource) -> str | None:
        """Whose conversation that is; nobody's where it is shared."""
        return owner_of(
            source,
            per_user_in_groups=self.per_user_in_groups,
            per_user_in_threads=self.per_user_in_threads,
        )

    def opening(self, source: SessionSource) -> Opening:
        """How the session of a message from there is found."""
        return Opening(
            key=self.key_of(source),
            source=source,
            owner=self.owner_of(source),
            policy=self.resets.for_source(source),
        )

    def agent_of(self, session: Session) -> ConfiguredAgent:
        """Who answers in a session: the one chosen for it, if it is still there, else the one routed to."""
        routed = agent_for(session.origin, self.routes)
        return (
            self.agents.get(session.agent or routed)
            or self.agents.get(routed)
            or self.agents[MAIN_AGENT]
        )

    def summariser_of(self, session: Session) -> ConfiguredAgent | None:
        """Who writes the summary of a long session: the one that is named for it, else its own agent if that can."""
        if self.summariser is not None:
            return self.agents[self.summariser]
        employed = self.agent_of(session)
        return employed if employed.summarises else None

    def offered(self, source: SessionSource, *, to_admin: bool) -> tuple[str, ...]:
        """The agents that may be chosen for a conversation there, the one that is routed to first."""
        route = route_of(source, self.routes)
        choices = route.choices
        if to_admin:
            choices = tuple(self.agents)
        elif choices is None:
            choices = tuple(name for name, agent in self.agents.items() if agent.is_offered)
        return tuple(dict.fromkeys((route.agent, *choices)))

    def is_repeatable(self, source: SessionSource) -> bool:
        """Whether a turn from there may run again after a crash in the middle, if nobody chose another agent."""
        return self.agents.get(agent_for(source, self.routes), self.agents[MAIN_AGENT]).repeatable

    def patience_with(self, employed: ConfiguredAgent) -> Patience:
        """How long it may take."""
        return Patience(idle=self.idle_timeout, total=employed.timeout)

    def missing_agent(self, session: Session) -> str | None:
        """The agent that was chosen for a session and is no longer in the config."""
        return session.agent if session.agent and session.agent not in self.agents else None

    def redactor(self, platform: str) -> Redactor | None:
        """The pseudonyms of one conversation, made anew for each turn from what is said and shown in it."""
        if self.privacy_key is None:
            return None
        return Redactor(self.privacy_key, platform, emails=self.redact_emails)
