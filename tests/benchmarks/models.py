"""
What an agent adds to the bare model server: time per streamed token, and the delay of the first
text.

    python -m tests.benchmarks.models [--tokens 500] [--tries 7]

The same server, a process of its own, is read three ways in one run, in turns: bare (aiohttp and
json alone), through the agent, and through a whole turn (what is said is collected, and pseudonyms
are looked for in it). We run on one core. Prints one JSON line per case: microseconds of our
processor time and of the clock for each token, milliseconds to the first text, and the ratios to
the bare reading; medians of all tries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta

import aiohttp

from tests.fakes import NOON, dm, message
from tests.simulators.running import Remote, as_process
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import AgentEvent, Turn
from turngate.gateway.domain.ids import (
    SessionId,
    SessionKey,
    TurnId,
)
from turngate.gateway.domain.ports.agent import Agent, Closes
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import Text
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.policy import TurnTimeouts
from turngate.gateway.rules.redaction import Redactor, new_key
from turngate.gateway.turns.agent_run import AgentRun

PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
SESSION = Session(
    id=SessionId("s1"),
    key=SessionKey("k"),
    origin=dm(),
    started_at=NOON,
    last_interaction_at=NOON,
    updated_at=NOON,
)
TURN = Turn(
    id=TurnId(1), session=SESSION, source=dm(), messages=(message("go"),), system="Be brief."
)

Heard = Callable[[], None]
Way = Callable[[Heard], Awaitable[None]]


@dataclass(slots=True)
class Figures:
    """Of one way to read, one number per try."""

    cpu_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)

    def medians(self, name: str) -> dict[str, float]:
        """As they are printed."""
        return {
            f"{name}_cpu_us_per_token": round(statistics.median(self.cpu_us), 2),
            f"{name}_us_per_token": round(statistics.median(self.wall_us), 2),
            f"{name}_first_ms": round(statistics.median(self.first_ms), 2),
        }


async def measure(
    sim: Remote, kind: str, streams: int, tokens: int, tries: int
) -> dict[str, object]:
    """All ways, in turns, after one round that does not count."""
    await sim.do("script", pieces=[f"token{number % 10} " for number in range(tokens)])
    agent = load_agent(
        AgentSpec(name="main", kind=kind, url=f"{sim.url}/v1", api_key="sk-simulated", model="m")
    )
    body = {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": _go(kind)}],
    }
    figures = {name: Figures() for name in ("bare", "agent", "turn")}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        ways: dict[str, Way] = {
            "bare": lambda heard: _bare(http, sim.url + PATHS[kind], body, tokens, heard),
            "agent": lambda heard: _agent(agent, tokens, heard),
            "turn": lambda heard: _turn(agent, tokens, heard),
        }
        for number in range(tries + 1):
            for name, way in ways.items():
                await _once(way, streams, tokens, figures[name] if number else Figures())
    assert isinstance(agent, Closes)
    await agent.close()
    return {"case": kind, "streams": streams, "tokens": tokens, **_written(figures)}


def _written(figures: dict[str, Figures]) -> dict[str, float]:
    written = {
        key: value for name, each in figures.items() for key, value in each.medians(name).items()
    }
    for name in ("agent", "turn"):
        for figure in ("cpu_us_per_token", "us_per_token", "first_ms"):
            written[f"{name}_{figure}_ratio"] = round(
                written[f"{name}_{figure}"] / written[f"bare_{figure}"], 2
            )
    return written


async def _once(way: Way, streams: int, tokens: int, figures: Figures) -> None:
    firsts: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()

    async def one() -> None:
        started, heard = time.perf_counter(), asyncio.Event()

        def first() -> None:
            if not heard.is_set():
                heard.set()
                firsts.append(time.perf_counter() - started)

        await way(first)

    await asyncio.gather(*(one() for _ in range(streams)))
    figures.cpu_us.append((time.process_time() - cpu) / (streams * tokens) * 1e6)
    figures.wall_us.append((time.perf_counter() - began) / (streams * tokens) * 1e6)
    figures.first_ms.append(statistics.median(firsts) * 1000)


async def _bare(
    http: aiohttp.ClientSession, url: str, body: object, tokens: int, heard: Heard
) -> None:
    """The least that gives the text: line by line, without a look at what might be wrong."""
    count = 0
    headers = {"anthropic-version": "2023-06-01"}
    async with http.post(url, json=body, headers=headers) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                message = json.loads(line[6:])
                choices = message.get("choices")
                delta = choices[0]["delta"] if choices else message.get("delta", {})
                if delta.get("content") or delta.get("text"):
                    heard()
                    count += 1
    assert count == tokens


async def _agent(agent: Agent, tokens: int, heard: Heard) -> None:
    count = 0
    async with aclosing(agent.run(TURN)) as events:
        async for event in events:
            if isinstance(event, Text):
                heard()
                count += 1
    assert count == tokens


async def _turn(agent: Agent, tokens: int, heard: Heard) -> None:
    def show(event: AgentEvent) -> None:
        if isinstance(event, Text):
            heard()

    redactor = Redactor(new_key(), "telegram")
    agent_run = AgentRun(agent, redactor.restore, show, SystemClock(), Observer())
    await agent_run.run(TURN, TurnTimeouts(idle=timedelta(minutes=5)))
    assert agent_run.answer.text.count("token") == tokens


def _go(kind: str) -> object:
    return "go" if kind == "openai" else [{"type": "text", "text": "go"}]


async def lines(tokens: int, tries: int) -> AsyncIterator[dict[str, object]]:
    """Case by case."""
    async with as_process("tests.simulators.models") as sim:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[-1]})
        for kind in PATHS:
            for streams in (1, 64):
                yield await measure(sim, kind, streams, tokens, tries)


async def main() -> None:
    """Print them as they come."""
    parser = argparse.ArgumentParser(description="what an agent adds to the bare model server")
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--tries", type=int, default=7)
    arguments = parser.parse_args()
    async for line in lines(arguments.tokens, arguments.tries):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
