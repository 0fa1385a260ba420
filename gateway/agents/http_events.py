"""
The response of an `http` agent as JSON documents: from server-sent events, lines of JSON, or one
document.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import aiohttp

from turngate.gateway.agents.bounded_output import Output
from turngate.gateway.agents.sse import (
    EventReader,
    EventTooLong,
    ServerEvent,
)
from turngate.gateway.domain.errors import (
    AgentError,
    AgentRefused,
    AgentUnavailable,
)
from turngate.gateway.domain.transcript import Text

_LINES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_NAMELESS = "message"


async def read_events(response: aiohttp.ClientResponse) -> AsyncGenerator[object]:
    """
    Yield the JSON documents of a response as they arrive.

    Raises AgentUnavailable if the connection breaks, AgentRefused for another content type,
    AgentError for invalid content.
    """
    output = Output(lambda: _read(response))
    kind = response.content_type

    if kind in _LINES:
        while (line := await output.line()) is not None:
            if line.strip():
                yield _document(line)
        _check_end(response)
    elif kind == "application/json":
        for each in _at_once(_document(await output.rest())):
            yield each
    elif kind == "text/event-stream":
        reader = EventReader()
        while piece := await output.piece():
            for event in _fed(reader, piece):
                yield _named(event)
        for event in reader.end():
            yield _named(event)
        _check_end(response)
    else:
        raise AgentRefused(
            "the agent answers with another type; events are text/event-stream", words=kind
        )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readany()
    except (aiohttp.ClientError, OSError) as exc:
        raise AgentUnavailable("the connection to the agent broke") from exc


def _check_end(response: aiohttp.ClientResponse) -> None:
    # Without a length or chunks only the closed connection ends the response, and a service that
    # has crashed looks like one that has finished. Such a service must send `done`.
    if "Transfer-Encoding" not in response.headers and "Content-Length" not in response.headers:
        raise AgentUnavailable("the connection ended before the agent said that it is done")


def _fed(reader: EventReader, piece: bytes) -> list[ServerEvent]:
    try:
        return reader.feed(piece)
    except EventTooLong as exc:
        raise AgentError("an event of the agent has no end") from exc


def _named(event: ServerEvent) -> object:
    """Return the document of an event; its SSE name is the type if the document has none."""
    document = _document(event.data)
    if isinstance(document, dict) and "type" not in document and event.name != _NAMELESS:
        return document | {"type": event.name}
    return document


def _document(data: str | bytes) -> object:
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    # Services modelled on OpenAI's stream end with this line, which is no JSON.
    if text.strip() == "[DONE]":
        return {"type": "done"}
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise AgentError("the agent said something that is not JSON") from exc


def _at_once(document: object) -> list[object]:
    """Return the events in one document: a list of them, a single one, or only a text."""
    if isinstance(document, dict) and isinstance(document.get("events"), list):
        return [*document["events"]]
    if isinstance(document, list):
        return [*document]
    if isinstance(document, dict) and "type" not in document and "text" in document:
        return [document | {"type": Text.type}]
    return [document]
