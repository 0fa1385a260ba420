"""Whatever answers: one kind of agent, one file. Each is loaded when the config names its kind."""

from importlib import import_module

from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.ports.adapter import Agent

__all__ = ["AgentSpec", "load_agent"]


def load_agent(spec: AgentSpec) -> Agent:
    """An agent as the operator describes it; every kind has a `make`. Raises ConfigError for what it cannot be."""
    try:
        kind = import_module(f"turngate.gateway.agents.{spec.kind}")
    except ModuleNotFoundError as exc:
        if exc.name == f"turngate.gateway.agents.{spec.kind}":
            raise ConfigError(f"agents.{spec.name}: there is no kind {spec.kind}") from exc
        cure = f"install turngate[{spec.kind}]"
        raise ConfigError(
            f"agents.{spec.name}: its library {exc.name} is not installed; {cure}"
        ) from exc
    agent: Agent = kind.make(spec)
    return agent
