"""
Which kinds of agents the suite of `test_agent.py` runs over, and what it needs to know of each.

A new kind brings something that stands at its other end (a server, a program) and one
`AgentUnderTest`, and is listed in `UNDER_TEST`. The other end says back what it was told last, so
that every kind can be talked to without a script; what else it can be made to do is listed in
`can`, and only the tests that need no more are run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from aiohttp import web

from tests.acp_rig import AcpRig
from tests.contracts import scripted_agent
from tests.programs import ENV
from tests.simulators.common import Simulator
from tests.simulators.http_agent import Document, Service, hang_up, say, service, streaming
from tests.simulators.models import KEY, Models
from tests.simulators.running import Remote, in_process
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.agents.json_protocol import turn_document
from turngate.gateway.domain.agent_events import Turn, Usage
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.ports.agent import Agent, Closes
from turngate.gateway.domain.serialization import to_dict


class Can(Enum):
    """
    What the other end can be made to do, and what an agent of this kind can tell it or hear of it.
    """

    SAY = auto()  # says exactly what it is told to
    THINK = auto()  # tells its thoughts apart from its words
    USE_TOOLS = auto()  # tells of the tools that it uses
    COUNT = auto()  # tells what the turn cost
    HANG = auto()  # falls silent half-way, and before the first word
    NEVER_END = auto()  # talks for ever
    BREAK = auto()  # breaks down half-way
    BE_GONE = auto()  # cannot be reached
    REFUSE = auto()  # will not do it until the operator changes something
    BE_PROMPTED = auto()  # is given the system prompt and what is said of the place
    REMEMBER = auto()  # is given what was said before
    SEE_FILES = auto()  # is shown texts and pictures, or where they are


class Then(Enum):
    """How a scripted turn ends."""

    DONE = auto()
    HANG = auto()
    HANG_AT_ONCE = auto()
    NEVER_END = auto()
    BREAK = auto()
    BE_GONE = auto()
    REFUSE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """
    What the other end does in every turn from now on; of a turn that does not end well perhaps half
    of it.
    """

    pieces: tuple[str, ...] = ()
    thoughts: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    usage: Usage | None = None
    then: Then = Then.DONE


class OtherEnd(Protocol):
    """An agent, and whatever it talks to."""

    @property
    def agent(self) -> Agent:
        """The one under test."""

    async def play(self, script: Script) -> None:
        """Do this from now on."""

    async def told(self) -> str:
        """All that the other end was told in the latest turn, as text; a picture by its type."""

    async def working(self) -> int:
        """How many turns are being worked on at the other end: requests, processes."""


class AgentUnderTest(Protocol):
    """One kind."""

    @property
    def name(self) -> str:
        """As in the names of the tests."""

    @property
    def can(self) -> frozenset[Can]:
        """All that the tests may ask for."""

    def at_work(self, folder: Path) -> AbstractAsyncContextManager[OtherEnd]:
        """A fresh one; leaving closes both ends. The folder is empty."""


@dataclass(frozen=True, slots=True)
class _Alone:
    """
    Nothing stands at its other end. What it `can` not do no test asks of it: one that does must
    fail.
    """

    agent: Agent

    async def play(self, script: Script) -> None:
        """It cannot be told what to say."""
        raise NotImplementedError

    async def told(self) -> str:
        """There is nobody else."""
        raise NotImplementedError

    async def working(self) -> int:
        """It works while it is listened to."""
        return 0


@dataclass(frozen=True, slots=True)
class EchoUnderTest:
    """The agent that needs nothing."""

    name: str = "echo"
    can: frozenset[Can] = frozenset({Can.COUNT})

    @asynccontextmanager
    async def at_work(self, folder: Path) -> AsyncIterator[OtherEnd]:
        """As the protocol says."""
        yield _Alone(load_agent(AgentSpec(name="main")))


_FAULTS = {
    Then.HANG: "stall",
    Then.HANG_AT_ONCE: "silent",
    Then.NEVER_END: "endless",
    Then.BREAK: "cut",
    Then.BE_GONE: "529",
    Then.REFUSE: "401",
}


@dataclass(frozen=True, slots=True)
class _Model:
    """A model server of any protocol."""

    agent: Agent
    sim: Remote
    method: str

    async def play(self, script: Script) -> None:
        """As the protocol says."""
        calls = [
            {"id": f"t{at}", "name": name, "arguments": '{"q": 1}'}
            for at, name in enumerate(script.tools)
        ]
        names = ("input", "output", "cache_read", "cache_write")
        counted = {name: getattr(script.usage, name) for name in names} if script.usage else {}
        await self.sim.heal()
        await self.sim.do(
            "script",
            pieces=list(script.pieces),
            thoughts=list(script.thoughts),
            calls=calls,
            usage=counted,
        )
        if script.then in _FAULTS:
            await self.sim.fault(_FAULTS[script.then], times=None)

    async def told(self) -> str:
        """As the protocol says."""
        calls = await self.sim.calls(method=self.method)
        return json.dumps(_readable(calls[-1]["parameters"]), ensure_ascii=False)

    async def working(self) -> int:
        """As the protocol says."""
        return await self.sim.do("streaming")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUnderTest:
    """
    A model behind one of the protocols. No test may lead to a request that a real server would
    not take.
    """

    name: str
    kind: str
    method: str
    api: str = "chat"
    can: frozenset[Can] = frozenset(Can)

    @asynccontextmanager
    async def at_work(self, folder: Path) -> AsyncIterator[OtherEnd]:
        """As the protocol says."""
        async with in_process(Simulator(Models())) as sim:
            agent = load_agent(
                AgentSpec(
                    name="main",
                    kind=self.kind,
                    url=f"{sim.url}/v1",
                    api_key=KEY,
                    model="a-model",
                    api=self.api,
                )
            )
            try:
                yield _Model(agent, sim, self.method)
            finally:
                assert isinstance(agent, Closes)
                await agent.close()
            assert await sim.violations() == []


@dataclass(frozen=True, slots=True)
class _Scripted:
    """Whatever plays the script in a folder."""

    agent: Agent
    folder: Path

    async def play(self, script: Script) -> None:
        """As the protocol says."""
        usage = to_dict(script.usage) if script.usage else {}
        played = {
            "pieces": script.pieces,
            "thoughts": script.thoughts,
            "tools": script.tools,
            "usage": usage,
        }
        (self.folder / "script.json").write_text(
            json.dumps(played | {"then": script.then.name.lower()})
        )

    async def told(self) -> str:
        """As the protocol says."""
        return (self.folder / "told").read_text()

    async def working(self) -> int:
        """As the protocol says."""
        return scripted_agent.count_working(self.folder)


_TALKATIVE = frozenset({Can.SAY, Can.HANG, Can.NEVER_END, Can.BREAK, Can.SEE_FILES})
_TOLD_ALL = _TALKATIVE | {Can.THINK, Can.USE_TOOLS, Can.COUNT, Can.BE_PROMPTED, Can.REMEMBER}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandUnderTest:
    """A program, in one of the two formats."""

    name: str
    format: str
    can: frozenset[Can]

    @asynccontextmanager
    async def at_work(self, folder: Path) -> AsyncIterator[OtherEnd]:
        """As the protocol says."""
        folder.mkdir(exist_ok=True)
        argv = (sys.executable, "-I", scripted_agent.__file__, str(folder), self.format)
        yield _Scripted(
            load_agent(
                AgentSpec(name="main", kind="command", argv=argv, format=self.format, env=ENV)
            ),
            folder,
        )


@dataclass(frozen=True, slots=True)
class PythonUnderTest:
    """An object of somebody's own."""

    name: str = "python"
    can: frozenset[Can] = _TOLD_ALL

    @asynccontextmanager
    async def at_work(self, folder: Path) -> AsyncIterator[OtherEnd]:
        """As the protocol says."""
        folder.mkdir(exist_ok=True)
        spec = AgentSpec(
            name="main",
            kind="python",
            object=f"{__name__}:OwnAgent",
            options={"folder": str(folder)},
        )
        yield _Scripted(load_agent(spec), folder)


class OwnAgent:
    """As an operator might write one."""

    def __init__(self, options: dict[str, str]) -> None:
        self._folder = Path(options["folder"])

    async def run(self, turn: Turn) -> AsyncGenerator[object]:
        """The script."""
        (self._folder / "told").write_text(json.dumps(turn_document(turn), ensure_ascii=False))
        with scripted_agent.working(self._folder):
            async with aclosing(
                scripted_agent.events_slowly(self._folder, turn.messages[-1].text)
            ) as events:
                async for event in events:
                    if event == scripted_agent.BREAK:
                        raise AgentError("it broke")
                    yield event


@dataclass(frozen=True, slots=True)
class _Served(_Scripted):
    service: Service

    async def working(self) -> int:
        """As the protocol says."""
        return self.service.working


@dataclass(frozen=True, slots=True)
class HttpUnderTest:
    """A service."""

    name: str = "http"
    can: frozenset[Can] = _TOLD_ALL | {Can.BE_GONE, Can.REFUSE}

    @asynccontextmanager
    async def at_work(self, folder: Path) -> AsyncIterator[OtherEnd]:
        """As the protocol says."""
        folder.mkdir(exist_ok=True)

        async def answer(request: web.Request, turn: Document) -> web.StreamResponse:
            return await _served(request, turn, folder)

        async with service(answer) as serving:
            agent = load_agent(AgentSpec(name="main", kind="http", url=serving.url))
            try:
                yield _Served(agent, folder, serving)
            finally:
                assert isinstance(agent, Closes)
                await agent.close()


async def _served(request: web.Request, turn: Document, folder: Path) -> web.StreamResponse:
    (folder / "told").write_text(json.dumps(turn, ensure_ascii=False))
    script = folder / "script.json"
    then = json.loads(script.read_text())["then"] if script.exists() else ""
    if then in ("be_gone", "refuse"):
        return web.Response(status=503 if then == "be_gone" else 403, text="no")
    response = await streaming(request)
    words = turn["messages"][-1]["text"]  # type: ignore[index]
    async with aclosing(scripted_agent.events_slowly(folder, words)) as events:
        async for event in events:
            if event == scripted_agent.BREAK:
                hang_up(request)
                return response
            await say(response, **event)  # type: ignore[arg-type]
    return response


@dataclass(frozen=True, slots=True)
class _AcpProgram:
    """The scripted program behind an agent that speaks the Agent Client Protocol."""

    agent: Agent
    rig: AcpRig

    async def play(self, script: Script) -> None:
        """As the protocol says."""
        counted = script.usage and {
            "input_tokens": script.usage.input,
            "output_tokens": script.usage.output,
            "cached_read_tokens": script.usage.cache_read,
        }
        asked = {
            "pieces": script.pieces,
            "thoughts": script.thoughts,
            "tools": script.tools,
            "usage": counted,
        }
        self.rig.script.write_text(json.dumps({**asked, "then": script.then.name}))

    async def told(self) -> str:
        """As the protocol says."""
        return json.dumps(self.rig.prompts()[-1], ensure_ascii=False)

    async def working(self) -> int:
        """As the protocol says."""
        return self.rig.working()


@dataclass(frozen=True, slots=True)
class AcpUnderTest:
    """A program at the other end of a pipe."""

    name: str = "acp"
    can: frozenset[Can] = frozenset(Can)

    @asynccontextmanager
    async def at_work(self, folder: Path) -> AsyncIterator[OtherEnd]:
        """As the protocol says."""
        folder.mkdir(exist_ok=True)
        rig = AcpRig(folder)
        async with rig.agent("--images") as agent:
            yield _AcpProgram(agent, rig)


def _readable(value: object) -> object:
    """
    As text may be looked for in it: JSON inside of strings is no harder to read, and pictures are
    short.
    """
    if isinstance(value, dict):
        return {name: _readable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    return value[:100] if isinstance(value, str) and value.startswith("data:") else value


UNDER_TEST: tuple[AgentUnderTest, ...] = (
    EchoUnderTest(),
    ModelUnderTest(name="openai", kind="openai", method="completions"),
    ModelUnderTest(name="openai-responses", kind="openai", method="responses", api="responses"),
    ModelUnderTest(name="anthropic", kind="anthropic", method="messages"),
    CommandUnderTest(name="command-text", format="text", can=_TALKATIVE),
    CommandUnderTest(name="command-jsonl", format="jsonl", can=_TOLD_ALL),
    HttpUnderTest(),
    PythonUnderTest(),
    AcpUnderTest(),
)
