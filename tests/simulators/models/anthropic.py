"""How Anthropic's messages look on the wire, and what they may be asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.simulators.common import Refusal, Rule
from tests.simulators.models.script import Script

_DOCS = "https://docs.anthropic.com/en/api/messages"
LEGAL = Rule("legal blocks", source=_DOCS, strict=True)
VERSION = Rule("version", source="https://docs.anthropic.com/en/api/versioning", strict=True)

REQUIRED = {"model": str, "messages": list, "max_tokens": int}
OPTIONAL = {
    "stream": bool,
    "system": list,
    "temperature": float,
    "top_p": float,
    "top_k": int,
    "thinking": dict,
    "tools": list,
    "tool_choice": dict,
    "metadata": dict,
}

_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_calls": "tool_use",
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

Block = dict[str, object]


def heard(parameters: Mapping[str, object]) -> str:
    """What the person said last."""
    messages = parameters["messages"]
    assert isinstance(messages, list)
    blocks = [block for block in _blocks_of(messages[-1]) if block["type"] != "tool_result"]
    return " ".join(block.get("text") or f"<{block['source']['media_type']}>" for block in blocks)


def check(parameters: Mapping[str, object]) -> None:
    """Raises Refusal for blocks that the API does not take."""
    messages = parameters["messages"]
    assert isinstance(messages, list)
    tools = parameters.get("tools", [])
    assert isinstance(tools, list)
    known, seen, waiting = {tool["name"] for tool in tools}, set[str](), set[str]()
    for at, message in enumerate(messages):
        if message["role"] != ("user" if at % 2 == 0 else "assistant"):
            raise Refusal(
                400, f"messages.{at}: roles must alternate, and a user begins", rule=LEGAL
            )
        given = {
            block["tool_use_id"] for block in _blocks_of(message) if block["type"] == "tool_result"
        }
        if given != waiting:
            raise Refusal(400, f"messages.{at}: calls {waiting} and results {given}", rule=LEGAL)
        waiting = {block["id"] for block in _blocks_of(message) if block["type"] == "tool_use"}
        if waiting & seen:
            raise Refusal(400, f"messages.{at}: `tool_use` ids must be unique", rule=LEGAL)
        seen |= waiting
        for block in _blocks_of(message):
            _check_block(at, block, known)
    if not messages or messages[-1]["role"] != "user":
        raise Refusal(400, "the last word is not a person's", rule=LEGAL)


def _blocks_of(message: Mapping[str, Any]) -> list[Any]:
    """The content as a list: a string stands for one block of text."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _check_block(at: int, block: Mapping[str, object], known: set[str]) -> None:
    kind = block["type"]
    trouble = {
        "text": lambda: not str(block["text"]).strip() and "text blocks must not be blank",
        "image": lambda: _picture_trouble(block["source"]),
        "tool_use": lambda: (
            (block["name"] not in known and "its tool is not defined")
            or (not _NAME.fullmatch(str(block["name"])) and "no such name")
            or (not isinstance(block["input"], dict) and "the input is no object")
        ),
        "tool_result": lambda: not block["content"] and "an empty result",
        "thinking": lambda: not block.get("signature") and "thinking without a signature",
    }.get(str(kind), lambda: f"there is no type {kind}")()
    if trouble:
        raise Refusal(400, f"messages.{at}: {trouble}", rule=LEGAL)


def _picture_trouble(source: object) -> str | bool:
    types = ("image/png", "image/jpeg", "image/gif", "image/webp")
    is_right = (
        isinstance(source, dict) and source["type"] == "base64" and source["media_type"] in types
    )
    return not is_right and "not a picture"


def events(
    script: Script, pieces: Sequence[str], parameters: Mapping[str, object]
) -> Iterator[tuple[str | None, str]]:
    """The stream: names of events and their data."""
    with_usage = "no usage" not in script.ways
    usage = _usage(script, pieces)
    start: Block = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": parameters["model"],
        "content": [],
    }
    if with_usage:
        start["usage"] = {**usage, "output_tokens": 1}
    yield _event("message_start", message=start)
    yield _event("ping")
    for index, (block, deltas) in enumerate(_blocks(script, pieces)):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stop = (
        {}
        if "no finish" in script.ways
        else {"stop_reason": _FINISH[script.finish], "stop_sequence": None}
    )
    counted = {"usage": {"output_tokens": usage["output_tokens"]}} if with_usage else {}
    yield _event("message_delta", delta=stop, **counted)
    if "no done" not in script.ways:
        yield _event("message_stop")


def whole(
    script: Script, pieces: Sequence[str], parameters: Mapping[str, object]
) -> dict[str, object]:
    """The same as one document."""
    thoughts = "".join(script.thoughts)
    thinking = (
        [{"type": "thinking", "thinking": thoughts, "signature": script.signature or ""}]
        if thoughts
        else []
    )
    usage = {} if "no usage" in script.ways else {"usage": _usage(script, pieces)}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": parameters["model"],
        "content": [*thinking, {"type": "text", "text": "".join(pieces)}],
        "stop_reason": _FINISH[script.finish],
        **usage,
    }


def error(words: str) -> tuple[str | None, str]:
    """What goes wrong in the middle."""
    return _event("error", error={"type": "overloaded_error", "message": words})


def _blocks(script: Script, pieces: Sequence[str]) -> Iterator[tuple[Block, list[Block]]]:
    if script.thoughts:
        thinking: list[Block] = [
            {"type": "thinking_delta", "thinking": piece} for piece in script.thoughts
        ]
        signed: list[Block] = (
            [{"type": "signature_delta", "signature": script.signature}] if script.signature else []
        )
        yield {"type": "thinking", "thinking": "", "signature": ""}, thinking + signed
    for call in script.calls:
        half = len(call["arguments"]) // 2
        parts = call["arguments"][:half], call["arguments"][half:]
        kind = "server_tool_use" if "result" in call else "tool_use"
        deltas: list[Block] = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        yield {"type": kind, "id": call["id"], "name": call["name"], "input": {}}, deltas
        if "result" in call:
            yield (
                {
                    "type": f"{call['name']}_tool_result",
                    "tool_use_id": call["id"],
                    "content": call["result"],
                },
                [],
            )
    if pieces:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in pieces],
        )


def _event(kind: str, **fields: object) -> tuple[str | None, str]:
    return kind, json.dumps({"type": kind, **fields})


def _usage(script: Script, pieces: Sequence[str]) -> dict[str, object]:
    """Here what was cached is not part of the input."""
    counted = script.counted(pieces)
    return {
        "input_tokens": counted["input"],
        "cache_read_input_tokens": counted["cache_read"],
        "cache_creation_input_tokens": counted["cache_write"],
        "output_tokens": counted["output"],
    }
