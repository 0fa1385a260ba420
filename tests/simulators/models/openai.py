"""How OpenAI's chat completions look on the wire, and what they may be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from tests.simulators.common import Refusal, Rule
from tests.simulators.models.script import Script

_DOCS = "https://platform.openai.com/docs/api-reference/chat/create"
LEGAL = Rule("legal messages", source=f"{_DOCS}#messages", strict=True)

REQUIRED = {"model": str, "messages": list}
OPTIONAL = {
    "stream": bool,
    "stream_options": dict,
    "max_tokens": int,
    "max_completion_tokens": int,
    "temperature": float,
    "top_p": float,
    "reasoning_effort": str,
    "seed": int,
}

Message = Mapping[str, object]


def heard(parameters: Mapping[str, object]) -> str:
    """What the person said last."""
    messages = parameters["messages"]
    assert isinstance(messages, list)
    content = messages[-1]["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or f"<{part['image_url']['url'][:21]}>" for part in content)


def check(parameters: Mapping[str, object]) -> None:
    """Raises Refusal for a sequence of messages that no server takes."""
    messages = parameters["messages"]
    assert isinstance(messages, list)
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                raise Refusal(400, f"messages.{at}: a result without its call", rule=LEGAL)
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            raise Refusal(400, f"messages.{at}: a call without its result", rule=LEGAL)
        _check_one(at, message)
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        for call in message.get("tool_calls", ()):
            json.loads(call["function"]["arguments"])
    if not messages or messages[-1]["role"] != "user":
        raise Refusal(400, "the last word is not a person's", rule=LEGAL)


def _check_one(at: int, message: Message) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "user", "assistant"):
        raise Refusal(400, f"messages.{at}: there is no role {role}", rule=LEGAL)
    if role == "system" and at > 0:
        raise Refusal(400, f"messages.{at}: a system message comes first", rule=LEGAL)
    if not content and not message.get("tool_calls"):
        raise Refusal(400, f"messages.{at}: nothing is said", rule=LEGAL)
    for part in content if isinstance(content, list) else ():
        if part["type"] == "image_url" and not part["image_url"]["url"].startswith("data:image/"):
            raise Refusal(400, f"messages.{at}: not a picture", rule=LEGAL)


def events(
    script: Script, pieces: Sequence[str], parameters: Mapping[str, object]
) -> Iterator[tuple[str | None, str]]:
    """The stream: names of events and their data."""
    ways = script.ways
    thought = "reasoning" if "reasoning field" in ways else "reasoning_content"
    role = {"role": "assistant"}
    everywhere = role if "role in every chunk" in ways else {}
    yield _chunk(parameters, {**role, "content": ""})
    for piece in script.thoughts:
        yield _chunk(parameters, {**everywhere, thought: piece})
    for at, call in enumerate(script.calls):
        begun = {"name": call["name"], "arguments": ""}
        yield _chunk(
            parameters,
            {
                "tool_calls": [
                    {"index": at, "id": call["id"], "type": "function", "function": begun}
                ]
            },
        )
        half = len(call["arguments"]) // 2
        for part in (call["arguments"][:half], call["arguments"][half:]):
            yield _chunk(
                parameters, {"tool_calls": [{"index": at, "function": {"arguments": part}}]}
            )
    for piece in pieces:
        content = [{"type": "text", "text": piece}] if "parts" in ways else piece
        yield _chunk(parameters, {**everywhere, "content": content})
    if "no finish" not in ways:
        yield _chunk(parameters, {}, finish=script.finish)
    options = parameters.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") and "no usage" not in ways:
        yield (
            None,
            json.dumps({**_head(parameters), "choices": [], "usage": _usage(script, pieces)}),
        )
    if "no done" not in ways:
        yield None, "[DONE]"


def whole(
    script: Script, pieces: Sequence[str], parameters: Mapping[str, object]
) -> dict[str, object]:
    """The same as one document."""
    message: dict[str, object] = {"role": "assistant", "content": "".join(pieces)}
    if script.thoughts:
        message["reasoning_content"] = "".join(script.thoughts)
    choice = {"index": 0, "message": message, "finish_reason": script.finish}
    usage = {} if "no usage" in script.ways else {"usage": _usage(script, pieces)}
    return {**_head(parameters), "object": "chat.completion", "choices": [choice], **usage}


def error(words: str) -> tuple[str | None, str]:
    """What goes wrong in the middle."""
    return None, json.dumps({"error": {"message": words, "type": "server_error", "code": 500}})


def _head(parameters: Mapping[str, object]) -> dict[str, object]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": parameters["model"],
    }


def _chunk(
    parameters: Mapping[str, object], delta: Message, *, finish: str | None = None
) -> tuple[str | None, str]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return None, json.dumps({**_head(parameters), "choices": [choice], "usage": None})


def _usage(script: Script, pieces: Sequence[str]) -> dict[str, object]:
    """Here the prompt includes what was cached."""
    counted = script.counted(pieces)
    prompt = counted["input"] + counted["cache_read"] + counted["cache_write"]
    return {
        "prompt_tokens": prompt,
        "completion_tokens": counted["output"],
        "total_tokens": prompt + counted["output"],
        "prompt_tokens_details": {
            "cached_tokens": counted["cache_read"],
            "cache_write_tokens": counted["cache_write"],
        },
    }
