"""
The agents loaded from the config, each with its fallbacks.

The module of a kind is imported by name, and only if an agent of that kind is configured.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from turngate.config.load import program_environment
from turngate.config.schema import Agent as AgentConfig
from turngate.config.schema import Config
from turngate.gateway.agents import AgentSpec, load_agent, traits_of
from turngate.gateway.agents.breaker import Breaker
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.domain.ports.agent import Agent, Closes, Examines
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.usage import Model
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.model_window import ModelWindow
from turngate.gateway.rules.policy import ConfiguredAgent
from turngate.gateway.rules.pricing import Prices

_SECONDS_TO_CLOSE = 3.0


class AgentPool:
    """The configured agents, and replaced ones that are open until their last turn is over."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._agents: dict[str, tuple[AgentSpec, Agent]] = {}
        self._learned: dict[str, _Learned] = {}
        self._leaving: list[Agent] = []

    async def load(self, config: Config) -> dict[str, ConfiguredAgent]:
        """
        Return the agents of a config by name. An agent whose spec is unchanged stays open.

        Raises ConfigError if one cannot be loaded; then nothing has changed.
        """
        specs = {name: _spec(name, agent) for name, agent in config.agents.items()}
        staying = {name: had for name, had in self._agents.items() if specs.get(name) == had[0]}
        # May raise, so the pool is changed only after it.
        hired = await _load(
            {name: spec for name, spec in specs.items() if name not in staying}, self._observer
        )
        self._leaving += [agent for name, (_, agent) in self._agents.items() if name not in staying]
        self._agents = staying | hired
        # What was learned holds as long as the same model is at the same address.
        self._learned = {name: self._learned.get(name, _Learned()) for name in staying} | {
            name: _Learned() for name in hired
        }
        links = {
            name: _link(name, config.agents[name], agent, self._learned[name])
            for name, (_, agent) in self._agents.items()
        }
        return {name: _configured(config.agents, name, links, self._observer) for name in links}

    def agent(self, name: str) -> Agent:
        """Return one agent alone, without its fallbacks."""
        return self._agents[name][1]

    async def examine(self, *, online: bool) -> AsyncIterator[tuple[str, Sequence[Finding]]]:
        """Check the agents one after the other, and yield the findings for each."""
        for name, (_, agent) in self._agents.items():
            if isinstance(agent, Examines):
                yield name, await agent.examine(online=online)

    async def close_replaced(self) -> None:
        """Close the agents that are no longer configured. No turn may use them any more."""
        leaving, self._leaving = self._leaving, []
        await _close_all(leaving, self._observer)

    async def close(self) -> None:
        """Close all agents, replaced ones included."""
        agents, self._agents = self._agents, {}
        await _close_all([agent for _, agent in agents.values()], self._observer)
        await self.close_replaced()


@dataclass(slots=True)
class _Learned:
    """What calls have shown of one agent, in memory only and shared by the chains it is in."""

    window: ModelWindow = field(default_factory=ModelWindow)
    breaker: Breaker = field(default_factory=Breaker)


async def _load(
    specs: Mapping[str, AgentSpec], observer: Observer
) -> dict[str, tuple[AgentSpec, Agent]]:
    loaded: dict[str, tuple[AgentSpec, Agent]] = {}
    try:
        for name, spec in specs.items():
            loaded[name] = spec, load_agent(spec)
    except BaseException:
        # The pool never sees these, so nothing else would close them.
        await _close_all([agent for _, agent in loaded.values()], observer)
        raise
    return loaded


async def _close_all(agents: Iterable[Agent], observer: Observer) -> None:
    """Close agents concurrently, with a timeout. One that fails or hangs does not affect others."""
    closing = [
        asyncio.ensure_future(_close(agent)) for agent in agents if isinstance(agent, Closes)
    ]
    # `asyncio.wait` raises on an empty set.
    closed, late = (
        await asyncio.wait(closing, timeout=_SECONDS_TO_CLOSE) if closing else (set(), set())
    )
    for error in filter(None, (each.exception() for each in closed if not each.cancelled())):
        observer.bug(error)
    for each in late:
        observer.closing_takes_too_long()
        # Not awaited: an agent that ignores cancellation would hang the shutdown.
        each.cancel()


async def _close(agent: Closes) -> None:
    await agent.close()


def _link(name: str, agent: AgentConfig, loaded: Agent, learned: _Learned) -> Link:
    # Programs and services may work for long before they say anything.
    first_token = agent.first_token if traits_of(agent.kind).is_model else None
    return Link(
        name=name,
        agent=loaded,
        attempts=agent.attempts,
        system=agent.system_prompt,
        first_token=first_token.total_seconds() if first_token is not None else None,
        patience=agent.patience.total_seconds(),
        window=learned.window,
        breaker=learned.breaker,
    )


def _configured(
    config: Mapping[str, AgentConfig], name: str, links: Mapping[str, Link], observer: Observer
) -> ConfiguredAgent:
    """
    Return an agent with its fallbacks. It is repeatable only if every agent of the chain is.

    By default any user may choose an agent without side effects; others only if the config says so.
    """
    # Which agent of the chain answers is not known in advance, so its properties are combined.
    chain = {each: config[each] for each in (name, *config[name].fallback)}
    traits = [traits_of(agent.kind) for agent in chain.values()]
    return ConfiguredAgent(
        name=name,
        agent=FallbackAgent([links[each] for each in chain], observer.agent_unavailable),
        system=config[name].system_prompt,
        repeatable=all(map(_is_repeatable, chain.values())),
        has_workdir=any(each.has_side_effects for each in traits),
        timeout=config[name].timeout,
        is_offered=_is_offered(config[name]),
        prices=_prices(config[name]),
        model=_model(config[name]),
        sends=any(map(_sends, chain.values())),
        summarises=all(each.is_model for each in traits),
        window=links[name].window,
    )


def _sends(agent: AgentConfig) -> bool:
    """Return whether it can send to other chats: its protocol must have an event for that."""
    if agent.kind == "command":
        return agent.format == "jsonl"
    return traits_of(agent.kind).sends


def _is_repeatable(agent: AgentConfig) -> bool:
    is_safe = not traits_of(agent.kind).has_side_effects
    return is_safe if agent.repeatable is None else agent.repeatable


def _is_offered(agent: AgentConfig) -> bool:
    is_safe = not traits_of(agent.kind).has_side_effects
    return is_safe if agent.offered is None else agent.offered


def _prices(agent: AgentConfig) -> Prices | None:
    """Return the prices. Without configured ones the echo agent is free; others are unpriced."""
    if agent.price is None:
        return Prices() if agent.kind == "echo" else None
    return Prices(**agent.price.model_dump())


def _model(agent: AgentConfig) -> Model:
    address = agent.url or agent.base_url
    # Stored with sessions and shown by commands: the address must not contain a secret.
    return Model(
        name=agent.model or agent.kind, provider=agent.kind, base_url=address and _bare(address)
    )


def _bare(address: str) -> str:
    """Return a URL without user, password, query and fragment, which may be secret."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _spec(name: str, agent: AgentConfig) -> AgentSpec:
    return AgentSpec(
        name=name,
        kind=agent.kind,
        url=agent.url or agent.base_url,
        api_key=agent.api_key.get_secret_value() if agent.api_key else None,
        model=agent.model,
        api=agent.api,
        argv=agent.argv,
        format=agent.format,
        env=program_environment()
        | {name: value.get_secret_value() for name, value in agent.env.items()},
        object=agent.object,
        options=agent.options,
        attempts=agent.attempts,
        timeout=agent.timeout,
        images=agent.images,
        max_tokens=agent.max_tokens,
        memory=agent.memory,
        session_end=agent.session_end,
    )
