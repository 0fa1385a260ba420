"""
The agent kind `http`: a service to which the turn is posted, and which responds with events.

The events come as SSE, as lines of JSON, or all at once as one JSON document. Input during the turn
(answers, steering, stop) is posted to the `answer_url` in the turn: that of the config, or the one
below the agent's own address, unless the agent names another of its own (`X-Answer-Url`, or an
event `hello`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit, urlunsplit

import aiohttp
import structlog

from turngate.gateway.agents.endpoint import Endpoint, endpoint
from turngate.gateway.agents.examine import examine_address
from turngate.gateway.agents.http_events import read_events
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
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.session import SessionEnded
from turngate.gateway.observability.logs import Action

_BUSY = frozenset({408, 425, 429})
_ANSWER_TRIES = 3
_SECONDS_BETWEEN = 0.5
_SECONDS_TO_STOP = 0.3
# The idle timeout belongs to the turn, which suspends it while a question is open: that may take
# days.
_TIMEOUTS = CallTimeouts(connect=15.0, silence=30 * 24 * 3600.0)
_ANSWER_TIMEOUTS = CallTimeouts(connect=5.0, silence=10.0)


def make(spec: AgentSpec) -> HttpAgent:
    """Make the agent. Raises ConfigError without a valid address for turns and for answers."""
    if spec.url is None:
        raise ConfigError(f"agents.{spec.name}: which address? write url: http://host/path")
    headers = {"Accept": "text/event-stream, application/x-ndjson, application/json"}
    asked = endpoint(
        spec, default=spec.url, below="", headers=headers, key_as="Authorization: Bearer"
    )
    # `endpoint` has checked the address, but would drop its final slash.
    return HttpAgent(spec, replace(asked, url=spec.url), _answer_url(spec, spec.url))


@dataclass(slots=True, kw_only=True)
class _Call:
    """A running turn: where its answers are posted, and why it was given up."""

    turn: TurnId
    answer_url: str
    response: aiohttp.ClientResponse | None = None
    failure: str | None = None

    def give_up(self, why: str) -> None:
        self.failure = why
        # `run`, which is reading the events, then gets a connection error and reports `failure`.
        if self.response is not None:
            self.response.close()


class HttpAgent:
    """An agent behind one address."""

    def __init__(self, spec: AgentSpec, asked: Endpoint, answer_url: str) -> None:
        # Only on instances that want it: `TakesSessionEnd` is checked by the presence of the name.
        if spec.session_end:
            self.session_end = self._session_end
        self._spec = spec
        self._endpoint = asked
        self._answer_url = answer_url
        self._server = ModelServer(asked, _TIMEOUTS)
        self._running: dict[TurnId, _Call] = {}

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """Yield its events. Closing the generator disconnects, and posts a stop."""
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
            # AgentUnavailable would be retried, after a part of the answer was shown.
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
        """Post the answer, with retries. A turn that cannot get its answer is given up."""
        call = self._running.get(turn)
        if call is None:
            return

        for attempt in range(_ANSWER_TRIES):
            await asyncio.sleep(attempt * _SECONDS_BETWEEN)
            if await self._say(call, answer_document(ask, option)):
                return

        call.give_up("the agent could not be told the answer")

    async def steer(self, turn: TurnId, text: str) -> bool:
        call = self._running.get(turn)
        return call is not None and await self._say(call, steer_document(text))

    async def _session_end(self, ending: SessionEnded) -> None:
        """Post the notification to the address for turns. Any 2xx confirms it."""
        try:
            async with self._server.asked(written(ending_document(ending))):
                return
        except ServerRefusal as exc:
            # `asked` raises for everything but 200, so also for 202 and 204.
            if not 200 <= exc.status < 300:
                raise _refused(exc) from exc

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        return await examine_address(self._spec, self._endpoint) if online else ()

    async def close(self) -> None:
        await self._server.close()

    async def _asked(self, call: _Call, turn: Turn) -> AsyncGenerator[AgentEvent]:
        document = turn_document(turn) | {"answer_url": call.answer_url}
        try:
            async with self._server.asked(written(document)) as response:
                call.response = response
                self._hear_address(call, response.headers.get("X-Answer-Url"))
                async with aclosing(read_events(response)) as documents:
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
        """Take the address for answers that the agent names, if it has the agent's own origin."""
        if not isinstance(address, str):
            return
        named = _joined(self._endpoint.url, address)
        # Otherwise an agent could make the gateway post to any server in its network.
        if _origin(named) == _origin(self._endpoint.url):
            call.answer_url = named
        else:
            structlog.get_logger().warning(
                "an address for answers was not taken", action=Action.AGENT
            )

    async def _say(self, call: _Call, document: dict[str, Json]) -> bool:
        """Post a document to the running turn; True if the agent accepted it."""
        # The operator may have configured an answer_url on another server: it gets no API key.
        is_own = _origin(call.answer_url) == _origin(self._endpoint.url)
        headers = self._endpoint.headers if is_own else {"Content-Type": "application/json"}
        server = ModelServer(
            replace(self._endpoint, url=call.answer_url, headers=headers), _ANSWER_TIMEOUTS
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
            return  # the agent still sees that the connection is closed


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
            f"agents.{spec.name}: options.answer_url is not an address; write http://host/path"
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
