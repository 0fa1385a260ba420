"""
The agent kind `python`: the operator's own Python code, inside the gateway's process.

`object: package.module:factory` names a function that is called once with the `options` of the
config and returns the agent: anything with a `run(turn)` that yields events. It may yield strings
and event dicts instead of our types. Its `session_end(ending)`, if any, is called when a session
ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import get_args

from turngate.gateway.agents.json_protocol import event_of
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
)
from turngate.gateway.domain.errors import AgentError, ConfigError
from turngate.gateway.domain.ports.agent import (
    Agent,
    Closes,
    TakesAnswers,
    TakesSteering,
)
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import SessionEnded
from turngate.gateway.domain.transcript import Text

_EVENTS = get_args(AgentEvent)

Factory = Callable[[dict[str, Json]], object]


def make(spec: AgentSpec) -> PythonAgent:
    """Call the configured factory. Raises ConfigError, with a remedy, if it gives no agent."""
    where = f"agents.{spec.name}"
    if not spec.object:
        raise ConfigError(f"{where}: which object? write object: package.module:factory")

    factory = _factory(where, spec.object)
    try:
        agent = factory(dict(spec.options))
    # The operator's code may raise anything; its sys.exit must not end the daemon.
    except (Exception, SystemExit) as exc:
        raise ConfigError(f"{where}: {spec.object} failed", words=_told(exc)) from exc

    if not callable(getattr(agent, "run", None)):
        what = f"{spec.object} returned a {type(agent).__name__} without run(turn)"
        raise ConfigError(f"{where}: {what}; return an object with an async generator of that name")

    return PythonAgent(agent)  # type: ignore[arg-type]


class PythonAgent:
    """The operator's agent behind our port, with those of the optional methods that it has."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        # The ports are checked by the presence of these names, so each is set only if it works:
        # a question would otherwise wait for an answer that the agent cannot take.
        if isinstance(agent, TakesAnswers):
            self.answer = agent.answer
        if isinstance(agent, TakesSteering):
            self.steer = agent.steer
        if isinstance(agent, Closes):
            self.close = agent.close
        if callable(getattr(agent, "session_end", None)):
            self.session_end = self._session_end

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Yield its events: a string is text, a dict an event of the JSON protocol."""
        produced: object = self._agent.run(turn)
        if inspect.isawaitable(produced):
            yield Text(await _whole(produced))
        elif isinstance(produced, AsyncGenerator):
            # `async for` does not close a generator that it leaves early, and closing it is how
            # a turn is stopped.
            async with aclosing(produced):
                async for each in produced:
                    if (event := _event(each)) is not None:
                        yield event
                    if isinstance(event, Done):
                        return
        else:
            raise AgentError(
                f"its run(turn) gave a {type(produced).__name__}, and not an async generator"
            )

        yield Done()

    async def _session_end(self, ending: SessionEnded) -> None:
        end: Callable[[SessionEnded], object]
        end = self._agent.session_end  # type: ignore[attr-defined]
        # A plain function may block, so it runs in a thread and not on the event loop.
        produced = (
            end(ending)
            if inspect.iscoroutinefunction(end)
            else await asyncio.to_thread(end, ending)
        )
        if inspect.isawaitable(produced):
            await produced


def _factory(where: str, name: str) -> Factory:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"{where}: {name} is not package.module:factory")

    try:
        found: object = reduce(getattr, attribute.split("."), _module(where, module))
    except AttributeError as exc:
        raise ConfigError(f"{where}: the module {module} has no {attribute}") from exc

    if not callable(found):
        raise ConfigError(
            f"{where}: {name} is a {type(found).__name__}; name a function that returns the agent"
        )

    return found


def _module(where: str, name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        cure = "name its folder in PYTHONPATH, or install it beside turngate"
        raise ConfigError(f"{where}: there is no module {exc.name}; {cure}") from exc
    except (Exception, SystemExit) as exc:  # a script may call sys.exit when it is imported
        raise ConfigError(
            f"{where}: the module {name} cannot be imported", words=_told(exc)
        ) from exc


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _whole(produced: Awaitable[object]) -> str:
    answer = await produced
    if not isinstance(answer, str):
        raise AgentError(f"its run(turn) returned a {type(answer).__name__}, and not a text")
    return answer


def _event(produced: object) -> AgentEvent | None:
    if isinstance(produced, str):
        return Text(produced)
    if isinstance(produced, dict):
        return event_of(produced)
    if isinstance(produced, _EVENTS):
        event: AgentEvent = produced
        return event
    raise AgentError(f"its run(turn) yielded a {type(produced).__name__}, and not an event")
