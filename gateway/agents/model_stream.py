"""
A model's answer as it comes: as a stream of events, or as one document from a server that does not
stream.

Half an answer is not a whole one: a stream counts as finished only if the server says so.
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


class ModelStream(Protocol):
    """What a kind makes of what its server sends."""

    @property
    def is_over(self) -> bool:
        """Nothing more is to come."""

    @property
    def is_complete(self) -> bool:
        """The server has said that this is all."""

    @property
    def shortcoming(self) -> str | None:
        """Why the answer is less than it should be, though nothing broke."""

    def hear(self, data: str) -> Iterable[AgentEvent]:
        """
        One message of the stream, or an answer that came whole. Raises Refusal for an error that it
        tells of.
        """

    def rest(self) -> Iterable[AgentEvent]:
        """What was held back until the end."""

    def usage(self) -> Iterable[AgentEvent]:
        """What the server said that it cost; nothing if it did not."""


async def answered(
    response: aiohttp.ClientResponse, answer: ModelStream
) -> AsyncGenerator[AgentEvent]:
    """
    The whole answer, `Done` included.

    Raises Refusal, AgentUnavailable or AgentRefused only while nothing was said, and AgentError
    after that.
    """
    has_begun = False
    try:
        async with aclosing(_messages(response, answer)) as messages:
            async for data in messages:
                for event in answer.hear(data):
                    has_begun = True
                    yield event
        if not answer.is_complete:
            raise AgentUnavailable("it ended before it was finished")
    except (AgentError, ServerRefusal) as exc:
        for event in answer.usage():
            yield event
        if has_begun:
            raise AgentError(f"the answer was cut off: {_why(exc)}") from exc
        raise

    for event in (*answer.rest(), *answer.usage()):
        yield event

    if answer.shortcoming is not None:
        raise AgentError(answer.shortcoming)

    yield Done()


def _why(exc: AgentError | ServerRefusal) -> str:
    """For people: they are not shown what a server says to its operator."""
    return "the model failed" if isinstance(exc, AgentRefused | ServerRefusal) else str(exc)


def parsed(data: str) -> Message:
    """
    One message. Raises AgentUnavailable for what is none: something between us and the model may be
    broken.
    """
    try:
        message: Json = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise AgentUnavailable("what the model server sends cannot be read") from exc

    if not isinstance(message, dict):
        raise AgentUnavailable("what the model server sends is no answer")

    return message


def number(value: Json) -> int:
    """A count in an answer; 0 for whatever is none."""
    return max(int(value), 0) if isinstance(value, int) and not isinstance(value, bool) else 0


def child(value: Json, key: str) -> Message:
    """An object inside an object; empty if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def word(value: Json) -> str:
    """A text in an answer; empty for whatever is none."""
    return value if isinstance(value, str) else ""


async def _messages(response: aiohttp.ClientResponse, answer: ModelStream) -> AsyncGenerator[str]:
    if response.content_type == "text/html":
        raise AgentRefused("a page came instead of an answer; check base_url")

    chunk = await _beginning(response)
    if chunk.lstrip(_BLANK).startswith(b"{"):
        yield await _whole(response, chunk)
        return

    reader = EventReader()
    while chunk:
        for event in _read(reader, chunk):
            yield event.data
        if answer.is_over:
            await _let_end(response)
            return
        chunk = await _next(response)

    for event in reader.end():
        yield event.data


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """Until it can be told what it is; empty if nothing comes."""
    beginning = b""
    while not beginning.strip(_BLANK):
        chunk = await _next(response)
        if not chunk:
            break
        # Of blanks, by which some servers say that they are alive, no more is kept than half a byte
        # order mark needs.
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
    """Empty at the end."""
    try:
        return await response.content.readany()
    except TimeoutError as exc:
        raise AgentUnavailable("the model fell silent") from exc
    except (aiohttp.ClientError, OSError) as exc:
        raise AgentUnavailable("the connection to the model broke") from exc


async def _let_end(response: aiohttp.ClientResponse) -> None:
    """
    A stream that ends properly leaves a connection for the next request. It is not waited for.
    """
    try:
        async with asyncio.timeout(_SECONDS_TO_END):
            while await response.content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError, OSError):
        return  # then it is closed
