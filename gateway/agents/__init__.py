"""The agent kinds, one module each, imported when the config names the kind."""

from importlib import import_module
from importlib.metadata import entry_points

from turngate.gateway.agents.spec import AgentSpec, Traits
from turngate.gateway.domain.errors import ConfigError
from turngate.gateway.domain.ports.agent import Agent

__all__ = ["AgentSpec", "Traits", "load_agent", "traits_of"]

ENTRY_POINTS = "turngate.agents"


def load_agent(spec: AgentSpec) -> Agent:
    """
    Make the agent that the operator describes. Raises ConfigError if it cannot be made.

    A kind is a module here with a function `make`, or a function that another package names in the
    entry point group `turngate.agents`.
    """
    outside = entry_points(group=ENTRY_POINTS, name=spec.kind)
    module = f"turngate.gateway.agents.{spec.kind}"
    try:
        make = next(iter(outside)).load() if outside else import_module(module).make
    except ModuleNotFoundError as exc:
        # Any other name is a library that the kind imports, an optional dependency.
        if exc.name == module:
            raise ConfigError(f"agents.{spec.name}: there is no kind {spec.kind}") from exc
        cure = "install what its package needs" if outside else f"install turngate[{spec.kind}]"
        raise ConfigError(
            f"agents.{spec.name}: its library {exc.name} is not installed; {cure}"
        ) from exc

    agent: Agent = make(spec)
    return agent


def traits_of(kind: str) -> Traits:
    """Return what holds for a kind; for one of another package, that nothing is known of it."""
    if entry_points(group=ENTRY_POINTS, name=kind):
        return Traits()
    traits = getattr(import_module(f"turngate.gateway.agents.{kind}"), "TRAITS", Traits())
    assert isinstance(traits, Traits)  # noqa: S101 - narrows the type for mypy
    return traits
