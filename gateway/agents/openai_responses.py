"""
The agent kind `openai` with `api: responses`: a model behind OpenAI's Responses API or a compatible
server, with POST /responses, streamed.

The whole history is sent with each turn and nothing is stored at the server, as with the other
protocols.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing

from turngate.gateway.agents.blocks import Content, TextBlock
from turngate.gateway.agents.chunk_assembly import Calls, TextAssembler
from turngate.gateway.agents.dialogue import Utterance, dialogue, has_files
from turngate.gateway.agents.endpoint import check_options, endpoint, model_of
from turngate.gateway.agents.examine import examine_model
from turngate.gateway.agents.model_call import (
    CallTimeouts,
    ModelServer,
    ServerRefusal,
    is_too_long,
    kind_of,
    words_of,
)
from turngate.gateway.agents.model_stream import Message, answered, child, number, parsed, word
from turngate.gateway.agents.spec import AgentSpec
from turngate.gateway.domain.agent_events import AgentEvent, ToolStatus, Turn, Usage
from turngate.gateway.domain.ports.finding import Finding
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.transcript import Reasoning, Text

HOME = "https://api.openai.com/v1"

_OURS = ("input", "instructions", "model", "stream")
_ENDED_EARLY = {
    "max_output_tokens": "the answer was cut at its longest",
    "content_filter": "the answer was cut by a filter of the model's",
}
# Errors inside a stream have no status of their own: it began with 200.
_STATUS = {
    "rate_limit_exceeded": 429,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
}
_IS_STATUS = re.compile("[45][0-9][0-9]")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_OUTPUT = 20_000

Quote = Callable[[str], str]


class ResponsesAgent:
    def __init__(self, spec: AgentSpec, timeouts: CallTimeouts | None = None) -> None:
        check_options(spec, _OURS)
        self._spec = spec
        self._model = model_of(spec, "gpt-5")
        server = endpoint(
            spec, default=HOME, below="/responses", headers={}, key_as="Authorization: Bearer"
        )
        self._endpoint = server
        self._quote = server.quoted
        self._server = ModelServer(server, timeouts)

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        body = await asyncio.to_thread(self._body, turn) if has_files(turn) else self._body(turn)
        try:
            async with (
                self._server.asked(body) as got,
                aclosing(answered(got, _Response(self._quote))) as events,
            ):
                async for event in events:
                    yield event
        except ServerRefusal as refusal:
            raise refusal.as_error() from refusal

    async def examine(self, *, online: bool) -> Sequence[Finding]:
        if not online:
            return ()
        return await examine_model(self._spec, self._endpoint, below="/responses", models="/models")

    async def close(self) -> None:
        await self._server.close()

    def _body(self, turn: Turn) -> bytes:
        """Build the request. Reads attachments: called in a thread if there are any."""
        items: list[Json] = []
        for utterance in dialogue(turn, images=self._spec.images):
            items += _written(utterance)

        body: Message = {
            "store": False,
            **({"max_output_tokens": self._spec.max_tokens} if self._spec.max_tokens else {}),
            # The operator's options replace what stands before them, and nothing after them.
            **self._spec.options,
            "model": self._model,
            "input": items,
            "stream": True,
        }
        if instructions := "\n\n".join(filter(None, (turn.system, turn.context))):
            body["instructions"] = instructions

        return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def usage_of(prompt: int, details: Message, output: int) -> Usage:
    """Return usage from OpenAI's counts. Its prompt includes the cached tokens; ours does not."""
    cached = min(number(details.get("cached_tokens")), prompt)
    written = min(number(details.get("cache_write_tokens")), prompt - cached)
    return Usage(
        input=prompt - cached - written, output=output, cache_read=cached, cache_write=written
    )


def _written(utterance: Utterance) -> Iterator[Json]:
    if utterance.by_person:
        yield {"role": "user", "content": _content(utterance.content)}
        return

    if utterance.content:
        yield {"role": "assistant", "content": _content(utterance.content)}
    # All calls come before their results, as the model made them.
    for call in utterance.calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            # The call may come from another agent, whose tool names this API would refuse.
            "name": _NOT_IN_A_NAME.sub("_", call.name)[:64] or "tool",
            "arguments": json.dumps(call.arguments, ensure_ascii=False),
        }
    for call in utterance.calls:
        yield {"type": "function_call_output", "call_id": call.id, "output": call.result}


def _content(blocks: Iterable[Content]) -> Json:
    blocks = tuple(blocks)
    words = [block.text for block in blocks if isinstance(block, TextBlock)]
    if len(words) == len(blocks):
        return "\n\n".join(words)

    return [
        {"type": "input_text", "text": block.text}
        if isinstance(block, TextBlock)
        else {
            "type": "input_image",
            "image_url": f"data:{block.mime};base64,{block.content}",
            "detail": "auto",
        }
        for block in blocks
    ]


class _Response:
    """The state of one streamed answer. Implements `ModelStream`."""

    def __init__(self, quote: Quote) -> None:
        self._quote = quote
        self._words = TextAssembler()
        self._thoughts = TextAssembler()
        self._calls = Calls()
        self._messages = 0
        self._waits_for_call = False
        self._shortcoming: str | None = None
        self._usage: Message = {}
        self.is_over = False

    @property
    def is_complete(self) -> bool:
        return self.is_over

    @property
    def shortcoming(self) -> str | None:
        return self._shortcoming

    def read(self, data: str) -> Iterator[AgentEvent]:
        """Convert one event. There are dozens of types, and those that add nothing are skipped."""
        if data.strip() == "[DONE]":
            return

        event = parsed(data)
        index = number(event.get("output_index"))
        match event.get("type"):
            case "response.output_item.added":
                yield from self._begin(index, child(event, "item"))
            case "response.output_text.delta" | "response.refusal.delta":
                yield from self._hear_words(word(event.get("delta")))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield from self._hear_thoughts(word(event.get("delta")))
            case "response.reasoning_summary_part.added" if number(event.get("summary_index")):
                yield Reasoning(text="\n\n")
            case "response.function_call_arguments.delta":
                self._calls.add(index, word(event.get("delta")))
            case "response.output_item.done":
                yield from self._end(index, child(event, "item"))
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end_response(child(event, "response"))
            case "error":
                raise self._failure(child(event, "error") or event)
            case _ if event.get("object") == "response":
                yield from self._hear_whole(event)
            case _ if event.get("error"):
                raise self._failure(event["error"])

    def rest(self) -> Iterator[AgentEvent]:
        # A function call means that the model waits for us to run it, and the gateway runs none.
        yield from self._calls.finish(
            ToolStatus.FAILED if self._waits_for_call else ToolStatus.DONE
        )

    def usage(self) -> Iterator[AgentEvent]:
        if not self._usage:
            return

        yield usage_of(
            number(self._usage.get("input_tokens")),
            child(self._usage, "input_tokens_details"),
            number(self._usage.get("output_tokens")),
        )

    def _begin(self, index: int, item: Message) -> Iterator[AgentEvent]:
        kind = word(item.get("type"))
        if kind == "message":
            self._messages += 1
            if self._messages > 1:
                yield from self._hear_words("\n\n")
        elif kind == "function_call":
            self._waits_for_call = True
            yield from self._calls.begin(index, word(item.get("call_id")), word(item.get("name")))
        elif kind.endswith("_call"):
            # A tool that the server itself runs, such as web_search_call.
            yield from self._calls.begin(index, word(item.get("id")), kind.removesuffix("_call"))

    def _end(self, index: int, item: Message) -> Iterator[AgentEvent]:
        kind = word(item.get("type"))
        if kind.endswith("_call") and kind != "function_call":
            failed = item.get("status") == "failed"
            status = ToolStatus.FAILED if failed else ToolStatus.DONE
            yield from self._calls.finish(status, index=index)

    def _hear_words(self, text: str) -> Iterator[AgentEvent]:
        if words := self._words.mend(text):
            # Whoever goes on after a call does not wait for its result.
            yield from self._calls.finish(ToolStatus.DONE)
            yield Text(words)

    def _hear_thoughts(self, text: str) -> Iterator[AgentEvent]:
        if thoughts := self._thoughts.mend(text):
            yield Reasoning(text=thoughts)

    def _hear_whole(self, response: Message) -> Iterator[AgentEvent]:
        """Convert the whole answer of a server that does not stream."""
        items = response.get("output")
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                yield from self._begin(index, item)
                self._calls.add(index, word(item.get("arguments")))
                for part in _parts(item, "summary") + _parts(item, "content"):
                    yield from self._hear_part(part)
                yield from self._end(index, item)
        self._end_response(response)

    def _hear_part(self, part: Message) -> Iterator[AgentEvent]:
        text = word(part.get("text")) or word(part.get("refusal"))
        if word(part.get("type")) in ("output_text", "refusal"):
            yield from self._hear_words(text)
        else:
            yield from self._hear_thoughts(text)

    def _end_response(self, response: Message) -> None:
        """Take the usage and how it ended. Raises ServerRefusal if it has failed."""
        self._usage = child(response, "usage") or self._usage
        if response.get("status") == "failed" or response.get("error"):
            raise self._failure(response.get("error") or {})

        if response.get("status") == "incomplete":
            reason = word(child(response, "incomplete_details").get("reason"))
            self._shortcoming = _ENDED_EARLY.get(reason, "the answer was cut off")
        self.is_over = True

    def _failure(self, error: Json) -> ServerRefusal:
        named = (
            [word(error.get(key)) for key in ("code", "type")] if isinstance(error, dict) else []
        )
        code = str(error.get("code")) if isinstance(error, dict) else ""
        # `code` is an HTTP status on some servers, a word on others.
        status = next((_STATUS[name] for name in named if name in _STATUS), 500)
        return ServerRefusal(
            int(code) if _IS_STATUS.fullmatch(code) else status,
            self._quote(words_of(error)),
            kind=kind_of(error),
            too_long=is_too_long(error),
        )


def _parts(item: Message, key: str) -> list[Message]:
    parts = item.get(key)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
