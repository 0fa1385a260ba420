"""
Model servers of somebody else's behind the kind `openai`: llama-cpp-python's with a tiny model, and
LiteLLM's proxy before it.

    python -m tests.real_agents.servers [--prefix DIR]

They are installed with pip into a virtual environment below the prefix, which is a throw-away
folder unless one is given: half a gigabyte and some minutes of compiling, so this is no part of the
tests. Whatever does not happen as it must is an AssertionError.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import aiohttp

from tests.contracts.test_agent import turn
from tests.fakes import assistant, user
from tests.real_agents.tiny_window import WINDOW
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.agents.fallback import FallbackAgent, Link
from turngate.gateway.domain.agent_events import AgentEvent, Done, Turn, Usage
from turngate.gateway.domain.errors import AgentError, PromptTooLong
from turngate.gateway.domain.ports.agent import Closes
from turngate.gateway.domain.transcript import Text

PACKAGES = ("litellm[proxy]==1.106.2", "llama-cpp-python[server]==0.3.36", "gguf==0.19.0")
ANSWER = "one two three"
_PATIENCE = 120.0
_MODEL = Path(__file__).with_name("tiny_model.py")


def install(prefix: Path) -> Path:
    """The folder with their programs."""
    programs = prefix / "bin"
    if not (programs / "litellm").exists():
        subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
        pip = [programs / "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(pip, check=True)
    return programs


@asynccontextmanager
async def serving(argv: Sequence[object], port: int, folder: Path) -> AsyncIterator[str]:
    """A server on a port of this machine, until the block is left."""
    # Nothing is fetched from elsewhere, and no key of this machine is used.
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    where = [*map(str, argv), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / f"{port}.log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(*where, stdout=log, stderr=log, env=env)
    try:
        async with asyncio.timeout(_PATIENCE), aiohttp.ClientSession() as session:
            while not await _is_up(session, f"http://127.0.0.1:{port}/v1/models"):
                assert server.returncode is None, (folder / f"{port}.log").read_text()[-2000:]
                await asyncio.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        if server.returncode is None:
            server.kill()
        await server.wait()


async def _is_up(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


class Conversation:
    """With one of the servers, in one of the protocols."""

    def __init__(self, name: str, url: str, *, model: str, api: str) -> None:
        self.name = name
        spec = AgentSpec(name=name, kind="openai", url=url, model=model, api=api)
        self.agent = load_agent(spec)
        self.link = Link(name=name, agent=self.agent, attempts=3)
        self.chain = FallbackAgent([self.link], self._tell)

    def _tell(self, name: str, error: AgentError, *, again: bool) -> None:
        report(name, f"(says: {error}; asked again: {again})")

    async def hear(self, asked: Turn) -> list[AgentEvent]:
        async with aclosing(self.chain.run(asked)) as events:
            return [event async for event in events]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        assert isinstance(self.agent, Closes)
        await self.agent.close()


async def answer(talk: Conversation, *, counts: bool) -> None:
    """One answer, in pieces, with or without its tokens."""
    events = await talk.hear(turn("hi"))
    pieces = [event.text for event in events if isinstance(event, Text)]
    assert "".join(pieces).strip() == ANSWER, events
    assert len(pieces) > 1, "it was not streamed"
    assert events[-1] == Done(), events
    assert any(isinstance(event, Usage) for event in events) is counts, events
    report(talk.name, "it answers, streamed")


async def fill_window(talk: Conversation) -> None:
    """A history that is too long, and a message that is."""
    fish = "fish " * (WINDOW // 20)
    history = [each for _ in range(8) for each in (user(fish), assistant(fish))]
    events = await talk.hear(replace(turn("hi"), history=tuple(history)))
    said = "".join(event.text for event in events if isinstance(event, Text))
    assert said.strip() == ANSWER, events
    assert talk.link.window.most is not None
    report(talk.name, f"a full window is recovered from: {talk.link.window.most} tokens are kept")

    try:
        events = await talk.hear(turn("fish " * WINDOW))
    except PromptTooLong:
        report(talk.name, "a message that is longer than the window is known as such")
    else:
        raise AssertionError(events)


def free_ports() -> tuple[int, int]:
    """Two that nobody listens on."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def proxied(url: str) -> str:
    """
    LiteLLM's config, as YAML that is JSON. It answers its own Responses API from chat completions
    for servers that it knows to have nothing else.
    """
    where = {"api_base": url, "api_key": "none"}
    models = [
        {"model_name": "chat", "litellm_params": {"model": "openai/tiny", **where}},
        {"model_name": "responses", "litellm_params": {"model": "lm_studio/tiny", **where}},
    ]
    return json.dumps({"model_list": models, "router_settings": {"disable_cooldowns": True}})


def report(name: str, what: str) -> None:
    """For whoever watches."""
    print(f"{name}: {what}", flush=True)


async def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", type=Path)
    prefix = parser.parse_args().prefix
    with tempfile.TemporaryDirectory(prefix="turngate-real-models-") as name:
        folder = Path(name)
        programs = install((prefix or folder / "venv").resolve())
        model, config = folder / "tiny.gguf", folder / "litellm.yaml"
        subprocess.run([programs / "python", _MODEL, model], check=True)

        first, second = free_ports()
        llama = (programs / "python", "-m", "llama_cpp.server", "--n_ctx", WINDOW, "--model", model)
        litellm = (programs / "litellm", "--config", config)
        async with serving(llama, first, folder) as url:
            config.write_text(proxied(url))
            async with serving(litellm, second, folder) as proxy:
                await _talk_to_all(url, proxy)


async def _talk_to_all(url: str, proxy: str) -> None:
    async with Conversation("llama-cpp-python", url, model="tiny", api="chat") as talk:
        await answer(talk, counts=False)
        await fill_window(talk)
    async with Conversation("litellm", proxy, model="chat", api="chat") as talk:
        await answer(talk, counts=True)
        await fill_window(talk)
    # Its window is not filled: LiteLLM answers with nothing where llama-cpp-python breaks off.
    async with Conversation("litellm-responses", proxy, model="responses", api="responses") as talk:
        await answer(talk, counts=True)


if __name__ == "__main__":
    asyncio.run(main())
