"""
Reading a model's answer: a stream of events, or one document from a server that does not stream.

A stream counts as complete only if the server says so, never because the connection closed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Protocol

import aiohttp

from turngate.gateway.agents.model_call import ServerRefusal
from turngate.gateway.agents.sse import (
    EventReader,
    EventTooLong,
    ServerEvent,
)
from turngate.gateway.domain.agent_events import AgentEvent, Done
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.domain.serialization import Json

LONGEST_WHOLE = 16_000_000
"""In bytes, of an answer that comes in one piece."""

_SECONDS_TO_END = 0.2
_BLANK = b"\xef\xbb\xbf \t\r\n"

Message = dict[str, Json]


class EmptyStream(AgentUnavailable):
    """The server began a stream and broke it off before it had said anything."""


class ModelStream(Protocol):
    """The parser of one answer, one per protocol."""

    @property
    def is_over(self) -> bool:
        """Whether no more messages will follow."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has said that the answer is complete."""

    @property
    def shortcoming(self) -> str | None:
        """Why the answer was cut short although nothing failed; None if it was not."""

    def read(self, data: str) -> Iterable[AgentEvent]:
        """
        Convert one message of the stream, or a whole answer. Raises ServerRefusal for an error
        message.
        """

    def rest(self) -> Iterable[AgentEvent]:
        """Return the events that were held back until the end."""

    def usage(self) -> Iterable[AgentEvent]:
        """Return the usage that the server has reported, if any."""


async def answered(
    response: aiohttp.ClientResponse, answer: ModelStream
) -> AsyncGenerator[AgentEvent]:
    """
    Yield the events of the whole answer, `Done` included.

    Raises ServerRefusal, AgentUnavailable or AgentRefused only before the first output, and a plain
    AgentError after that, so that an answer of which a part was shown is not retried.
    """
    has_begun = has_spoken = False
    try:
        async with aclosing(_messages(response, answer)) as messages:
            async for data in messages:
                has_spoken = True
                for event in answer.read(data):
                    has_begun = True
                    yield event
        if not answer.is_complete and not has_spoken:
            raise EmptyStream("it ended before it had begun")
        if not answer.is_complete:
            raise AgentUnavailable("it ended before it was finished")
    except (AgentError, ServerRefusal) as exc:
        # What was reported before the failure has been spent and must be charged.
        for event in answer.usage():
            yield event
        if has_begun:
            raise AgentError(f"the answer was cut off: {_why(exc)}") from exc
        if not has_spoken and isinstance(exc.__cause__, aiohttp.ClientPayloadError):
            raise EmptyStream(str(exc)) from exc
        raise

    for event in (*answer.rest(), *answer.usage()):
        yield event

    if answer.shortcoming is not None:
        raise AgentError(answer.shortcoming)

    yield Done()


def _why(exc: AgentError | ServerRefusal) -> str:
    # Users read it, and the text of a refusal is for the operator only.
    return "the model failed" if isinstance(exc, AgentRefused | ServerRefusal) else str(exc)


def parsed(data: str) -> Message:
    """
    Parse one message. Raises AgentUnavailable if it is no JSON object: a proxy before the model may
    be broken.
    """
    try:
        message: Json = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise AgentUnavailable("what the model server sends cannot be read") from exc

    if not isinstance(message, dict):
        raise AgentUnavailable("what the model server sends is no answer")

    return message


def number(value: Json) -> int:
    """Return a count in an answer; 0 for any other value."""
    return max(int(value), 0) if isinstance(value, int) and not isinstance(value, bool) else 0


def child(value: Json, key: str) -> Message:
    """Return an object inside an object; empty if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def word(value: Json) -> str:
    """Return a string in an answer; empty for any other value."""
    return value if isinstance(value, str) else ""


async def _messages(response: aiohttp.ClientResponse, answer: ModelStream) -> AsyncGenerator[str]:
    if response.content_type == "text/html":
        raise AgentRefused("a page came instead of an answer; check base_url")

    chunk = await _beginning(response)
    # Decided by the first byte: no line of an event stream begins with a brace.
    if chunk.lstrip(_BLANK).startswith(b"{"):
        yield await _whole(response, chunk)
        return

    reader = EventReader()
    while chunk:
        for event in _read(reader, chunk):
            yield event.data
        # Some servers keep the connection open after the last message.
        if answer.is_over:
            await _let_end(response)
            return
        chunk = await _next(response)

    for event in reader.end():
        yield event.data


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """Read up to the first byte that is not blank; empty if the response is."""
    beginning = b""
    while not beginning.strip(_BLANK):
        chunk = await _next(response)
        if not chunk:
            break
        # Some servers send blanks as keep-alives. Of those, only two bytes are kept: they may be
        # the beginning of a byte order mark.
        beginning = beginning[-2:] + chunk
    return beginning


async def _whole(response: aiohttp.ClientResponse, beginning: bytes) -> str:
    pieces = [beginning]
    size = len(beginning)
    chunk = beginning
    while chunk and size <= LONGEST_WHOLE:
        chunk = await _next(response)
        pieces.append(chunk)
        size += len(chunk)
    if size > LONGEST_WHOLE:
        raise AgentUnavailable(f"the answer is larger than {LONGEST_WHOLE:,} bytes")
    return b"".join(pieces).decode("utf-8-sig", "replace")


def _read(reader: EventReader, chunk: bytes) -> list[ServerEvent]:
    try:
        return reader.feed(chunk)
    except EventTooLong as exc:
        raise AgentUnavailable("one line of it has no end") from exc


async def _next(response: aiohttp.ClientResponse) -> bytes:
    """Return the next bytes; empty at the end. Raises AgentUnavailable."""
    try:
        return await response.content.readany()
    # Before the next handler: TimeoutError is an OSError.
    except TimeoutError as exc:
        raise AgentUnavailable("the model fell silent") from exc
    except (aiohttp.ClientError, OSError) as exc:
        raise AgentUnavailable("the connection to the model broke") from exc


async def _let_end(response: aiohttp.ClientResponse) -> None:
    """Read the end of a response, if it comes at once, so that its connection can be reused."""
    try:
        async with asyncio.timeout(_SECONDS_TO_END):
            while await response.content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError, OSError):
        return  # the caller closes the connection instead
