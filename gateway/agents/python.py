"""
An agent that is the operator's own Python, inside the gateway's process.

`object: package.module:factory` names a function that is called once with the `options` of the
config and returns the agent: anything with a `run(turn)` that yields events. Texts and the
contract's dicts will do in place of our types. One that has a `session_end(ending)` is told when a
session is over.
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
    TakesWords,
)
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import SessionEnded
from turngate.gateway.domain.transcript import Text

_EVENTS = get_args(AgentEvent)

Factory = Callable[[dict[str, Json]], object]


def make(spec: AgentSpec) -> PythonAgent:
    """
    What the factory makes of the options. Raises ConfigError with the cure if there is nothing that
    could run.
    """
    place = f"agents.{spec.name}"
    if not spec.object:
        raise ConfigError(f"{place}: which object? write object: package.module:factory")

    factory = _factory(place, spec.object)
    try:
        agent = factory(dict(spec.options))
    except (Exception, SystemExit) as exc:
        raise ConfigError(f"{place}: {spec.object} failed", words=_told(exc)) from exc

    if not callable(getattr(agent, "run", None)):
        what = f"{spec.object} returned a {type(agent).__name__} without run(turn)"
        raise ConfigError(f"{place}: {what}; return an object with an async generator of that name")

    return PythonAgent(agent)  # type: ignore[arg-type]


class PythonAgent:
    """Somebody's agent, held to our port. It hears answers and words, and is closed, if it can."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        if isinstance(agent, TakesAnswers):
            self.answer = agent.answer
        if isinstance(agent, TakesWords):
            self.steer = agent.steer
        if isinstance(agent, Closes):
            self.close = agent.close
        if callable(getattr(agent, "session_end", None)):
            self.session_end = self._session_end

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Its events; a text is words, a dict is an event of the contract."""
        said: object = self._agent.run(turn)
        if inspect.isawaitable(said):
            yield Text(await _whole(said))
        elif isinstance(said, AsyncGenerator):
            async with aclosing(said):
                async for each in said:
                    if (event := _event(each)) is not None:
                        yield event
                    if isinstance(event, Done):
                        return
        else:
            raise AgentError(
                f"its run(turn) gave a {type(said).__name__}, and not an async generator"
            )

        yield Done()

    async def _session_end(self, ending: SessionEnded) -> None:
        """Its own; one that does not await is called where it holds nobody up."""
        end: Callable[[SessionEnded], object] = self._agent.session_end  # type: ignore[attr-defined]
        said = (
            end(ending)
            if inspect.iscoroutinefunction(end)
            else await asyncio.to_thread(end, ending)
        )
        if inspect.isawaitable(said):
            await said


def _factory(place: str, name: str) -> Factory:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(f"{place}: {name} is not package.module:factory")

    try:
        found: object = reduce(getattr, attribute.split("."), _module(place, module))
    except AttributeError as exc:
        raise ConfigError(f"{place}: the module {module} has no {attribute}") from exc

    if not callable(found):
        raise ConfigError(
            f"{place}: {name} is a {type(found).__name__}; name a function that returns the agent"
        )

    return found


def _module(place: str, name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        cure = "name its folder in PYTHONPATH, or install it beside turngate"
        raise ConfigError(f"{place}: there is no module {exc.name}; {cure}") from exc
    except (Exception, SystemExit) as exc:  # a script ends, where a module only defines
        raise ConfigError(
            f"{place}: the module {name} cannot be imported", words=_told(exc)
        ) from exc


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _whole(said: Awaitable[object]) -> str:
    answer = await said
    if not isinstance(answer, str):
        raise AgentError(f"its run(turn) returned a {type(answer).__name__}, and not a text")
    return answer


def _event(said: object) -> AgentEvent | None:
    if isinstance(said, str):
        return Text(said)
    if isinstance(said, dict):
        return event_of(said)
    if isinstance(said, _EVENTS):
        event: AgentEvent = said
        return event
    raise AgentError(f"its run(turn) yielded a {type(said).__name__}, and not an event")
