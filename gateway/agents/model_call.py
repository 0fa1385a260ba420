"""
One request to a model server. Failures before its answer begins become agent errors here.

Nothing is retried here: `FallbackAgent` does that. Leaving the answer closes the connection, so
that the server stops generating what is no longer read.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import aiohttp

from turngate.gateway.agents.endpoint import Endpoint
from turngate.gateway.domain.errors import (
    AgentBusy,
    AgentError,
    AgentRefused,
    AgentUnavailable,
    PromptTooLong,
    RequestRefused,
    TurngateError,
)
from turngate.gateway.domain.serialization import Json

_LONGEST_COMPLAINT = 64_000
_LONGEST_PAUSE = 24 * 3600.0
_PASSING = {408, 409, 425, 429}
_BUSY = {429, 529}
# Statuses that speak of this one request, not of the key, the model or the address.
_OF_THE_REQUEST = {400, 413, 422}
# How servers say that a prompt does not fit: OpenAI and those that follow it, Anthropic (twice),
# llama.cpp, vLLM (twice), and the bodies that a proxy does not pass on.
_TOO_LONG = (
    "context_length_exceeded",
    "exceeds the context window",
    "prompt is too long",
    "exceed context limit",
    "exceed_context_size_error",
    "exceeds the available context size",
    "maximum context length",
    "maximum model length",
    "request_too_large",
)
# The words of an error that may be logged: any other text of a server may quote users.
# fmt: off
_KINDS = frozenset((
    "context_length_exceeded", "exceed_context_size_error", "insufficient_quota",
    "rate_limit_exceeded", "invalid_api_key",
    "model_not_found", "content_filter", "overloaded_error", "invalid_request_error",
    "authentication_error", "permission_error", "not_found_error", "request_too_large",
    "rate_limit_error", "billing_error", "timeout_error", "api_error",
))
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimeouts:
    """
    In seconds: to connect, and between two reads. A model may process a long prompt before it
    sends its first byte.
    """

    connect: float = 15.0
    silence: float = 600.0


class ServerRefusal(TurngateError):
    """
    The server answered with another status than 200, or with an error. Its `words` are for the
    operator only and may quote users; its `kind` is one of a fixed list and may be logged.
    `too_long`: the prompt does not fit into the context window.
    """

    def __init__(
        self,
        status: int,
        words: str,
        retry_after: float | None = None,
        *,
        kind: str | None = None,
        too_long: bool = False,
    ) -> None:
        super().__init__("the model server said no", words=words)
        self.status = status
        self.retry_after = retry_after
        self.kind = kind
        self.too_long = too_long

    @property
    def why(self) -> str:
        """Return the status and the kind, if known: " (400, context_length_exceeded)"."""
        return f" ({', '.join(filter(None, (str(self.status), self.kind)))})"

    def as_error(self) -> AgentError:
        """Return the agent error for it: AgentUnavailable if a retry may succeed."""
        if self.too_long:
            return PromptTooLong(self._refused(), words=self.words)
        # Users see the message of AgentUnavailable, so it must not contain the server's words.
        if self.status in _PASSING or self.status >= 500:
            busy = f"the model cannot answer now ({self.status})"
            kind = AgentBusy if self.status in _BUSY or self.retry_after else AgentUnavailable
            return kind(busy, retry_after=self.retry_after, words=self.words)

        if self.status in _OF_THE_REQUEST:
            return RequestRefused(self._refused(), words=self.words)
        return AgentRefused(self._refused(), words=self.words)

    def _refused(self) -> str:
        if self.status in (401, 403):
            return f"the model server does not take our key{self.why}; check api_key"
        if self.status == 404:
            return f"there is no such model, or no such address{self.why}; check base_url and model"
        if self.status < 400:
            return f"the model server sends us elsewhere{self.why}; check base_url"
        return f"the model server does not take the request{self.why}"


class ModelServer:
    """The connections to one endpoint, opened by the first request."""

    def __init__(self, endpoint: Endpoint, timeouts: CallTimeouts | None = None) -> None:
        timeouts = timeouts or CallTimeouts()
        self._endpoint = endpoint
        self._timeout = aiohttp.ClientTimeout(
            total=None,
            connect=timeouts.connect,
            sock_connect=timeouts.connect,
            sock_read=timeouts.silence,
        )
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def asked(self, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """
        Send a request and yield the response with status 200, its body unread.

        Raises ServerRefusal for any other status, AgentUnavailable, AgentRefused.
        """
        response = await self._posted(body)
        try:
            if response.status != 200:
                raise await self._refusal(response)

            yield response
        finally:
            response.close()

    async def _posted(self, body: bytes) -> aiohttp.ClientResponse:
        if self._session is None:
            # No limit: aiohttp's default of 100 would queue turns that the gateway has admitted.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)

        headers = self._endpoint.headers
        try:
            # Following a redirect would send the key to another server.
            return await self._session.post(
                self._endpoint.url, data=body, headers=headers, allow_redirects=False
            )
        # The order matters: the first two are subclasses of those in the last handler.
        except aiohttp.ClientSSLError as exc:
            raise AgentRefused(
                "the model server's certificate is not to be trusted; check base_url"
            ) from exc
        except TimeoutError as exc:
            raise AgentUnavailable("the model does not answer") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise AgentUnavailable("the model cannot be reached") from exc

    async def _refusal(self, response: aiohttp.ClientResponse) -> ServerRefusal:
        try:
            complaint = await response.content.read(_LONGEST_COMPLAINT)
        except (aiohttp.ClientError, OSError):
            complaint = b""  # the status alone decides how the refusal is handled

        pause = _retry_after(response.headers)
        return ServerRefusal(
            response.status,
            self._endpoint.quoted(words_of(complaint)),
            pause,
            kind=kind_of(complaint),
            too_long=is_too_long(complaint),
        )


def kind_of(complaint: bytes | Json) -> str | None:
    """Return the kind of an error, if it is one of those that may be logged."""
    try:
        document: Json = json.loads(complaint) if isinstance(complaint, bytes) else complaint
    except (ValueError, RecursionError):
        return None
    error = document.get("error", document) if isinstance(document, dict) else None
    named = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
    return next((word for word in named if isinstance(word, str) and word in _KINDS), None)


def is_too_long(complaint: bytes | Json) -> bool:
    """Return whether an error says that the prompt does not fit into the context window."""
    text = complaint if isinstance(complaint, bytes) else json.dumps(complaint).encode()
    written = text.decode("utf-8", "replace").lower()
    return any(sign in written for sign in _TOO_LONG)


def words_of(complaint: bytes | Json) -> str:
    """Return the message in an error body; the whole body if it has none of the known shapes."""
    try:
        document: Json = json.loads(complaint) if isinstance(complaint, bytes) else complaint
    except (ValueError, RecursionError):
        return complaint.decode("utf-8", "replace") if isinstance(complaint, bytes) else ""

    for key in ("error", "message", "detail"):
        if isinstance(document, dict) and document.get(key):
            document = document[key]

    return document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the requested pause in seconds, from milliseconds, seconds or a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    written = headers.get("retry-after")
    seconds = milliseconds / 1000 if milliseconds is not None else _number(written)
    if seconds is None and written is not None:
        seconds = _until(written, headers.get("date") or "")
    return None if seconds is None else min(max(seconds, 0.0), _LONGEST_PAUSE)


def _number(written: str | None) -> float | None:
    try:
        number = float(written) if written is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _until(date: str, now: str) -> float | None:
    # Both dates are by the server's clock: ours may be wrong.
    try:
        return (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds()
    # TypeError: only one of the dates has a time zone.
    except (TypeError, ValueError, OverflowError):
        return None
