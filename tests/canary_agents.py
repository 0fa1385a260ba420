"""
Agents that fail in every way they can, each time with words that nobody else may repeat.

Loaded by name from the config of a daemon. What a message begins with says what goes wrong; the
canaries are in the options, by the place they are hidden in.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import warnings
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.canaries import Canaries
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Done,
    File,
    Send,
    Tool,
    ToolStatus,
    Turn,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.transcript import Reasoning, Text

_HIDDEN = (
    *("exception", "cause", "agent_error", "target", "file", "question", "option"),
    *("thought", "output", "tool", "tool_input", "tool_output"),
)


def described(canaries: Canaries) -> str:
    """Such an agent in the config, with canaries wherever there is room for one."""
    options = {name: canaries.word(name) for name in _HIDDEN}
    options["platform"] = canaries.keep("platform", "canaryplatform")
    return f"{{kind: python, object: 'tests.canary_agents:failing', options: {options}}}"


class Failing:
    """`break X` in a message picks what happens."""

    def __init__(self, options: dict[str, object]) -> None:
        self._words = {name: str(value) for name, value in options.items()}
        self._asked: dict[TurnId, asyncio.Event] = {}

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Something of everything, then the failure that was asked for."""
        told, words = turn.messages[-1].text, self._words
        yield Reasoning(text=words["thought"])
        yield Text(words["output"])
        yield Tool(id="1", name=words["tool"], status=ToolStatus.STARTED, input=words["tool_input"])
        yield Tool(
            id="1", name=words["tool"], status=ToolStatus.FAILED, output=words["tool_output"]
        )
        if "break" in told:
            async for event in self._break(told.rpartition("break ")[2].split()[0], turn):
                yield event
        yield Done()

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        """Whatever it is, the turn goes on."""
        self._asked.pop(turn).set()

    async def _break(self, how: str, turn: Turn) -> AsyncGenerator[AgentEvent]:
        words = self._words
        match how:
            case "bug":
                raise RuntimeError(words["exception"]) from KeyError(words["cause"])
            case "error":
                raise AgentError(words["agent_error"])
            case "refusal":
                raise AgentRefused("it will not", words=words["agent_error"])
            case "unavailable":
                raise AgentUnavailable("it cannot", words=words["agent_error"])
            case "exit":
                raise SystemExit(words["exception"])
            case "silence":
                await asyncio.Event().wait()
            case "sends":
                yield Send(target=f"telegram:{words['target']}", text=words["output"])
                yield Send(target=words["target"], text=words["output"])
                yield Send(target=f"nowhere{words['target'].lower()}", text=words["output"])
                yield Send(target=words["platform"], text=words["output"])
                yield Send(target=f"{words['platform']}:7", text=words["output"])
                yield File(path=f"/nowhere/{words['file']}", name=words["file"])
                yield Ask(id="1", text=words["output"], options=())
            case "asks":
                answered = self._asked[turn.id] = asyncio.Event()
                yield Ask(id="1", text=words["question"], options=(words["option"], "No"))
                await answered.wait()
            case "gives":
                path = Path(str(turn.workdir), words["file"])
                path.write_text(words["output"])
                yield File(path=str(path), name=words["file"])
            case "surroundings":
                self._break_surroundings()

    def _break_surroundings(self) -> None:
        """What no caller hears of: Python itself tells, or a library."""
        words = self._words

        async def nobody_asks() -> None:
            raise RuntimeError(words["exception"])

        asyncio.ensure_future(nobody_asks())  # noqa: RUF006 - that nobody keeps it is what is tried
        asyncio.get_running_loop().call_soon(_raise, words["exception"])
        threading.Thread(target=_raise, args=(words["exception"],)).start()
        _Dying(words["exception"])
        warnings.warn(words["exception"], stacklevel=1)
        logging.getLogger("somebodys.library").error("it said %s", words["exception"])
        logging.getLogger("turngate.adapters.slack.api.library").error(words["exception"])


class _Dying:
    def __init__(self, words: str) -> None:
        self._words = words

    def __del__(self) -> None:
        raise RuntimeError(self._words)


def _raise(words: str) -> None:
    raise RuntimeError(words)


def failing(options: dict[str, object]) -> Failing:
    """One that starts."""
    return Failing(options)


def unmade(options: dict[str, object]) -> Failing:
    """One that does not."""
    raise RuntimeError(str(options["exception"]))
