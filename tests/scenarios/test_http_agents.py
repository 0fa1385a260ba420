"""
Agents behind an address, over real connections: every form of an answer, and what can go wrong with
one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.programs import Heard, heard, turn_in
from tests.simulators.http_agent import Answer, Document, Service, hang_up, say, service, streaming
from turngate.gateway.agents import AgentSpec, load_agent
from turngate.gateway.agents.http import HttpAgent
from turngate.gateway.domain.agent_events import (
    Ask,
    Done,
    Usage,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
    ConfigError,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.ports.agent import TakesAnswers, TakesSteering
from turngate.gateway.domain.transcript import Text

TURN = turn_in(Path("/work"), "hello")


@asynccontextmanager
async def served(answer: Answer, **more: object) -> AsyncIterator[tuple[HttpAgent, Service]]:
    """An agent, and the service that it asks."""
    async with service(answer) as serving:
        agent = load_agent(AgentSpec(name="main", kind="http", url=serving.url, **more))  # type: ignore[arg-type]
        assert isinstance(agent, HttpAgent)
        try:
            yield agent, serving
        finally:
            await agent.close()


def whole(
    body: str | bytes, kind: str = "text/event-stream", status: int = 200, **headers: str
) -> Answer:
    """A service that answers the same to everybody."""

    async def answer(request: web.Request, turn: Document) -> web.StreamResponse:
        content = body.encode() if isinstance(body, str) else body
        return web.Response(body=content, status=status, headers={"Content-Type": kind} | headers)

    return answer


def unframed(body: str, kind: str = "text/event-stream") -> Answer:
    """A service that does not say how long its answer is, and ends it with the connection."""

    async def answer(request: web.Request, turn: Document) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n{body}".encode())
        request.transport.close()
        return web.Response()

    return answer


def stream(
    play: Callable[[web.Request, web.StreamResponse], Awaitable[None]], **headers: str
) -> Answer:
    """A service that plays something, and ends."""

    async def answer(request: web.Request, turn: Document) -> web.StreamResponse:
        response = await streaming(request, **headers)
        await play(request, response)
        return response

    return answer


async def answered(answer: Answer, **more: object) -> Heard:
    """One whole turn."""
    async with served(answer, **more) as (agent, _):
        return await heard(agent, TURN)


class TestAnswering:
    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ('data: {"type":"text","text":"hi"}\n\ndata: {"type":"done"}\n\n', "text/event-stream"),
            (
                'data: {"type":"text","text":"hi"}\n\ndata: [DONE]\n\n',
                "text/event-stream; charset=utf-8",
            ),
            (
                ': hello\r\nevent: x\r\nid: 1\r\ndata: {"type":"text",\r\ndata: '
                '"text":"hi"}\r\n\r\n',
                "text/event-stream",
            ),
            ('data: {"type":"text","text":"hi"}', "text/event-stream"),
            ('event: text\ndata: {"text":"hi"}\n\nevent: done\ndata: {}\n\n', "text/event-stream"),
            ('{"type":"text","text":"hi"}\n\n{"type":"done"}\n', "application/x-ndjson"),
            ('{"type":"text","text":"hi"}', "application/jsonl"),
            ('{"text":"hi"}', "application/json"),
            ('{"type":"text","text":"hi"}', "application/json; charset=utf-8"),
            ('[{"type":"text","text":"hi"},{"type":"done"}]', "application/json"),
            ('{"events":[{"type":"text","text":"hi"}]}', "application/json"),
        ],
    )
    async def test_events_come_in_many_forms(self, body: str, kind: str) -> None:
        assert await answered(whole(body, kind)) == Heard([Text("hi"), Done()])

    async def test_the_turn_is_posted_with_the_key_and_where_answers_go(self) -> None:
        async with served(whole("[]", "application/json"), api_key="canary-key") as (
            agent,
            serving,
        ):
            await heard(agent, TURN)
            (turn,) = serving.turns
        assert turn["messages"][0]["text"] == "hello"  # type: ignore[index]
        assert turn["answer_url"] == f"{serving.url}/answers"
        assert serving.headers[0]["Authorization"] == "Bearer canary-key"
        assert serving.headers[0]["Content-Type"] == "application/json"

    async def test_events_come_as_they_happen(self) -> None:
        may_go_on = asyncio.Event()

        async def play(request: web.Request, response: web.StreamResponse) -> None:
            await say(response, type="text", text="one")
            await may_go_on.wait()
            await say(response, type="usage", input=3)

        async with served(stream(play)) as (agent, _):
            running = agent.run(TURN)
            assert await anext(running) == Text("one")
            may_go_on.set()
            assert [event async for event in running] == [Usage(input=3), Done()]

    async def test_what_comes_after_done_is_not_waited_for(self) -> None:
        async def play(request: web.Request, response: web.StreamResponse) -> None:
            await say(response, type="done")
            await asyncio.Event().wait()

        assert await answered(stream(play)) == Heard([Done()])


class TestFailing:
    @pytest.mark.parametrize(
        ("status", "kind", "words"),
        [
            (401, AgentRefused, "the agent does not take our key (401); check api_key"),
            (403, AgentRefused, "the agent does not take our key (403); check api_key"),
            (404, AgentRefused, "the agent does not take the turn (404); check url"),
            (422, AgentRefused, "the agent does not take the turn (422); check url"),
            (307, AgentRefused, "the agent does not take the turn (307); check url"),
            (429, AgentUnavailable, "the agent is busy or broken (429)"),
            (500, AgentUnavailable, "the agent is busy or broken (500)"),
            (503, AgentUnavailable, "the agent is busy or broken (503)"),
        ],
    )
    async def test_a_refusal_says_whose_turn_it_is_to_act(
        self, status: int, kind: type, words: str
    ) -> None:
        failure = (await answered(whole("no", "text/plain", status))).failure
        assert type(failure) is kind
        assert str(failure) == words
        assert failure is not None
        assert failure.words == "no"

    async def test_when_to_come_back_is_heard(self) -> None:
        headers: Mapping[str, str] = {"Retry-After": "7"}
        failure = (await answered(whole("", status=429, **headers))).failure
        assert isinstance(failure, AgentUnavailable)
        assert failure.retry_after == 7

    async def test_the_key_is_not_repeated(self) -> None:
        failure = (
            await answered(whole("bad key canary-key", "text/plain", 401), api_key="canary-key")
        ).failure
        assert failure is not None
        assert failure.words == "bad key ***"
        assert "canary" not in str(failure)

    async def test_nobody_at_the_address_may_be_there_later(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        agent = load_agent(AgentSpec(name="main", kind="http", url=f"http://127.0.0.1:{port}/"))
        assert isinstance(agent, HttpAgent)
        failure = (await heard(agent, TURN)).failure
        await agent.close()
        assert isinstance(failure, AgentUnavailable)
        assert str(failure) == "the agent cannot be reached"

    async def test_a_connection_that_breaks_before_the_first_event_may_be_tried_again(self) -> None:
        async def play(request: web.Request, response: web.StreamResponse) -> None:
            hang_up(request)

        assert isinstance((await answered(stream(play))).failure, AgentUnavailable)

    async def test_a_connection_that_breaks_later_keeps_what_was_said(self) -> None:
        async def play(request: web.Request, response: web.StreamResponse) -> None:
            await say(response, type="text", text="half")
            await asyncio.sleep(0.05)
            hang_up(request)

        result = await answered(stream(play))
        assert result.text == "half"
        assert type(result.failure) is AgentError
        assert str(result.failure) == "the answer was cut off: the connection to the agent broke"

    @pytest.mark.parametrize(
        ("prefix", "kind"), [("data: ", "text/event-stream"), ("", "application/x-ndjson")]
    )
    async def test_a_connection_that_just_ends_does_not_make_half_an_answer_whole(
        self, prefix: str, kind: str
    ) -> None:
        result = await answered(unframed(prefix + '{"type":"text","text":"half"}\n\n', kind))

        assert result.text == "half"
        assert "before the agent said that it is done" in str(result.failure)

    async def test_where_the_agent_says_that_it_is_done_a_connection_may_just_end(self) -> None:
        body = 'data: {"type":"text","text":"whole"}\n\ndata: {"type":"done"}\n\n'

        result = await answered(unframed(body))

        assert (result.text, result.failure) == ("whole", None)

    @pytest.mark.parametrize(
        ("body", "kind", "words"),
        [
            ("data: hello\n\n", "text/event-stream", "not JSON"),
            ('data: {"type":"text"}\n\n', "text/event-stream", "text must be a text"),
            ('data: {"type":"error","text":"out of ink"}\n\n', "text/event-stream", "out of ink"),
            ("hello", "application/json", "not JSON"),
            ("<html>", "text/html", "answers with another type"),
            ("data: " + "x" * 5_000_000, "text/event-stream", "no end"),
            ("x" * 9_000_000, "application/x-ndjson", "a line of more than 8 MB"),
            ("x" * 9_000_000, "application/json", "more than 8 MB at once"),
            ((" " * 1000 + "\n") * 33_000, "application/x-ndjson", "more than 32 MB"),
        ],
    )
    async def test_an_answer_that_is_none_is_told(self, body: str, kind: str, words: str) -> None:
        failure = (await answered(whole(body, kind))).failure
        assert words in str(failure)

    async def test_bytes_that_are_no_text_do_not_end_the_turn(self) -> None:
        body = b'data: {"type":"text","text":"a\xffb"}\n\n'
        assert (await answered(whole(body))).text == "a�b"


async def _asks(request: web.Request, response: web.StreamResponse) -> None:
    await say(response, type="ask", id="q", text="Sure?", options=["yes", "no"])
    await asyncio.Event().wait()


class TestWhileItWorks:
    async def test_it_takes_answers_and_words(self) -> None:
        async with served(stream(_asks)) as (agent, serving):
            assert isinstance(agent, TakesAnswers)
            assert isinstance(agent, TakesSteering)
            running = agent.run(TURN)
            assert await anext(running) == Ask(id="q", text="Sure?", options=("yes", "no"))
            await agent.answer(TurnId(7), "q", "yes")
            assert await agent.steer(TurnId(7), "and quickly")
            assert serving.told == [
                {"turn": 7, "type": "answer", "id": "q", "option": "yes"},
                {"turn": 7, "type": "steer", "text": "and quickly"},
            ]
            await running.aclose()

    async def test_who_hangs_up_says_stop_and_ends_the_work(self) -> None:
        async with served(stream(_asks)) as (agent, serving):
            running = agent.run(TURN)
            await anext(running)
            await running.aclose()
            assert await serving.until_told(1) == [{"turn": 7, "type": "stop"}]
            while serving.working:
                await asyncio.sleep(0.005)

    async def test_who_was_answered_says_nothing_more(self) -> None:
        async def play(request: web.Request, response: web.StreamResponse) -> None:
            await say(response, type="done")

        async with served(stream(play)) as (agent, serving):
            running = agent.run(TURN)
            await anext(running)
            await running.aclose()
            assert serving.told == []

    async def test_nothing_is_said_of_a_turn_that_is_over(self) -> None:
        async with served(whole("[]", "application/json")) as (agent, serving):
            await agent.answer(TurnId(7), "q", None)
            assert not await agent.steer(TurnId(7), "hello?")
            assert serving.told == []

    async def test_words_that_nobody_takes_are_a_message_of_their_own(self) -> None:
        async with served(stream(_asks)) as (agent, serving):
            serving.refuse_answers = 404
            running = agent.run(TURN)
            await anext(running)
            assert not await agent.steer(TurnId(7), "hello?")
            await running.aclose()

    async def test_a_turn_that_cannot_be_told_its_answer_fails(self) -> None:
        async with served(stream(_asks)) as (agent, serving):
            serving.refuse_answers = 500
            running = agent.run(TURN)
            await anext(running)
            await agent.answer(TurnId(7), "q", "yes")
            with pytest.raises(AgentError, match="the agent could not be told the answer"):
                await anext(running)
            assert len(serving.told) == 3

    async def test_the_agent_may_name_another_address_of_its_own_in_a_header(self) -> None:
        headers: Mapping[str, str] = {"X-Answer-Url": "/elsewhere"}
        async with served(stream(_asks, **headers)) as (agent, serving):
            await self._answer(agent)
            assert serving.paths[0] == "/elsewhere"

    async def test_the_agent_may_name_another_address_of_its_own_in_its_first_event(self) -> None:
        async def play(request: web.Request, response: web.StreamResponse) -> None:
            await say(response, type="hello", answer_url=str(request.url.with_path("/elsewhere")))
            await _asks(request, response)

        async with served(stream(play)) as (agent, serving):
            await self._answer(agent)
            assert serving.paths[0] == "/elsewhere"

    @pytest.mark.parametrize(
        "address", ["http://localhost:1/", "https://127.0.0.1/", "file:///x", "http://[", 3, None]
    )
    async def test_no_address_of_others_is_taken(self, address: object) -> None:
        async def play(request: web.Request, response: web.StreamResponse) -> None:
            await say(response, type="hello", answer_url=address)
            await _asks(request, response)

        async with served(stream(play)) as (agent, serving):
            await self._answer(agent)
            assert serving.paths[0] == "/turn/answers"

    async def test_the_operator_may_name_another_address_which_gets_no_key(self) -> None:
        async with service(whole("")) as other:
            options = {"answer_url": other.url + "/answers"}
            async with served(stream(_asks), options=options, api_key="canary-key") as (
                agent,
                serving,
            ):
                await self._answer(agent)
            assert serving.turns[0]["answer_url"] == options["answer_url"]
            assert serving.told == []
            assert [each.get("Authorization") for each in other.headers] == [None, None]
            assert [each["type"] for each in other.told] == ["answer", "stop"]

    async def _answer(self, agent: HttpAgent) -> None:
        running = agent.run(TURN)
        await anext(running)
        await agent.answer(TurnId(7), "q", "yes")
        await running.aclose()


class TestMistakes:
    def test_an_address_is_needed(self) -> None:
        with pytest.raises(ConfigError, match="which address"):
            load_agent(AgentSpec(name="main", kind="http"))

    @pytest.mark.parametrize("address", [3, "", "nowhere", "ftp://host/"])
    def test_the_address_for_answers_must_be_one(self, address: object) -> None:
        options = {"answer_url": address}
        with pytest.raises(ConfigError, match=r"options\.answer_url is not an address"):
            load_agent(AgentSpec(name="main", kind="http", url="http://host/", options=options))  # type: ignore[arg-type]
