"""What agents of each kind are told when a session is over, over real pipes and connections."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.acp_rig import AcpRig, heard, words
from tests.programs import ENDING, ENV, is_gone, program
from tests.simulators.http_agent import Document, service
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.domain.errors import AgentError, AgentUnavailable
from turngate.gateway.domain.ports.agent import (
    Agent,
    Closes,
    TakesSessionEnd,
)

TOLD = {
    "type": "session_end",
    "session": {
        "id": "s1",
        "title": "Milk",
        "goal": None,
        "reason": "idle",
        "started_at": "2026-05-04T12:00:00+00:00",
        "ended_at": "2026-05-04T12:00:00+00:00",
        "shared": False,
    },
    "source": {
        "platform": "telegram",
        "account": "main",
        "chat_type": "dm",
        "chat_id": "42",
        "thread_id": None,
        "user_id": "42",
        "chat_name": None,
        "chat_topic": None,
        "user_name": "Ann 42",
    },
    "history": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "remember the milk"}],
            "tool_calls": [],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "I will"}], "tool_calls": []},
    ],
    "workdir": None,
}


def command(body: str, **changes: object) -> Agent:
    """A program that speaks lines of JSON, and knows of endings."""
    spec = AgentSpec(
        name="main",
        kind="command",
        argv=tuple(program(body)),
        format="jsonl",
        env=ENV,
        session_end=True,
    )
    return load_agent(replace(spec, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spec",
    [
        AgentSpec(name="main"),
        AgentSpec(
            name="main", kind="openai", model="m", url="http://127.0.0.1:1", session_end=True
        ),
        AgentSpec(
            name="main", kind="anthropic", model="m", url="http://127.0.0.1:1", session_end=True
        ),
        AgentSpec(name="main", kind="command", argv=("cat",), format="jsonl"),
        AgentSpec(name="main", kind="command", argv=("cat",), session_end=True),
        AgentSpec(name="main", kind="http", url="http://127.0.0.1:1/"),
    ],
    ids=lambda spec: f"{spec.kind} {spec.format} {spec.session_end}",
)
async def test_whoever_would_take_it_for_a_turn_is_not_told(spec: AgentSpec) -> None:
    agent: object = load_agent(spec)
    assert not isinstance(agent, TakesSessionEnd)
    if isinstance(agent, Closes):
        await agent.close()


class TestCommand:
    async def test_it_reads_one_line_in_the_folder_of_the_session(self, tmp_path: Path) -> None:
        agent = command("open('told', 'w').write(sys.stdin.read()); say('whatever')")
        assert isinstance(agent, TakesSessionEnd)
        await agent.session_end(replace(ENDING, workdir=str(tmp_path)))

        (line,) = (tmp_path / "told").read_text().splitlines()
        assert json.loads(line) == TOLD | {"workdir": str(tmp_path)}

    async def test_its_status_says_whether_it_has_heard(self, tmp_path: Path) -> None:
        agent = command("sys.exit(3)")
        assert isinstance(agent, TakesSessionEnd)
        with pytest.raises(AgentError, match="exit status 3"):
            await agent.session_end(replace(ENDING, workdir=str(tmp_path)))
        assert is_gone(tmp_path)


class TestHttp:
    @pytest.mark.parametrize("status", [200, 202, 204])
    async def test_it_is_posted_where_turns_are_and_any_success_will_do(self, status: int) -> None:
        async def answer(request: web.Request, document: Document) -> web.StreamResponse:
            return web.Response(status=status)

        async with service(answer) as serving:
            agent = load_agent(
                AgentSpec(name="m", kind="http", url=serving.url, api_key="key", session_end=True)
            )
            assert isinstance(agent, TakesSessionEnd)
            assert isinstance(agent, Closes)
            await agent.session_end(ENDING)
            await agent.close()

        assert serving.turns == [TOLD]
        assert serving.headers[0]["Authorization"] == "Bearer key"

    async def test_a_service_that_is_broken_has_not_heard(self) -> None:
        async def answer(request: web.Request, document: Document) -> web.StreamResponse:
            return web.Response(status=500)

        async with service(answer) as serving:
            agent = load_agent(AgentSpec(name="m", kind="http", url=serving.url, session_end=True))
            assert isinstance(agent, TakesSessionEnd)
            assert isinstance(agent, Closes)
            with pytest.raises(AgentUnavailable, match="busy or broken"):
                await agent.session_end(ENDING)
            await agent.close()


class TestAcp:
    @pytest.mark.parametrize("flags", [(), ("--close",)])
    async def test_its_session_is_let_go_and_whoever_resumes_ours_begins_another(
        self, tmp_path: Path, flags: tuple[str, ...]
    ) -> None:
        rig = AcpRig(tmp_path)
        async with rig.agent("--load", *flags) as agent:
            turn = rig.turn("one")
            await heard(agent, turn)
            await agent.session_end(replace(ENDING, workdir=turn.workdir))
            await agent.session_end(replace(ENDING, workdir=turn.workdir))
            again = words(await heard(agent, rig.turn("recall")))

        assert again == "recall"
        assert len(rig.asked("close")) == len(flags)
        assert len(rig.asked("new")) == 2

    async def test_no_program_is_started_for_it(self, tmp_path: Path) -> None:
        rig = AcpRig(tmp_path)
        async with rig.agent("--load", "--close") as agent:
            await heard(agent, turn := rig.turn("one"))
        async with rig.agent("--load", "--close") as agent:
            await agent.session_end(replace(ENDING, workdir=turn.workdir))
            assert len(rig.asked("initialize")) == 1
            assert words(await heard(agent, rig.turn("recall"))) == "recall"
