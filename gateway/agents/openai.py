"""
The agent kind `openai`: a model behind any server with OpenAI's chat completions, with POST
/chat/completions, streamed. With `api: responses` it is `openai_responses.py` instead.

Servers differ in what they accept and send. A field that a server refuses is left out for as long
as the daemon runs; unknown fields in its answer are skipped.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing

from turngate.gateway.agents.blocks import Content, TextBlock
from turngate.gateway.agents.chunk_assembly import Calls, TextAssembler
from turngate.gateway.agents.dialogue import (
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
    EmptyStream,
    Message,
    answered,
    child,
    number,
    parsed,
    word,
)
from turngate.gateway.agents.openai_responses import HOME, ResponsesAgent, usage_of
from turngate.gateway.agents.spec import AgentSpec, Traits
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    ToolStatus,
    Turn,
)
from turngate.gateway.domain.errors import RequestRefused
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import Reasoning, Text

TRAITS = Traits(has_side_effects=False, is_model=True, sends=False)

_OURS = ("messages", "model", "stream")
_ENDED_EARLY = {
    "length": "the answer was cut at its longest",
    "content_filter": "the answer was cut by a filter of the model's",
}
# Fields that not every server accepts, each with the word by which its refusal is recognised: newer
# models of OpenAI refuse max_tokens with the advice to use max_completion_tokens.
_DISPUTED = {"stream_options": "stream_options", "max_tokens": "max_completion_tokens"}
# Errors inside a stream have no status of their own: it began with 200.
_STATUS = {"invalid_request_error": 400, "authentication_error": 401, "not_found_error": 404}
_IS_STATUS = re.compile("[45][0-9][0-9]")
_SECONDS_TO_CLOSE = 0.1
_THOUGHTS = ("reasoning_content", "reasoning")

Quote = Callable[[str], str]


class OpenAiAgent:
    def __init__(self, spec: AgentSpec, timeouts: CallTimeouts | None = None) -> None:
        check_options(spec, _OURS)
        self._spec = spec
        self._model = model_of(spec, "gpt-5")
        server = endpoint(
            spec,
            default=HOME,
            below="/chat/completions",
            headers={},
            key_as="Authorization: Bearer",
        )
        self._endpoint = server
        self._quote = server.quoted
        self._server = ModelServer(server, timeouts)

        self._refused: set[str] = set()

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        # At most one more request for each of the two disputed fields, and one without a stream.
        # Nothing is yielded before such a refusal, so no text is repeated.
        streams = True
        for _ in range(4):
            body = (
                await asyncio.to_thread(self._body, turn, streams=streams)
                if has_files(turn)
                else self._body(turn, streams=streams)
            )
            try:
                async with (
                    self._server.asked(body) as got,
                    aclosing(answered(got, _Completion(self._quote))) as events,
                ):
                    is_empty = streams
                    async for event in events:
                        if is_empty and isinstance(event, Done):
                            raise EmptyStream("it said nothing")
                        is_empty = False
                        yield event
                    return
            except EmptyStream:
                # llama-cpp-python breaks a stream off where it would otherwise refuse the request,
                # and LiteLLM before it makes an empty answer of that: the reason is told only to
                # those who ask for the answer in one piece.
                if not streams:
                    raise
                streams = False
                # Time to notice that the server has closed the connection, or it is used again.
                await asyncio.sleep(_SECONDS_TO_CLOSE)
            except ServerRefusal as refusal:
                if not self._leaves_out_what_is_refused(refusal):
                    raise refusal.as_error() from refusal

        raise RequestRefused("the model server does not take the request")

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        if not online:
            return ()
        return await examine_model(
            self._spec, self._endpoint, below="/chat/completions", models="/models"
        )

    async def close(self) -> None:
        await self._server.close()

    def _leaves_out_what_is_refused(self, refusal: ServerRefusal) -> bool:
        """Note which fields this server refuses; True if a request without them may succeed."""
        if refusal.status not in (400, 422) or refusal.too_long:
            return False
        named = {
            field for field, sign in _DISPUTED.items() if sign in refusal.words
        } - self._refused
        self._refused |= named
        return bool(named)

    def _body(self, turn: Turn, *, streams: bool) -> bytes:
        """Build the request. Reads attachments: called in a thread if there are any."""
        system = "\n\n".join(filter(None, (turn.system, turn.context)))
        messages: list[Json] = [{"role": "system", "content": system}] if system else []
        for utterance in dialogue(turn, images=self._spec.images):
            messages += _written(utterance)
        ours: Message = {"model": self._model, "messages": messages, "stream": streams}
        extras = self._extras(streams=streams)
        return json.dumps({**extras, **ours}, ensure_ascii=False).encode("utf-8", "replace")

    def _extras(self, *, streams: bool) -> Message:
        # Without it servers that follow OpenAI report no usage in a stream.
        extras: Message = {"stream_options": {"include_usage": True}} if streams else {}
        if self._spec.max_tokens is not None:
            word = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
            extras[word] = self._spec.max_tokens

        extras |= self._spec.options
        if "stream_options" in self._refused:
            extras.pop("stream_options", None)

        return extras


def make(spec: AgentSpec) -> OpenAiAgent | ResponsesAgent:
    """Make the agent. Raises ConfigError without a model, an API key or a valid address."""
    return ResponsesAgent(spec) if spec.api == "responses" else OpenAiAgent(spec)


def _written(utterance: Utterance) -> Iterator[Json]:
    if utterance.by_person:
        yield {"role": "user", "content": _content(utterance.content)}
        return

    calls: list[Json] = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(call.arguments, ensure_ascii=False),
            },
        }
        for call in utterance.calls
    ]
    message: Message = {"role": "assistant", "content": _content(utterance.content) or None}
    yield {**message, "tool_calls": calls} if calls else message
    for call in utterance.calls:
        yield {"role": "tool", "tool_call_id": call.id, "content": call.result}


def _content(blocks: Iterable[Content]) -> Json:
    blocks = tuple(blocks)
    words = [block.text for block in blocks if isinstance(block, TextBlock)]
    # A plain string where possible: not every server knows the list of parts.
    if len(words) == len(blocks):
        return "\n\n".join(words)

    return [
        {"type": "text", "text": block.text}
        if isinstance(block, TextBlock)
        else {
            "type": "image_url",
            "image_url": {"url": f"data:{block.mime};base64,{block.content}"},
        }
        for block in blocks
    ]


class _Completion:
    """The state of one streamed answer. Implements `ModelStream`; reads the first choice only."""

    def __init__(self, quote: Quote) -> None:
        self._quote = quote
        self._words = TextAssembler()
        self._thoughts = TextAssembler()
        self._calls = Calls()
        self._finish = ""
        self._usage: Message = {}
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        return self.is_over or bool(self._finish)

    @property
    def shortcoming(self) -> str | None:
        return _ENDED_EARLY.get(self._finish)

    def read(self, data: str) -> Iterator[AgentEvent]:
        if data.strip() == "[DONE]":
            self.is_over = True
            return

        message = parsed(data)
        if message.get("error"):
            raise self._failure(message["error"])

        self._usage = child(message, "usage") or self._usage
        choices = message.get("choices")
        # The chunk with the usage comes last and has no choices.
        first = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(first, dict):
            # "message" instead of "delta" comes from a server that does not stream.
            yield from self._hear_piece(child(first, "delta") or child(first, "message"))
            self._finish = word(first.get("finish_reason")) or self._finish

    def rest(self) -> Iterator[AgentEvent]:
        # "tool_calls" means that the model waits for us to run them, and the gateway runs none.
        yield from self._calls.finish(
            ToolStatus.FAILED if self._finish == "tool_calls" else ToolStatus.DONE
        )

    def usage(self) -> Iterator[AgentEvent]:
        if not self._usage:
            return

        yield usage_of(
            number(self._usage.get("prompt_tokens")),
            child(self._usage, "prompt_tokens_details"),
            number(self._usage.get("completion_tokens")),
        )

    def _hear_piece(self, piece: Message) -> Iterator[AgentEvent]:
        thoughts = next(filter(None, (word(piece.get(name)) for name in _THOUGHTS)), "")
        if thoughts := self._thoughts.mend(thoughts):
            yield from self._calls.finish(ToolStatus.DONE)
            yield Reasoning(text=thoughts)
        if words := self._words.mend(_text(piece.get("content")) or word(piece.get("refusal"))):
            yield from self._calls.finish(ToolStatus.DONE)
            yield Text(words)
        calls = piece.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list) else ()):
            yield from self._hear_call(at, call if isinstance(call, dict) else {})

    def _hear_call(self, at: int, call: Message) -> Iterator[AgentEvent]:
        index = call.get("index")
        function = child(call, "function")
        # Servers that do not stream send no index.
        index = index if isinstance(index, int) else at
        yield from self._calls.begin(index, word(call.get("id")), word(function.get("name")))
        self._calls.add(index, word(function.get("arguments")))

    def _failure(self, error: Json) -> ServerRefusal:
        code = str(error.get("code")) if isinstance(error, dict) else ""
        kind = word(error.get("type")) if isinstance(error, dict) else ""
        # `code` is an HTTP status on some servers, a word on others.
        status = int(code) if _IS_STATUS.fullmatch(code) else _STATUS.get(kind, 500)
        return ServerRefusal(
            status,
            self._quote(words_of(error)),
            kind=kind_of(error),
            too_long=is_too_long(error),
        )


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "".join(word(part.get("text")) for part in content if isinstance(part, dict))
    return word(content)
