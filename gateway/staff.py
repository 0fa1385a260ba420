"""
The agents of the config, ready to be asked: each with what stands in for it.

Each kind is imported by name, and only for those who have an agent of that kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

from config.load import given_to_programs
from config.schema import Agent as AgentConfig
from config.schema import Config
from gateway.agents import AgentSpec, load_agent
from gateway.agents.chain import Link, chained
from gateway.model import Model
from gateway.observe import Observer
from gateway.policy import Employed
from gateway.ports import Agent, Closes
from gateway.prices import Prices

# Kinds that only talk: a turn may run again after a crash unless the config says otherwise, and they have no use for a
# folder to work in.
_MODELS = ("openai", "anthropic")
_TALKERS = ("echo", *_MODELS)


@asynccontextmanager
async def employed(config: Config, observer: Observer) -> AsyncIterator[dict[str, Employed]]:
    """By name. Leaving ends whatever they keep open between turns."""
    agents = {name: load_agent(_spec(name, agent)) for name, agent in config.agents.items()}
    try:
        yield {name: _employed(config.agents, name, agents, observer) for name in config.agents}
    finally:
        await _close(list(agents.values()))


async def _close(agents: Sequence[Agent]) -> None:
    await asyncio.gather(*(agent.close() for agent in agents if isinstance(agent, Closes)))


def _employed(
    config: Mapping[str, AgentConfig], name: str, agents: Mapping[str, Agent], observer: Observer
) -> Employed:
    """
    With those that stand in for it. What one of them must not do twice, the whole does not.

    Who only talks may be chosen by everybody; who can act, by those whom the operator lets.
    """
    chain = {each: config[each] for each in (name, *config[name].fallback)}
    links = [
        Link(name=each, agent=agents[each], attempts=agent.attempts, system=agent.system_prompt)
        for each, agent in chain.items()
    ]
    return Employed(
        name=name,
        agent=chained(links, observer.agent_unavailable),
        system=config[name].system_prompt,
        repeatable=all(map(_is_repeatable, chain.values())),
        has_workdir=any(agent.kind not in _TALKERS for agent in chain.values()),
        timeout=config[name].timeout,
        is_offered=_is_offered(config[name]),
        prices=_prices(config[name]),
        model=_model(config[name]),
        summarises=all(agent.kind in _MODELS for agent in chain.values()),
    )


def _is_repeatable(agent: AgentConfig) -> bool:
    return agent.kind in _TALKERS if agent.repeatable is None else agent.repeatable


def _is_offered(agent: AgentConfig) -> bool:
    return agent.kind in _TALKERS if agent.offered is None else agent.offered


def _prices(agent: AgentConfig) -> Prices | None:
    """The echo agent costs nothing, and nobody has to say so."""
    if agent.price is None:
        return Prices() if agent.kind == "echo" else None
    return Prices(**agent.price.model_dump())


def _model(agent: AgentConfig) -> Model:
    address = agent.url or agent.base_url
    return Model(name=agent.model or agent.kind, provider=agent.kind, base_url=address and _bare(address))


def _bare(address: str) -> str:
    """Without a password, a query or whatever else of an address may be secret."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _spec(name: str, agent: AgentConfig) -> AgentSpec:
    return AgentSpec(
        name=name,
        kind=agent.kind,
        url=agent.url or agent.base_url,
        api_key=agent.api_key.get_secret_value() if agent.api_key else None,
        model=agent.model,
        argv=agent.argv,
        format=agent.format,
        env=given_to_programs() | {name: value.get_secret_value() for name, value in agent.env.items()},
        object=agent.object,
        options=agent.options,
        attempts=agent.attempts,
        timeout=agent.timeout,
        images=agent.images,
        max_tokens=agent.max_tokens,
        memory=agent.memory,
    )
