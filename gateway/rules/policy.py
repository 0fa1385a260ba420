"""
The policy: what the operator configured, as the core uses it. Which agent answers where, what
belongs to one session, what agents may see.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta

from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.store_values import Opening
from turngate.gateway.domain.usage import Model
from turngate.gateway.rules.authorization import Access
from turngate.gateway.rules.budgets import Budgets
from turngate.gateway.rules.context_prompt import HomeChannel
from turngate.gateway.rules.history_window import HistoryRules
from turngate.gateway.rules.model_window import ModelWindow
from turngate.gateway.rules.pricing import Prices
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.rules.routing import (
    MAIN_AGENT,
    Route,
    agent_for,
    route_of,
)
from turngate.gateway.rules.session_keys import build_session_key, owner_of
from turngate.gateway.rules.session_lifecycle import ResetPolicies

# Entries: an allowance for commands, which are stored in the transcript but not shown.
_NOT_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredAgent:
    """
    An agent with its settings.

    `repeatable`: a turn may run again if the daemon died during it. `has_workdir`: it works on
    files, in a folder of the session. `timeout` limits a turn. `is_offered`: users may choose it
    where no route lists the choices. `prices` is None if unknown; `model` is who really answers, if
    known. `summarises`: it only talks, so it can write summaries without being configured for that.
    `window`: what its model is known to take at once. `sends`: it can send messages to other chats.
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
    window: ModelWindow = field(default_factory=ModelWindow)
    sends: bool = False


@dataclass(slots=True, kw_only=True)
class Policy:
    """
    One object for the whole gateway, shared by everything that needs it and replaced in place on a
    reload.

    `privacy_key` is None if ids need not be hidden; `pairing_key` hashes pairing codes. `notes`:
    for each platform, what agents should know about it.
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
    # repr=False: the keys must not appear in an error or an assertion.
    privacy_key: bytes | None = field(default=None, repr=False)
    pairing_key: bytes = field(default=b"", repr=False)
    redact_emails: bool = False
    connected: tuple[str, ...] = ()
    homes: tuple[HomeChannel, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"

    def replace_with(self, other: Policy) -> None:
        """Take over all settings of another policy at once."""
        # On the event loop and without an await, so no turn sees half of a reload.
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))

    @property
    def history_to_read(self) -> int:
        """How many entries a turn reads: more than it shows, because commands are not shown."""
        return self.history.messages + _NOT_SHOWN

    def key_of(self, source: SessionSource) -> SessionKey:
        return build_session_key(
            source,
            agent=agent_for(source, self.routes),
            per_user_in_groups=self.per_user_in_groups,
            per_user_in_threads=self.per_user_in_threads,
        )

    def owner_of(self, source: SessionSource) -> str | None:
        """Return whose session it is; None if it is shared."""
        return owner_of(
            source,
            per_user_in_groups=self.per_user_in_groups,
            per_user_in_threads=self.per_user_in_threads,
        )

    def opening(self, source: SessionSource) -> Opening:
        """Return how the session of a source is found or made."""
        return Opening(
            key=self.key_of(source),
            source=source,
            owner=self.owner_of(source),
            policy=self.resets.for_source(source),
        )

    def routed_agent(self, source: SessionSource) -> str:
        """Return the agent that answers in a session where nobody chose another."""
        routed = agent_for(source, self.routes)
        return routed if routed in self.agents else MAIN_AGENT

    def agent_of(self, session: Session) -> ConfiguredAgent:
        """Return the agent of a session: the chosen one if it still exists, else the routed one."""
        # A reload may have removed the agent that the session chose.
        routed = agent_for(session.origin, self.routes)
        return (
            self.agents.get(session.agent or routed)
            or self.agents.get(routed)
            or self.agents[MAIN_AGENT]
        )

    def summariser_of(self, session: Session) -> ConfiguredAgent | None:
        """
        Return the agent that writes summaries: the configured one, else the session's own if it
        can.
        """
        if self.summariser is not None:
            return self.agents[self.summariser]
        configured = self.agent_of(session)
        return configured if configured.summarises else None

    def offered(self, source: SessionSource, *, to_admin: bool) -> tuple[str, ...]:
        """Return the agents that may be chosen in a chat, the routed one first."""
        route = route_of(source, self.routes)
        choices = route.choices
        if to_admin:
            choices = tuple(self.agents)
        elif choices is None:
            choices = tuple(name for name, agent in self.agents.items() if agent.is_offered)
        return tuple(dict.fromkeys((route.agent, *choices)))

    def history_for(self, *agents: ConfiguredAgent) -> HistoryRules:
        """Return how much of a session is shown, where each of these models can take it."""
        rules = self.history
        for configured in agents:
            rules = rules.within(configured.window.most)
        return rules

    def is_repeatable(self, source: SessionSource) -> bool:
        """Return whether a turn may run again after a crash, if no other agent is chosen."""
        return self.agents.get(agent_for(source, self.routes), self.agents[MAIN_AGENT]).repeatable

    def timeouts_for(self, configured: ConfiguredAgent) -> TurnTimeouts:
        return TurnTimeouts(idle=self.idle_timeout, total=configured.timeout)

    def missing_agent(self, session: Session) -> str | None:
        """Return the agent that was chosen for a session and is no longer configured."""
        return session.agent if session.agent and session.agent not in self.agents else None

    @property
    def mark_key(self) -> bytes:
        """The key of the marks around other people's words; the same in every turn."""
        return hmac.digest(self.pairing_key, b"marks", "sha256")

    def redactor(self, platform: str) -> Redactor | None:
        """Return a new redactor, for one turn; None if ids need not be hidden."""
        if self.privacy_key is None:
            return None
        return Redactor(self.privacy_key, platform, emails=self.redact_emails)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTimeouts:
    """How long an agent may be silent, and how long a turn may take in total."""

    idle: timedelta
    total: timedelta | None = None
