"""
The simulated model servers find what real ones would refuse: without that, a clean record would
prove nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.simulators.common import Simulator
from tests.simulators.models import KEY, Models
from tests.simulators.running import Remote, as_process, in_process

HI = {"role": "user", "content": "hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TEXT = {"type": "text", "text": "hi"}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
GIVEN = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]

Body = dict[str, Any]


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    async with in_process(Simulator(Models())) as remote:
        yield remote


async def post(sim: Remote, path: str, body: Body, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as http,
        http.post(
            f"{sim.url}/v1/{path}", json={"model": "m", "stream": True, **body}, headers=headers
        ) as answer,
    ):
        return answer.status, await answer.text()


def messages(*contents: list[Body], **more: object) -> Body:
    said = [
        {"role": ("user", "assistant")[at % 2], "content": content}
        for at, content in enumerate(contents)
    ]
    return {"max_tokens": 9, "messages": said, **more}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": [HI], "frobnicate": 1}),
        ("chat/completions", {"messages": []}),
        ("chat/completions", {"messages": [HI, {"role": "system", "content": "x"}, HI]}),
        ("chat/completions", {"messages": [{"role": "user", "content": ""}]}),
        ("chat/completions", {"messages": [HI, {"role": "assistant", "content": "x"}]}),
        (
            "chat/completions",
            {"messages": [HI, {"role": "tool", "tool_call_id": "c", "content": "x"}, HI]},
        ),
        (
            "chat/completions",
            {"messages": [HI, {"role": "assistant", "content": None, "tool_calls": [CALL]}, HI]},
        ),
        ("messages", {"messages": [{"role": "user", "content": [TEXT]}]}),
        ("messages", messages([TEXT], [TEXT])),
        ("messages", {"max_tokens": 9, "messages": [{"role": "assistant", "content": [TEXT]}]}),
        ("messages", messages([{"type": "text", "text": " "}])),
        ("messages", messages([TEXT], [USE], [GIVEN])),
        ("messages", messages([TEXT], [USE], [TEXT], tools=TOOLS)),
        ("messages", messages([TEXT], [TEXT], [GIVEN], tools=TOOLS)),
        ("messages", messages([TEXT], [USE], [GIVEN], [USE], [GIVEN], tools=TOOLS)),
        ("messages", messages([TEXT], [{"type": "thinking", "thinking": "x"}], [TEXT])),
        (
            "messages",
            messages([{"type": "image", "source": {"type": "base64", "media_type": "image/svg"}}]),
        ),
    ],
)
async def test_what_no_server_takes_is_refused_and_recorded(
    sim: Remote, path: str, body: Body
) -> None:
    status, _ = await post(sim, path, body, **{"anthropic-version": "2023-06-01"})

    assert status == 400
    assert len(await sim.violations()) == 1


async def test_what_is_right_is_answered_in_both_protocols(sim: Remote) -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    told = {"role": "tool", "tool_call_id": "c", "content": "x"}
    first = await post(
        sim, "chat/completions", {"messages": [HI, called, told, HI]}, Authorization=f"Bearer {KEY}"
    )
    right = messages([TEXT], [USE], [GIVEN, TEXT], tools=TOOLS)
    second = await post(
        sim, "messages", right, **{"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    )

    assert (first[0], second[0]) == (200, 200)
    assert first[1].endswith("data: [DONE]\n\n")
    assert "event: message_stop" in second[1]
    assert await sim.violations() == []
    assert await sim.do("streaming") == 0


async def test_a_request_of_no_version_is_a_violation(sim: Remote) -> None:
    await post(sim, "messages", messages([TEXT]))

    assert [each["rule"] for each in await sim.violations()] == ["version"]


async def test_another_key_is_refused_with_its_own_words(sim: Remote) -> None:
    status, words = await post(
        sim, "chat/completions", {"messages": [HI]}, Authorization="Bearer sk-wrong"
    )

    assert status == 401
    assert "sk-wrong" in words


async def test_a_way_that_does_not_exist_is_told(sim: Remote) -> None:
    with pytest.raises(ValueError, match="there is no way"):
        await sim.do("script", ways=["sideways"])


async def test_it_is_a_process_as_well() -> None:
    async with as_process("tests.simulators.models", "--pause", "0") as sim:
        status, _ = await post(sim, "chat/completions", {"messages": [HI]})

    assert status == 200
