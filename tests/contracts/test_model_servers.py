"""
Models behind real connections: every way in which servers differ, and everything that goes wrong on
the wire.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.contracts.test_agent import PNG, text_of, turn
from tests.fakes import NOON, assistant, user
from tests.simulators.common import Simulator
from tests.simulators.models import KEY, Models
from tests.simulators.models.too_long import WORDINGS
from tests.simulators.models.wire import WAYS
from tests.simulators.running import Remote, in_process
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.agents.anthropic import AnthropicAgent
from turngate.gateway.agents.model_call import CallTimeouts
from turngate.gateway.agents.openai import OpenAiAgent
from turngate.gateway.agents.openai_responses import ResponsesAgent
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Tool,
    ToolStatus,
    Turn,
    Usage,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
    PromptTooLong,
    RequestRefused,
    TurngateError,
)
from turngate.gateway.domain.messages import Attachment
from turngate.gateway.domain.transcript import (
    Entry,
    MediaType,
    Reasoning,
    Role,
    Text,
    ToolCall,
)

MAKERS = {"openai": OpenAiAgent, "responses": ResponsesAgent, "anthropic": AnthropicAgent}
METHODS = {"openai": "completions", "responses": "responses", "anthropic": "messages"}
HASTY = CallTimeouts(connect=0.3, silence=0.3)
PIECES = ["It ", "is ", "wonderful ", "🦊🐻 ", "to ", "be ", "here", "."]
CANARY = "sk-canary-7f3a9b1c5d"

for_all = pytest.mark.parametrize("kind", list(MAKERS))


@dataclass(frozen=True, slots=True)
class Talk:
    """An agent of one kind, and its server."""

    kind: str
    agent: OpenAiAgent | ResponsesAgent | AnthropicAgent
    sim: Remote

    async def script(self, **what: object) -> None:
        await self.sim.do("script", **({"pieces": PIECES} | what))

    async def hear(self, asked: Turn | None = None) -> list[AgentEvent]:
        async with aclosing(self.agent.run(asked or turn("go"))) as events:
            return [event async for event in events]

    async def fail(self, asked: Turn | None = None) -> tuple[list[AgentEvent], AgentError]:
        heard: list[AgentEvent] = []
        try:
            async with aclosing(self.agent.run(asked or turn("go"))) as events:
                async for event in events:
                    heard.append(event)  # noqa: PERF401 - what came before the error counts
        except AgentError as exc:
            return heard, exc
        raise AssertionError("nothing went wrong")

    async def requests(self) -> list[dict[str, Any]]:
        return [call["parameters"] for call in await self.sim.calls(method=METHODS[self.kind])]


@asynccontextmanager
async def talking(
    kind: str, *, timeouts: CallTimeouts | None = None, **spec: object
) -> AsyncIterator[Talk]:
    async with in_process(Simulator(Models())) as sim:
        told = {"url": f"{sim.url}/v1", "api_key": KEY, "model": "a-model"} | spec
        agent = MAKERS[kind](AgentSpec(name="main", kind=kind, **told), timeouts)  # type: ignore[arg-type]
        try:
            yield Talk(kind, agent, sim)
        finally:
            await agent.close()
        assert await sim.violations() == []


class TestWaysOfServers:
    @for_all
    @pytest.mark.parametrize("way", [way for way in WAYS if way != "no finish"])
    async def test_whatever_a_server_does_differently_the_answer_is_the_same(
        self, kind: str, way: str
    ) -> None:
        async with talking(kind) as talk:
            await talk.script(ways=[way], thoughts=["hm ", "🦊"])
            events = await talk.hear()

        assert text_of(events) == "".join(PIECES)
        assert "".join(event.text for event in events if isinstance(event, Reasoning)) == "hm 🦊"
        assert events[-1] == Done()

    @for_all
    async def test_all_ways_at_once(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script(ways=[way for way in WAYS if way not in ("no finish", "whole")])
            assert text_of(await talk.hear()) == "".join(PIECES)

    @for_all
    async def test_an_answer_that_nobody_ended_is_not_a_whole_one(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script(ways=["no finish", "no done"])
            heard, error = await talk.fail()

        assert text_of(heard) == "".join(PIECES)
        assert str(error) == "the answer was cut off: it ended before it was finished"

    @for_all
    async def test_what_was_not_counted_is_not_made_up(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script(ways=["no usage"])
            assert [event for event in await talk.hear() if isinstance(event, Usage)] == []

    @for_all
    async def test_an_answer_that_comes_whole_says_what_it_cost(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script(ways=["whole"])
            assert Usage(input=7, output=len(PIECES), cache_read=4) in await talk.hear()

    @for_all
    async def test_what_is_written_to_a_cache_is_counted(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script(usage={"input": 3, "output": 9, "cache_read": 5, "cache_write": 11})
            assert Usage(input=3, output=9, cache_read=5, cache_write=11) in await talk.hear()

    @for_all
    async def test_the_next_request_goes_over_the_same_connection(self, kind: str) -> None:
        async with talking(kind) as talk:
            for _ in range(5):
                await talk.hear()
            # One of the agent's; the test's own are not counted.
            assert await talk.sim.connections() == 1


LAST = {
    "responses": 'data: {"type": "response.output_text.delta", "delta": "x"}\n\n'
    'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n',
    "openai": 'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": '
    '"stop"}]}\n\ndata: [DONE]\n\n',
    "anthropic": 'data: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": '
    '"x"}}\n\n'
    'data: {"type": "message_stop"}\n\n',
}


class TestEndings:
    @for_all
    @pytest.mark.parametrize(("pause", "connections"), [(0.005, 1), (3600.0, 3)])
    async def test_a_connection_that_ends_with_its_answer_is_kept_and_no_other_is_waited_for(
        self, kind: str, pause: float, connections: int
    ) -> None:
        callers = set()

        async def linger(request: web.Request) -> web.StreamResponse:
            callers.add(request.transport and request.transport.get_extra_info("peername"))
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(LAST[kind].encode())
            await asyncio.sleep(pause)
            return response

        async with serving(linger) as url, talking(kind, url=url) as talk:
            for _ in range(3):
                assert await talk.hear() == [Text("x"), Done()]

        assert len(callers) == connections

    @for_all
    @pytest.mark.parametrize(
        ("finish", "told"),
        [
            ("length", "the answer was cut at its longest"),
            ("content_filter", "the answer was cut by a filter of the model's"),
        ],
    )
    async def test_an_answer_that_is_less_than_it_should_be_says_so_after_its_words(
        self, kind: str, finish: str, told: str
    ) -> None:
        async with talking(kind) as talk:
            await talk.script(finish=finish)
            heard, error = await talk.fail()

        assert text_of(heard) == "".join(PIECES)
        assert any(isinstance(event, Usage) for event in heard)
        assert str(error) == told
        assert type(error) is AgentError

    @for_all
    async def test_a_tool_that_only_we_could_run_has_failed(self, kind: str) -> None:
        async with talking(kind) as talk:
            call = {"id": "t1", "name": "rm", "arguments": '{"path": "/"}'}
            await talk.script(pieces=[], calls=[call], finish="tool_calls")
            events = await talk.hear()

        tools = [event for event in events if isinstance(event, Tool)]
        assert [tool.status for tool in tools] == [ToolStatus.STARTED, ToolStatus.FAILED]
        assert tools[-1].input == '{"path": "/"}'
        assert events[-1] == Done()

    async def test_a_tool_that_the_server_runs_brings_its_result(self) -> None:
        async with talking("anthropic") as talk:
            call = {
                "id": "t1",
                "name": "web_search",
                "arguments": '{"query": "x"}',
                "result": "three pages",
            }
            await talk.script(calls=[call])
            tools = [event for event in await talk.hear() if isinstance(event, Tool)]

        assert [tool.status for tool in tools] == [ToolStatus.STARTED, ToolStatus.DONE]
        assert tools[-1].output == '"three pages"'

    async def test_thoughts_are_signed(self) -> None:
        async with talking("anthropic") as talk:
            await talk.script(thoughts=["let me ", "see"], signature="sig+/=")
            thoughts = [event for event in await talk.hear() if isinstance(event, Reasoning)]

        assert [event.signature for event in thoughts] == [None, None, "sig+/="]


class TestRefusals:
    @for_all
    @pytest.mark.parametrize(
        "fault", ["429", "500", "529", "502 html", "reset", "error first", "garbage"]
    )
    async def test_what_may_go_by_is_unavailable(self, kind: str, fault: str) -> None:
        async with talking(kind) as talk:
            await talk.sim.fault(fault, times=None)
            heard, error = await talk.fail()

        assert text_of(heard) == ""
        assert isinstance(error, AgentUnavailable)

    @for_all
    @pytest.mark.parametrize("fault", ["400", "401", "403", "404", "html"])
    async def test_what_the_operator_must_change_is_refused(self, kind: str, fault: str) -> None:
        async with talking(kind) as talk:
            await talk.sim.fault(fault)
            heard, error = await talk.fail()

        assert heard == []
        assert isinstance(error, AgentRefused)

    @for_all
    @pytest.mark.parametrize("wording", list(WORDINGS))
    async def test_a_full_window_is_known_by_the_words_of_every_server(
        self, kind: str, wording: str
    ) -> None:
        """Finding H6."""
        async with talking(kind) as talk:
            await talk.script(window=5, wording=wording)
            heard, error = await talk.fail()

        assert heard == []
        assert isinstance(error, PromptTooLong)

    @for_all
    async def test_a_full_window_inside_a_stream_is_one_too(self, kind: str) -> None:
        error = {"message": "prompt is too long: 9 tokens > 5 maximum", "code": 400}

        async def refuse(request: web.Request) -> web.Response:
            return web.Response(text=f"data: {json.dumps({'type': 'error', 'error': error})}\n\n")

        async with serving(refuse) as url, talking(kind, url=url) as talk:
            _, raised = await talk.fail()

        assert isinstance(raised, PromptTooLong)

    @for_all
    async def test_a_refused_request_is_told_from_a_refused_key(self, kind: str) -> None:
        """Finding E8: only of the first it makes sense to go on without the message."""
        async with talking(kind) as talk:
            await talk.sim.fault("400")
            _, of_request = await talk.fail()
            await talk.sim.fault("401")
            _, of_key = await talk.fail()

        assert isinstance(of_request, RequestRefused)
        assert not isinstance(of_request, PromptTooLong)
        assert not isinstance(of_key, RequestRefused)

    @for_all
    async def test_each_failure_is_one_request(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.sim.fault("500", times=None)
            await talk.fail()
            assert len(await talk.requests()) == 1

    @for_all
    async def test_the_pause_that_a_server_asks_for_is_passed_on(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.sim.fault("429", retry_after=7.5)
            _, error = await talk.fail()

        assert isinstance(error, AgentUnavailable)
        assert error.retry_after == 7.5

    @for_all
    @pytest.mark.parametrize("fault", ["500", "error first"])
    async def test_people_are_not_shown_what_a_server_says_to_its_operator(
        self, kind: str, fault: str
    ) -> None:
        async with talking(kind) as talk:
            await talk.sim.fault(fault)
            _, error = await talk.fail()

        assert "fault" not in str(error)
        assert isinstance(error.__cause__, TurngateError)
        assert "a fault: " in error.__cause__.words

    @for_all
    @pytest.mark.parametrize("status", [400, "401", "403", 404])
    async def test_an_error_inside_a_stream_counts_as_its_status(
        self, kind: str, status: object
    ) -> None:
        kinds = {
            "400": "invalid_request_error",
            "401": "authentication_error",
            "403": "permission_error",
        }
        error = {"message": "no", "code": status, "type": kinds.get(str(status), "not_found_error")}

        async def refuse(request: web.Request) -> web.Response:
            return web.Response(text=f"data: {json.dumps({'type': 'error', 'error': error})}\n\n")

        async with serving(refuse) as url, talking(kind, url=url) as talk:
            _, raised = await talk.fail()

        assert isinstance(raised, AgentRefused)

    @for_all
    async def test_of_a_model_that_does_not_exist_the_kind_of_mistake_is_told_and_the_words_are_kept(  # noqa: E501
        self, kind: str
    ) -> None:
        async with talking(kind, model="no-such-model") as talk:
            _, error = await talk.fail()

        assert isinstance(error, AgentRefused)
        assert "there is no such model, or no such address (404" in str(error)
        assert "The model `no-such-model` does not exist" in error.words
        assert "check base_url and model" in str(error)

    @for_all
    async def test_nobody_at_the_address_is_unavailable(self, kind: str) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            async with talking(kind, url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1") as talk:
                _, error = await talk.fail()

        assert isinstance(error, AgentUnavailable)
        assert "127.0.0.1" not in str(error)

    @for_all
    async def test_a_server_that_never_answers_is_given_up(self, kind: str) -> None:
        async with talking(kind, timeouts=HASTY) as talk:
            await talk.sim.fault("silent")
            _, error = await talk.fail()

        assert isinstance(error, AgentUnavailable)

    @for_all
    async def test_a_redirect_is_not_followed_with_our_key(self, kind: str) -> None:
        async with talking(kind) as talk:
            agent = MAKERS[kind](
                AgentSpec(
                    name="main",
                    kind=kind,
                    url=f"{talk.sim.url}/moved",
                    api_key=KEY,
                    model="a-model",
                )
            )
            _, error = await Talk(kind, agent, talk.sim).fail()
            await agent.close()
            assert await talk.requests() == []

        assert isinstance(error, AgentRefused)
        assert "elsewhere (308)" in str(error)


class TestBreaking:
    @for_all
    @pytest.mark.parametrize(
        ("fault", "why"),
        [
            ("cut", "the connection to the model broke"),
            ("ends early", "it ended before it was finished"),
            ("error inside", "the model failed"),
            ("garbage inside", "what the model server sends cannot be read"),
            ("endless line", "one line of it has no end"),
        ],
    )
    async def test_what_breaks_half_way_keeps_its_words_and_says_why(
        self, kind: str, fault: str, why: str
    ) -> None:
        async with talking(kind) as talk:
            await talk.script(pieces=PIECES * 3)
            await talk.sim.fault(fault)
            heard, error = await talk.fail()

        assert text_of(heard)
        assert "".join(PIECES * 3).startswith(text_of(heard))
        assert type(error) is AgentError
        assert str(error) == f"the answer was cut off: {why}"

    @for_all
    async def test_silence_half_way_ends_it(self, kind: str) -> None:
        async with talking(kind, timeouts=HASTY) as talk:
            await talk.script(pieces=PIECES * 3)
            await talk.sim.fault("stall")
            heard, error = await talk.fail()

        assert text_of(heard)
        assert str(error) == "the answer was cut off: the model fell silent"

    async def test_what_was_counted_before_it_broke_is_not_lost(self) -> None:
        async with talking("anthropic") as talk:
            await talk.script(pieces=PIECES * 3)
            await talk.sim.fault("cut")
            heard, _ = await talk.fail()

        assert heard[-1] == Usage(input=7, output=1, cache_read=4)

    @for_all
    async def test_bytes_that_are_no_text_cost_only_themselves(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script()
            await talk.sim.fault("invalid utf-8")
            assert text_of(await talk.hear()) == "".join(PIECES).replace(
                "wonderful", "wonder\ufffd\ufffdful"
            )

    @for_all
    async def test_a_line_of_a_megabyte_is_read_over(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script()
            await talk.sim.fault("long comment")
            assert text_of(await talk.hear()) == "".join(PIECES)

    @for_all
    async def test_a_piece_of_a_megabyte_is_taken(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.script(pieces=["x" * 1_000_000])
            assert len(text_of(await talk.hear())) == 1_000_000


class TestSecrets:
    @for_all
    async def test_the_key_is_in_no_error_and_no_log(
        self, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        async with talking(kind, api_key=CANARY) as talk:
            _, error = await talk.fail()
            shown = repr(talk.agent) + repr(vars(talk.agent))

        assert "does not take our key (401" in str(error)
        assert "Incorrect API key provided: ***" in error.words  # type: ignore[attr-defined]
        chain: BaseException | None = error
        while chain is not None:
            assert CANARY not in f"{chain!r} {chain}"
            chain = chain.__cause__ or chain.__context__
        assert CANARY not in caplog.text
        assert CANARY not in shown

    @for_all
    async def test_what_a_server_says_is_cut_and_is_one_line(self, kind: str) -> None:
        async def complain(request: web.Request) -> web.Response:
            key = request.headers.get("x-api-key") or request.headers["Authorization"]
            return web.json_response(
                {"error": {"message": f"no\n{key} " + "blah " * 200}}, status=400
            )

        async with serving(complain) as url, talking(kind, url=url, api_key=CANARY) as talk:
            _, error = await talk.fail()

        assert isinstance(error, AgentRefused)
        assert CANARY not in str(error)
        assert "\n" not in str(error)
        assert len(str(error)) < 400

    @for_all
    async def test_a_pause_until_a_date_is_counted_by_the_server_s_clock(self, kind: str) -> None:
        async def later(request: web.Request) -> web.Response:
            its_time = datetime(2020, 2, 29, 12, 0, tzinfo=UTC)
            dates = {"Date": its_time, "Retry-After": its_time + timedelta(minutes=10)}
            headers = {name: format_datetime(date, usegmt=True) for name, date in dates.items()}
            return web.Response(status=503, headers=headers)

        async with serving(later) as url, talking(kind, url=url) as talk:
            _, error = await talk.fail()

        assert isinstance(error, AgentUnavailable)
        assert error.retry_after == 600

    @for_all
    @pytest.mark.parametrize("written", ["soon", "nan", "-5", "1e999", "Mon, 99 Foo 2026"])
    async def test_a_pause_that_makes_no_sense_is_none(self, kind: str, written: str) -> None:
        async def later(request: web.Request) -> web.Response:
            return web.Response(status=429, headers={"Retry-After": written})

        async with serving(later) as url, talking(kind, url=url) as talk:
            _, error = await talk.fail()

        assert isinstance(error, AgentUnavailable)
        assert error.retry_after in (None, 0.0)

    @for_all
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"null",
            b"[]",
            b"{}",
            b"data: null\n\n",
            b"data: [1]\n\n",
            b'data: {"choices": 7}\n\n',
            b'{"choices": [7], "content": 3, "type": "message_start"}',
            b"data: " + b'{"a":' * 100_000 + b"\n\n",
        ],
        ids=range(9),
    )
    async def test_no_answer_at_all_is_unavailable_whatever_it_is(
        self, kind: str, body: bytes
    ) -> None:
        async def odd(request: web.Request) -> web.Response:
            return web.Response(body=body, content_type="application/json")

        async with serving(odd) as url, talking(kind, url=url) as talk:
            heard, error = await talk.fail()

        assert heard == []
        assert isinstance(error, AgentUnavailable)


EMPTY_ANSWER = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


class TestResponsesRequests:
    async def test_prompt_history_and_tools_are_written_as_the_protocol_has_it(self) -> None:
        asked = turn("now", system="Be kind.", context="Here.", history=_history())
        options = {"reasoning": {"summary": "auto"}}
        async with talking("responses", max_tokens=99, options=options) as talk:
            await talk.hear(asked)
            request = (await talk.requests())[0]

        call = {"type": "function_call", "call_id": "call_1", "name": "look"}
        assert request == {
            "model": "a-model",
            "stream": True,
            "store": False,
            "instructions": "Be kind.\n\nHere.",
            "max_output_tokens": 99,
            "reasoning": {"summary": "auto"},
            "input": [
                {"role": "user", "content": "before"},
                {"role": "assistant", "content": "I look."},
                {**call, "arguments": '{"at": "sky"}'},
                {"type": "function_call_output", "call_id": "call_1", "output": "blue"},
                {"role": "assistant", "content": "It is blue."},
                {"role": "user", "content": "now"},
            ],
        }

    async def test_pictures_are_inline(self, tmp_path: Path) -> None:
        async with talking("responses") as talk:
            await talk.hear(_with_picture(tmp_path))
            content = (await talk.requests())[0]["input"][-1]["content"]

        url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        assert content == [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": url, "detail": "auto"},
        ]

    async def test_a_tool_that_the_server_runs_itself_begins_and_ends(self) -> None:
        calls = [{"id": "ws_1", "name": "x", "arguments": "fish", "result": "found"}]
        async with talking("responses") as talk:
            await talk.script(calls=calls)
            tools = [event for event in await talk.hear() if isinstance(event, Tool)]

        assert [(tool.name, tool.status) for tool in tools] == [
            ("web_search", ToolStatus.STARTED),
            ("web_search", ToolStatus.DONE),
        ]

    async def test_parts_of_a_summary_and_messages_are_kept_apart(self) -> None:
        told = [
            {"type": "response.output_item.added", "item": {"type": "reasoning"}},
            {"type": "response.reasoning_summary_part.added", "summary_index": 0},
            {"type": "response.reasoning_summary_text.delta", "delta": "one"},
            {"type": "response.reasoning_summary_part.added", "summary_index": 1},
            {"type": "response.reasoning_summary_text.delta", "delta": "two"},
            {"type": "response.output_item.added", "item": {"type": "message"}},
            {"type": "response.output_text.delta", "delta": "first"},
            {"type": "response.something.new", "delta": "not for us"},
            {"type": "response.output_item.added", "item": {"type": "message"}},
            {"type": "response.refusal.delta", "delta": "second"},
            {"type": "response.completed", "response": {"status": "completed"}},
        ]

        async def tell(request: web.Request) -> web.Response:
            return web.Response(text="".join(f"data: {json.dumps(each)}\n\n" for each in told))

        async with serving(tell) as url, talking("responses", url=url) as talk:
            events = await talk.hear()

        thoughts = "".join(event.text for event in events if isinstance(event, Reasoning))
        assert (thoughts, text_of(events)) == ("one\n\ntwo", "first\n\nsecond")

    async def test_the_config_chooses_the_protocol(self) -> None:
        spec = AgentSpec(name="main", kind="openai", api="responses", model="m", api_key="k")
        assert isinstance(load_agent(spec), ResponsesAgent)
        assert isinstance(load_agent(replace(spec, api="chat")), OpenAiAgent)


class TestOpenAiRequests:
    async def test_prompt_history_and_tools_are_written_as_the_protocol_has_it(self) -> None:
        asked = turn("now", system="Be kind.", context="Here.", history=_history())
        async with talking("openai", max_tokens=99, options={"temperature": 0.5}) as talk:
            await talk.hear(asked)
            request = (await talk.requests())[0]

        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": "look", "arguments": '{"at": "sky"}'},
        }
        assert request == {
            "model": "a-model",
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 99,
            "temperature": 0.5,
            "messages": [
                {"role": "system", "content": "Be kind.\n\nHere."},
                {"role": "user", "content": "before"},
                {"role": "assistant", "content": "I look.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": "blue"},
                {"role": "assistant", "content": "It is blue."},
                {"role": "user", "content": "now"},
            ],
        }

    async def test_pictures_are_inline(self, tmp_path: Path) -> None:
        async with talking("openai") as talk:
            await talk.hear(_with_picture(tmp_path))
            content = (await talk.requests())[0]["messages"][-1]["content"]

        url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        assert content == [
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": url}},
        ]

    async def test_a_field_that_a_server_does_not_know_is_left_out_from_then_on(self) -> None:
        async with talking("openai") as talk:
            await talk.sim.fault("no stream_options", times=None)
            await talk.hear()
            await talk.hear()
            sent = ["stream_options" in request for request in await talk.requests()]

        assert sent == [True, False, False]

    async def test_a_server_that_cuts_every_stream_at_once_is_asked_for_the_answer_whole(
        self,
    ) -> None:
        async with talking("openai") as talk:
            await talk.script()
            await talk.sim.fault("cut at once", times=None)
            assert text_of(await talk.hear()) == "".join(PIECES)

    @pytest.mark.parametrize("kind", ["anthropic", "responses"])
    async def test_elsewhere_a_stream_that_is_cut_at_once_may_go_by(self, kind: str) -> None:
        async with talking(kind) as talk:
            await talk.sim.fault("cut at once", times=None)
            assert isinstance((await talk.fail())[1], AgentUnavailable)

    @pytest.mark.parametrize("stream", ["", EMPTY_ANSWER])
    async def test_a_stream_that_says_nothing_is_asked_for_its_reason(self, stream: str) -> None:
        """As llama-cpp-python does it with a full window (H6), and LiteLLM before it."""

        async def refuse(request: web.Request) -> web.StreamResponse:
            if not (await request.json())["stream"]:
                words = "This model's maximum context length is 512 tokens."
                return web.json_response({"error": {"message": words}}, status=400)
            return web.Response(text=stream, content_type="text/event-stream")

        async with serving(refuse) as url, talking("openai", url=url) as talk:
            heard, error = await talk.fail()

        assert heard == []
        assert isinstance(error, PromptTooLong)

    async def test_a_model_that_has_nothing_to_say_is_asked_twice_and_believed(self) -> None:
        async with talking("openai") as talk:
            await talk.script(pieces=[], ways=["no usage"])
            assert await talk.hear() == [Done()]
            assert [request["stream"] for request in await talk.requests()] == [True, False]

    async def test_a_model_that_wants_another_word_for_its_longest_answer_gets_it(self) -> None:
        async with talking("openai", max_tokens=50) as talk:
            await talk.sim.fault("no max_tokens", times=None)
            await talk.hear()
            request = (await talk.requests())[-1]

        assert request["max_completion_tokens"] == 50
        assert "max_tokens" not in request

    async def test_without_a_key_none_is_sent(self) -> None:
        async with talking("openai", api_key=None) as talk:
            await talk.hear()
            assert [call["account"] for call in await talk.sim.calls(method="completions")] == [
                None
            ]


class TestAnthropicRequests:
    async def test_prompt_history_and_tools_are_written_as_the_protocol_has_it(self) -> None:
        asked = turn("now", system="Be kind.", context="Here.", history=_history())
        async with talking("anthropic", options={"temperature": 0.5}) as talk:
            await talk.hear(asked)
            request = (await talk.requests())[0]

        assert request["max_tokens"] == 8192
        assert request["temperature"] == 0.5
        assert request["system"] == [
            {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Here."},
        ]
        assert request["tool_choice"] == {"type": "none"}
        assert [tool["name"] for tool in request["tools"]] == ["look"]
        assert request["messages"] == [
            {"role": "user", "content": "before"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "the sky?", "signature": "sig"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "sky"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "blue"}],
            },
            {"role": "assistant", "content": "It is blue."},
            {"role": "user", "content": "now"},
        ]

    async def test_pictures_are_blocks(self, tmp_path: Path) -> None:
        async with talking("anthropic") as talk:
            await talk.hear(_with_picture(tmp_path))
            content = (await talk.requests())[0]["messages"][-1]["content"]

        source = {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(PNG).decode(),
        }
        assert content == [{"type": "text", "text": "see"}, {"type": "image", "source": source}]

    async def test_the_address_may_end_in_its_version_or_not(self) -> None:
        async with talking("anthropic") as talk:
            agent = AnthropicAgent(
                AgentSpec(name="main", url=talk.sim.url + "/", api_key=KEY, model="a-model")
            )
            events = await Talk("anthropic", agent, talk.sim).hear()
            await agent.close()

        assert events[-1] == Done()


class TestManyAtOnce:
    @for_all
    async def test_sixty_four_streams_are_kept_apart(self, kind: str) -> None:
        async with talking(kind) as talk:
            answers = await asyncio.gather(
                *(talk.hear(turn(f"<{n}>", number=n)) for n in range(64))
            )

        assert [text_of(events) for events in answers] == [f"You said: <{n}>" for n in range(64)]


@asynccontextmanager
async def serving(handler: Any) -> AsyncIterator[str]:
    """A server that has one answer to everything."""
    app = web.Application()
    app.add_routes([web.post("/{anything:.*}", handler)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


def _history() -> tuple[Entry, ...]:
    looks = replace(
        assistant("I look."),
        tool_calls=(ToolCall(id="x:1", name="look", arguments='{"at": "sky"}'),),
        reasoning=Reasoning(text="the sky?", signature="sig"),
    )
    seen = Entry(role=Role.TOOL, content=(Text("blue"),), at=NOON, tool_call_id="x:1")
    return user("before"), looks, seen, assistant("It is blue.")


def _with_picture(folder: Path) -> Turn:
    path = folder / "p.png"
    path.write_bytes(PNG)
    picture = Attachment(type=MediaType.IMAGE, path=str(path), name="p.png", mime="image/jpeg")
    asked = turn("see")
    return replace(asked, messages=(replace(asked.messages[0], attachments=(picture,)),))
