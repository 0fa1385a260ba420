"""
The scripted ACP agent as an agent of ours, with a folder to work in and the journal of what it was
asked.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from tests.fakes import NOON, dm, message
from turngate.gateway.agents import AgentSpec
from turngate.gateway.agents.acp.agent import AcpAgent, make
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Turn,
)
from turngate.gateway.domain.ids import (
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import Entry, Text

ENV = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": str(Path(__file__).parents[1])}


class AcpRig:
    """Everything below one folder."""

    def __init__(self, folder: Path) -> None:
        self._numbers = count(1)
        self.folder = folder
        self.state = folder / "state.json"
        self.script = folder / "script.json"
        self._journal = folder / "journal.jsonl"

    def spec(self, *flags: str, **changes: object) -> AgentSpec:
        """As the operator would describe it."""
        files = (
            "--journal",
            str(self._journal),
            "--state",
            str(self.state),
            "--script",
            str(self.script),
        )
        argv = (sys.executable, "-m", "tests.simulators.acp_agent", *files, *flags)
        return replace(AgentSpec(name="main", kind="acp", argv=argv, env=ENV), **changes)  # type: ignore[arg-type]

    @asynccontextmanager
    async def agent(self, *flags: str, **changes: object) -> AsyncIterator[AcpAgent]:
        """At work until the block is left."""
        agent = make(self.spec(*flags, **changes))
        try:
            yield agent
        finally:
            await agent.close()

    def turn(self, text: str, *history: Entry, session: str = "s1", **changes: object) -> Turn:
        """The next turn of a session, in its own folder."""
        workdir = self.folder / session
        workdir.mkdir(exist_ok=True)
        seen = tuple(replace(entry, seq=number) for number, entry in enumerate(history, start=1))
        turn = Turn(
            id=TurnId(next(self._numbers)),
            session=Session(
                id=SessionId(session),
                key=SessionKey("k"),
                origin=dm(),
                started_at=NOON,
                last_interaction_at=NOON,
                updated_at=NOON,
            ),
            source=dm(),
            messages=(message(text),),
            history=seen,
            system="Be brief.",
            context="You are in a test.",
            workdir=str(workdir),
        )
        return replace(turn, **changes)  # type: ignore[arg-type]

    def asked(self, what: str) -> list[dict[str, object]]:
        """What the program was asked, by the name of the request."""
        if not self._journal.exists():
            return []
        lines = map(json.loads, self._journal.read_text().splitlines())
        return [line for line in lines if line["what"] == what]

    def prompts(self) -> list[list[dict[str, str]]]:
        """The blocks of every prompt."""
        return [line["blocks"] for line in self.asked("prompt")]  # type: ignore[misc]

    def working(self) -> int:
        """How many prompts are being answered by programs that run."""
        begun, ended = (
            Counter(map(_pid, self.asked("prompt"))),
            Counter(map(_pid, self.asked("end"))),
        )
        return sum(count for pid, count in (begun - ended).items() if is_running(pid))


def _pid(line: dict[str, object]) -> int:
    return int(str(line["pid"]))


def is_running(pid: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def heard(agent: AcpAgent, turn: Turn, *, answer: str | None = None) -> list[AgentEvent]:
    """All that an agent says in a turn, given one answer to whatever it asks."""
    events = []
    async with aclosing(agent.run(turn)) as running:
        async for event in running:
            events.append(event)
            if isinstance(event, Ask):
                await agent.answer(turn.id, event.id, answer)
    return events


def words(events: list[AgentEvent]) -> str:
    """What was said of it."""
    return "".join(event.text for event in events if isinstance(event, Text)).strip()
