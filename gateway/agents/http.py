"""
An agent behind an address: the turn is posted to it, and its answer is the events, as they happen.

The events come as SSE, as lines of JSON, or all at once as one JSON document. What is said to the
agent while it works (answers, more words, that it should stop) is posted to the `answer_url` that
stands in the turn: that of the config, or the one below the agent's own address, unless the agent
names another of its own (`X-Answer-Url`, or an event `hello`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit, urlunsplit

import aiohttp
import structlog

from turngate.gateway.agents.endpoint import Endpoint, endpoint
from turngate.gateway.agents.http_events import said
from turngate.gateway.agents.json_protocol import (
    STOP,
    answer_document,
    ending_document,
    event_of,
    steer_document,
    turn_document,
    written,
)
from turngate.gateway.agents.model_call import (
    CallTimeouts,
    ModelServer,
    ServerRefusal,
)
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
    ConfigError,
)
from turngate.gateway.domain.ids import TurnId
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import SessionEnded
from turngate.gateway.observability.logs import Action

_BUSY = frozenset({408, 425, 429})
_ANSWER_TRIES = 3
_SECONDS_BETWEEN = 0.5
_SECONDS_TO_STOP = 0.3
# How long an agent may be silent is decided elsewhere, and who waits for an answer may be silent
# for days.
_PATIENCE = CallTimeouts(connect=15.0, silence=30 * 24 * 3600.0)
_PATIENCE_WITH_ANSWERS = CallTimeouts(connect=5.0, silence=10.0)


def make(spec: AgentSpec) -> HttpAgent:
    """Raises ConfigError if there is no address, or none for answers."""
    if spec.url is None:
        raise ConfigError(f"agents.{spec.name}: which address? write url: http://host/path")
    headers = {"Accept": "text/event-stream, application/x-ndjson, application/json"}
    asked = endpoint(
        spec, default=spec.url, below="", headers=headers, key_as="Authorization: Bearer"
    )
    return HttpAgent(
        replace(asked, url=spec.url), _answer_url(spec, spec.url), hears_of_endings=spec.session_end
    )


@dataclass(slots=True, kw_only=True)
class _Call:
    """A turn that runs: where it hears answers, and how it can be given up."""

    turn: TurnId
    answer_url: str
    response: aiohttp.ClientResponse | None = None
    failure: str | None = None

    def give_up(self, why: str) -> None:
        self.failure = why
        if self.response is not None:
            self.response.close()


class HttpAgent:
    """One address, and whoever answers there."""

    def __init__(self, asked: Endpoint, answer_url: str, *, hears_of_endings: bool = False) -> None:
        if hears_of_endings:
            self.session_end = self._session_end
        self._endpoint = asked
        self._answer_url = answer_url
        self._server = ModelServer(asked, _PATIENCE)
        self._running: dict[TurnId, _Call] = {}

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """
        Its events. Closing it hangs up, and says so at the address for answers, if somebody listens
        there.
        """
        call = _Call(turn=turn.id, answer_url=self._answer_url)
        self._running[turn.id] = call
        has_begun = is_done = False

        try:
            async with aclosing(self._asked(call, turn)) as events:
                async for event in events:
                    has_begun = True
                    is_done = isinstance(event, Done)
                    yield event
                    if is_done:
                        return
            is_done = True
            yield Done()
        except AgentUnavailable as exc:
            if has_begun:
                raise AgentError(call.failure or f"the answer was cut off: {exc}") from exc
            raise
        except (GeneratorExit, asyncio.CancelledError):
            if not is_done:
                await self._say_stop(call)
            raise
        finally:
            self._running.pop(turn.id, None)

    async def answer(self, turn: TurnId, ask: str, option: str | None) -> None:
        """
        Posted to the agent, more than once if it cannot be reached. A turn that cannot be told is
        given up.
        """
        call = self._running.get(turn)
        if call is None:
            return

        for attempt in range(_ANSWER_TRIES):
            await asyncio.sleep(attempt * _SECONDS_BETWEEN)
            if await self._say(call, answer_document(ask, option)):
                return

        call.give_up("the agent could not be told the answer")

    async def steer(self, turn: TurnId, text: str) -> bool:
        """Whether the agent took it."""
        call = self._running.get(turn)
        return call is not None and await self._say(call, steer_document(text))

    async def _session_end(self, ending: SessionEnded) -> None:
        """Posted where turns are. Any answer of success will do, and what it says is not read."""
        try:
            async with self._server.asked(written(ending_document(ending))):
                return
        except ServerRefusal as exc:
            if not 200 <= exc.status < 300:
                raise _refused(exc) from exc

    async def close(self) -> None:
        """Hang up."""
        await self._server.close()

    async def _asked(self, call: _Call, turn: Turn) -> AsyncGenerator[AgentEvent]:
        document = turn_document(turn) | {"answer_url": call.answer_url}
        try:
            async with self._server.asked(written(document)) as response:
                call.response = response
                self._hear_address(call, response.headers.get("X-Answer-Url"))
                async with aclosing(said(response)) as documents:
                    async for each in documents:
                        if isinstance(each, dict) and each.get("type") == "hello":
                            self._hear_address(call, each.get("answer_url"))
                        elif (event := event_of(each)) is not None:
                            yield event
        except ServerRefusal as exc:
            raise _refused(exc) from exc
        except AgentUnavailable as exc:
            if call.response is None:
                raise AgentUnavailable("the agent cannot be reached") from exc
            raise

    def _hear_address(self, call: _Call, address: object) -> None:
        """Only one of its own: nobody is to send us to other people's doors."""
        if not isinstance(address, str):
            return
        named = _joined(self._endpoint.url, address)
        if _origin(named) == _origin(self._endpoint.url):
            call.answer_url = named
        else:
            structlog.get_logger().warning(
                "an address for answers was not taken", action=Action.AGENT
            )

    async def _say(self, call: _Call, document: dict[str, Json]) -> bool:
        """Whether it was taken. The key goes to its own server only."""
        is_own = _origin(call.answer_url) == _origin(self._endpoint.url)
        headers = self._endpoint.headers if is_own else {"Content-Type": "application/json"}
        server = ModelServer(
            replace(self._endpoint, url=call.answer_url, headers=headers), _PATIENCE_WITH_ANSWERS
        )

        try:
            async with server.asked(written({"turn": call.turn, **document})):
                return True
        except ServerRefusal as exc:
            return 200 <= exc.status < 300
        except AgentError:
            return False
        finally:
            await server.close()

    async def _say_stop(self, call: _Call) -> None:
        try:
            async with asyncio.timeout(_SECONDS_TO_STOP):
                await self._say(call, STOP)
        except TimeoutError:
            return  # hanging up has said it


def _refused(refusal: ServerRefusal) -> AgentError:
    why = refusal.why
    words = refusal.words
    if refusal.status in _BUSY or refusal.status >= 500:
        return AgentUnavailable(
            f"the agent is busy or broken{why}", retry_after=refusal.retry_after, words=words
        )
    if refusal.status in (401, 403):
        return AgentRefused(f"the agent does not take our key{why}; check api_key", words=words)
    return AgentRefused(f"the agent does not take the turn{why}; check url", words=words)


def _answer_url(spec: AgentSpec, url: str) -> str:
    named = spec.options.get("answer_url")
    if named is None:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/answers", fragment=""))
    if not isinstance(named, str) or _origin(named) is None:
        raise ConfigError(
            f"agents.{spec.name}: options.answer_url is no address; write http://host/path"
        )
    return named


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return ""


def _origin(address: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(address)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port
