"""
A real agent of somebody else's, opencode, behind the kind `acp`, with a model of ours behind it.

    python -m tests.real_agents.opencode [--prefix DIR]

It is installed with npm into the prefix, which is a throw-away folder unless one is given: some
hundred megabytes, so this is no part of the tests. Whatever does not happen as it must is an
AssertionError.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from tests.acp_rig import AcpRig, heard, words
from tests.fakes import assistant, user
from tests.real_agents.model import ToolModel
from turngate.gateway.agents import AgentSpec
from turngate.gateway.agents.acp.agent import AcpAgent, make
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Ask,
    Tool,
    ToolStatus,
)
from turngate.gateway.domain.transcript import Entry, Text

PACKAGE = "opencode-ai@1.18.33"
COMMAND = {"command": "echo made > made.txt", "description": "Makes a file"}


def install(prefix: Path) -> Path:
    """Its program."""
    program = prefix / "node_modules" / ".bin" / "opencode"
    if not program.exists():
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", prefix, PACKAGE],  # noqa: S607
            check=True,  # noqa: RUF100, S607
        )
    return program


def settings(url: str) -> str:
    """
    Our model, titles made by another one that nobody scripts, and a question before every command.
    """
    model = {"tool_call": True, "limit": {"context": 100_000, "output": 4_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {"large": model, "small": model},
    }
    chosen = {"model": "loop/large", "small_model": "loop/small"}
    return json.dumps(
        {
            "provider": {"loop": provider},
            **chosen,
            "permission": {"bash": "ask"},
            "autoupdate": False,
            "share": "disabled",
        }
    )


@asynccontextmanager
async def opencode(program: Path, home: Path) -> AsyncIterator[AcpAgent]:
    """As an agent of ours, until the block is left."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    agent = make(AgentSpec(name="main", kind="acp", argv=(str(program), "acp"), env=env))
    try:
        yield agent
    finally:
        await agent.close()


async def converse(program: Path, folder: Path, model: ToolModel) -> None:
    """A conversation with everything in it that the protocol is for."""
    home = folder / "home"
    (home / ".config" / "opencode").mkdir(parents=True)
    (home / ".config" / "opencode" / "opencode.json").write_text(settings(model.url))
    rig = AcpRig(folder)
    async with opencode(program, home) as agent:
        model.say("a cherry", " tree")
        said = await heard(agent, rig.turn("what is it?"))
        assert words(said) == "a cherry tree", said
        report("it answers")

        history = [user("what is it?"), assistant("a cherry tree")]
        made = await _with_permission(agent, rig, model, history)
        assert (folder / "s1" / "made.txt").read_text() == "made\n"
        assert [event.status for event in made if isinstance(event, Tool)][-1] is ToolStatus.DONE
        report("it asks for permission, and does what it was allowed")

        history += [user("make it"), assistant("it is made")]
        took = await _stopped(agent, rig, model, history)
        report(f"it stops {took:.2f} seconds after it was told to")

    model.say("welcome back")
    history += [user("talk"), assistant("on and on")]
    async with opencode(program, home) as agent:
        assert words(await heard(agent, rig.turn("still there?", *history))) == "welcome back"
    assert "make it" in model.asked[-1]
    assert "What was said" not in model.asked[-1]
    report("after a restart it remembers, and is not told again")


async def _with_permission(
    agent: AcpAgent, rig: AcpRig, model: ToolModel, history: list[Entry]
) -> list[AgentEvent]:
    model.call("bash", COMMAND)
    turn, events = rig.turn("make it", *history), []
    async with aclosing(agent.run(turn)) as running:
        async for event in running:
            events.append(event)
            if isinstance(event, Ask):
                model.say("it is ", "made")
                await agent.answer(turn.id, event.id, event.options[0])
    assert words(events) == "it is made", events
    return events


async def _stopped(agent: AcpAgent, rig: AcpRig, model: ToolModel, history: list[Entry]) -> float:
    model.say(*["on "] * 1000, pause=0.1)
    async with aclosing(agent.run(rig.turn("talk", *history))) as running:
        async for event in running:
            if isinstance(event, Text):
                break
        began = time.monotonic()
    return time.monotonic() - began


def report(what: str) -> None:
    """For whoever watches."""
    print(f"opencode: {what}")


async def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", type=Path)
    prefix = parser.parse_args().prefix
    with tempfile.TemporaryDirectory(prefix="turngate-real-acp-") as folder:
        program = install((prefix or Path(folder, "prefix")).resolve())
        Path(folder, "talk").mkdir()
        model = ToolModel()
        async with model.serving():
            await converse(program, Path(folder, "talk"), model)


if __name__ == "__main__":
    asyncio.run(main())
