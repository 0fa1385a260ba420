"""Whatever answers: one kind of agent, one file. Each is loaded when the config names its kind."""

from importlib import import_module

from gateway.ports import Agent


def load_agent(kind: str) -> Agent:
    """An agent of that kind; every file here has a `make`."""
    agent: Agent = import_module(f"gateway.agents.{kind}").make()
    return agent
