"""
One request to a model server. Whatever goes wrong before its answer begins becomes an error of ours
here.

Nothing is asked twice: who wraps the agent does that. Leaving the answer closes the connection, so
that a model that is no longer listened to stops working.
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
    AgentError,
    AgentRefused,
    AgentUnavailable,
    TurngateError,
)
from turngate.gateway.domain.serialization import Json

_LONGEST_COMPLAINT = 64_000
_LONGEST_PAUSE = 24 * 3600.0
_BUSY = {408, 409, 425, 429}
# fmt: off
_KINDS = frozenset((
    "context_length_exceeded", "insufficient_quota", "rate_limit_exceeded", "invalid_api_key",
    "model_not_found", "content_filter", "overloaded_error", "invalid_request_error",
    "authentication_error", "permission_error", "not_found_error", "request_too_large",
    "rate_limit_error", "billing_error", "timeout_error", "api_error",
))
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimeouts:
    """
    In seconds: until there is a connection, and between two signs of life. A model may read for
    long.
    """

    connect: float = 15.0
    silence: float = 600.0


class ServerRefusal(TurngateError):
    """
    The server answered with a status that is no success, or with an error. What it says is for the
    operator alone, and may quote people; its `kind` is a word of a list, and may be told.
    """

    def __init__(
        self, status: int, words: str, retry_after: float | None = None, *, kind: str | None = None
    ) -> None:
        super().__init__("the model server said no", words=words)
        self.status = status
        self.retry_after = retry_after
        self.kind = kind

    @property
    def why(self) -> str:
        """Its number, and the word for it if there is one: " (400, context_length_exceeded)"."""
        return f" ({', '.join(filter(None, (str(self.status), self.kind)))})"

    def as_error(self) -> AgentError:
        """
        By the reaction that it earns. People are shown what is unavailable: those words are ours
        alone.
        """
        if self.status in _BUSY or self.status >= 500:
            busy = f"the model cannot answer now ({self.status})"
            return AgentUnavailable(busy, retry_after=self.retry_after, words=self.words)
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
    """The connections to one endpoint. Made when first asked, closed once."""

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
        """Hang up."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def asked(self, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """
        The answer to a request, from its head on. Raises Refusal if it is none, AgentUnavailable,
        AgentRefused.
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
            # How many turns run at once is decided elsewhere.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)

        headers = self._endpoint.headers
        try:
            # A redirect would carry the key to wherever it points.
            return await self._session.post(
                self._endpoint.url, data=body, headers=headers, allow_redirects=False
            )
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
            complaint = b""  # the status says enough

        pause = _retry_after(response.headers)
        return ServerRefusal(
            response.status,
            self._endpoint.quoted(words_of(complaint)),
            pause,
            kind=kind_of(complaint),
        )


def kind_of(complaint: bytes | Json) -> str | None:
    """What kind of error it is, if it says so in one of the words that servers agree on."""
    try:
        said: Json = json.loads(complaint) if isinstance(complaint, bytes) else complaint
    except (ValueError, RecursionError):
        return None
    error = said.get("error", said) if isinstance(said, dict) else None
    named = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
    return next((word for word in named if isinstance(word, str) and word in _KINDS), None)


def words_of(complaint: bytes | Json) -> str:
    """
    The sentence in an error, in whichever of the usual shapes it comes; the beginning of anything
    else.
    """
    try:
        said: Json = json.loads(complaint) if isinstance(complaint, bytes) else complaint
    except (ValueError, RecursionError):
        return complaint.decode("utf-8", "replace") if isinstance(complaint, bytes) else ""

    for key in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(key):
            said = said[key]

    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """In seconds, however it is written: a number, a number of milliseconds, a date."""
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
    """
    By the clock of whoever wrote both: ours may be wrong, and what the server means is a while.
    """
    try:
        return (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds()
    except (
        TypeError,
        ValueError,
        OverflowError,
    ):  # one of them knows its zone and the other does not; no date at all
        return None
