"""
The agent kind `anthropic`: a model behind Anthropic's Messages API or a compatible server, with
POST /v1/messages, streamed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing

from turngate.gateway.agents.blocks import Content, TextBlock
from turngate.gateway.agents.chunk_assembly import (
    Calls,
    TextAssembler,
    mended,
)
from turngate.gateway.agents.dialogue import (
    Call,
    Utterance,
    dialogue,
    has_files,
)
from turngate.gateway.agents.endpoint import (
    check_options,
    endpoint,
    model_of,
)
from turngate.gateway.agents.examine import examine_model
from turngate.gateway.agents.model_call import (
    CallTimeouts,
    ModelServer,
    ServerRefusal,
    is_too_long,
    kind_of,
    words_of,
)
from turngate.gateway.agents.model_stream import (
    Message,
    answered,
    child,
    number,
    parsed,
    word,
)
from turngate.gateway.agents.spec import AgentSpec, Traits
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    ToolStatus,
    Turn,
    Usage,
)
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import Reasoning, Text

TRAITS = Traits(has_side_effects=False, is_model=True, sends=False)

_HOME = "https://api.anthropic.com"
_VERSION = "2023-06-01"
_OURS = ("messages", "model", "stream", "system")
_MAX_TOKENS = 8192
_CACHED: Message = {"cache_control": {"type": "ephemeral"}}
_ENDED_EARLY = {
    "max_tokens": "the answer was cut at its longest",
    "model_context_window_exceeded": "the answer was cut at its longest",
    "pause_turn": "the answer was cut off: the model paused",
    "refusal": "the answer was cut by a filter of the model's",
}
# Errors inside a stream have no status of their own: it began with 200.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
_LONGEST_OUTPUT = 20_000
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")

Quote = Callable[[str], str]


class AnthropicAgent:
    def __init__(self, spec: AgentSpec, timeouts: CallTimeouts | None = None) -> None:
        check_options(spec, _OURS)
        self._spec = spec
        self._model = model_of(spec, "claude-sonnet-4-5")
        headers = {"anthropic-version": _VERSION}
        server = endpoint(
            spec, default=_HOME, below="/v1/messages", headers=headers, key_as="x-api-key: "
        )
        self._endpoint = server
        self._quote = server.quoted
        self._server = ModelServer(server, timeouts)

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        body = await asyncio.to_thread(self._body, turn) if has_files(turn) else self._body(turn)
        try:
            async with (
                self._server.asked(body) as got,
                aclosing(answered(got, _Message(self._quote))) as events,
            ):
                async for event in events:
                    yield event
        except ServerRefusal as refusal:
            raise refusal.as_error() from refusal

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        if not online:
            return ()
        return await examine_model(
            self._spec, self._endpoint, below="/v1/messages", models="/v1/models"
        )

    async def close(self) -> None:
        await self._server.close()

    def _body(self, turn: Turn) -> bytes:
        """Build the request. Reads attachments: called in a thread if there are any."""
        utterances = dialogue(turn, images=self._spec.images)
        body: Message = {
            "max_tokens": self._spec.max_tokens or _MAX_TOKENS,
            **_tools(utterances),
            # The operator's options replace what stands before them, and nothing after them.
            **self._spec.options,
            "model": self._model,
            "messages": _messages(utterances),
            "stream": True,
        }
        if system := _system(turn):
            body["system"] = system

        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def make(spec: AgentSpec) -> AnthropicAgent:
    """Make the agent. Raises ConfigError without a model, an API key or a valid address."""
    return AnthropicAgent(spec)


def _system(turn: Turn) -> list[Json]:
    texts = list(filter(None, (turn.system, turn.context)))
    blocks: list[Json] = [{"type": "text", "text": text} for text in texts]
    # The API caches everything up to the marked block. The system prompt is the same in every turn,
    # the context is not, so the mark stands between them.
    return [{"type": "text", "text": texts[0], **_CACHED}, *blocks[1:]] if texts else []


def _tools(utterances: Sequence[Utterance]) -> Message:
    # The API refuses tool calls in the history unless their tools are declared. The gateway runs
    # none of them, so the model may not call one now.
    names = dict.fromkeys(_name(call) for each in utterances for call in each.calls)
    if not names:
        return {}
    gone = "Was used earlier in this conversation and is not there any more."
    tools: list[Json] = [
        {"name": name, "description": gone, "input_schema": {"type": "object", "properties": {}}}
        for name in names
    ]
    return {"tools": tools, "tool_choice": {"type": "none"}}


def _messages(utterances: Sequence[Utterance]) -> list[Json]:
    """Build the messages. Tool results belong to the user's side, before the user's next text."""
    messages: list[Json] = []
    results: list[Json] = []

    for each in utterances:
        content = [_block(block) for block in each.content]
        if each.by_person:
            messages.append({"role": "user", "content": _plain([*results, *content])})
            results = []
            continue
        if results:
            messages.append({"role": "user", "content": results})
        calls: list[Json] = [
            {"type": "tool_use", "id": call.id, "name": _name(call), "input": call.arguments}
            for call in each.calls
        ]
        said = _plain([*_thinking(each), *content, *calls])
        messages.append({"role": "assistant", "content": said})
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": call.result or "(empty)"}
            for call in each.calls
        ]

    return messages


def _plain(blocks: list[Json]) -> Json:
    """Return blocks of text as one string: some compatible servers know nothing else."""
    texts = [word(block.get("text")) for block in blocks if isinstance(block, dict)]
    return "\n\n".join(texts) if all(texts) else blocks


def _thinking(each: Utterance) -> list[Json]:
    # The API accepts only signed thinking, and needs it only before the tool call it led to.
    thought = each.thinking
    if thought is None or thought.signature is None or not each.calls:
        return []
    return [{"type": "thinking", "thinking": thought.text, "signature": thought.signature}]


def _block(block: Content) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": block.mime, "data": block.content},
    }


def _name(call: Call) -> str:
    # The call may come from another agent, whose tool names this API would refuse.
    return _NOT_IN_A_NAME.sub("_", call.name)[:64] or "tool"


class _Message:
    """The state of one streamed answer. Implements `ModelStream`."""

    def __init__(self, quote: Quote) -> None:
        self._quote = quote
        self._words = TextAssembler()
        self._thoughts = TextAssembler()
        self._calls = Calls()
        self._signature = ""
        self._stop = ""
        self._usage: Message = {}
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        return self.is_over or bool(self._stop)

    @property
    def shortcoming(self) -> str | None:
        return _ENDED_EARLY.get(self._stop)

    def read(self, data: str) -> Iterator[AgentEvent]:
        """Convert one message. Unknown types are skipped, as the API's documentation requires."""
        event = parsed(data)
        match event.get("type"):
            case "message_start":
                self._usage |= child(child(event, "message"), "usage")
            case "content_block_start":
                yield from self._begin(number(event.get("index")), child(event, "content_block"))
            case "content_block_delta":
                yield from self._hear_piece(number(event.get("index")), child(event, "delta"))
            case "content_block_stop":
                yield from self._sign()
            case "message_delta":
                self._stop = word(child(event, "delta").get("stop_reason")) or self._stop
                # Counts here are cumulative and replace those of message_start, but a null must
                # not erase a count that is known.
                self._usage |= {
                    name: count
                    for name, count in child(event, "usage").items()
                    if count is not None
                }
            case "message_stop":
                self.is_over = True
            case "message":
                yield from self._hear_whole(event)
            case "error":
                raise self._failure(child(event, "error"))
            case _ if event.get("error"):
                raise self._failure(event["error"])

    def rest(self) -> Iterator[AgentEvent]:
        # "tool_use" means that the model waits for us to run its calls, and the gateway runs none.
        yield from self._calls.finish(
            ToolStatus.FAILED if self._stop == "tool_use" else ToolStatus.DONE
        )

    def usage(self) -> Iterator[AgentEvent]:
        if self._usage:
            # Cached tokens are not part of input_tokens in this API, nor in ours.
            yield Usage(
                input=number(self._usage.get("input_tokens")),
                output=number(self._usage.get("output_tokens")),
                cache_read=number(self._usage.get("cache_read_input_tokens")),
                cache_write=number(self._usage.get("cache_creation_input_tokens")),
            )

    def _begin(self, index: int, block: Message) -> Iterator[AgentEvent]:
        kind = word(block.get("type"))
        # By suffix: tools that the server itself runs have types such as server_tool_use, and their
        # results come as blocks of their own, such as web_search_tool_result.
        if kind.endswith("tool_use"):
            yield from self._calls.begin(index, word(block.get("id")), word(block.get("name")))
            # Empty in a stream, where deltas follow; complete in an answer that is not streamed.
            if block.get("input"):
                self._calls.add(index, json.dumps(block["input"], ensure_ascii=False))
        elif kind.endswith("tool_result"):
            output = json.dumps(block.get("content"), ensure_ascii=False)[:_LONGEST_OUTPUT]
            yield from self._calls.finish_named(word(block.get("tool_use_id")), output)
        else:
            yield from self._hear_piece(index, block)
            self._signature += word(block.get("signature"))

    def _hear_piece(self, index: int, delta: Message) -> Iterator[AgentEvent]:
        kind = word(delta.get("type"))
        if kind == "signature_delta":
            self._signature += word(delta.get("signature"))
        elif kind == "input_json_delta":
            self._calls.add(index, word(delta.get("partial_json")))
        elif thoughts := self._thoughts.mend(word(delta.get("thinking"))):
            yield Reasoning(text=thoughts)
        elif words := self._words.mend(word(delta.get("text"))):
            yield from self._calls.finish(ToolStatus.DONE)
            yield Text(words)

    def _sign(self) -> Iterator[AgentEvent]:
        if self._signature:
            yield Reasoning(text="", signature=mended(self._signature))
            self._signature = ""

    def _hear_whole(self, message: Message) -> Iterator[AgentEvent]:
        """Convert the whole answer of a server that does not stream."""
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            yield from self._begin(index, block if isinstance(block, dict) else {})
            yield from self._sign()
        self._usage |= child(message, "usage")
        self._stop = word(message.get("stop_reason")) or self._stop
        self.is_over = True

    def _failure(self, error: Json) -> ServerRefusal:
        kind = word(error.get("type")) if isinstance(error, dict) else ""
        return ServerRefusal(
            _STATUS.get(kind, 500),
            self._quote(words_of(error)),
            kind=kind_of(error),
            too_long=is_too_long(error),
        )
