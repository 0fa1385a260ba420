"""How OpenAI's responses look on the wire, and what they may be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from tests.simulators.common import Refusal, Rule
from tests.simulators.models.script import Script

_DOCS = "https://platform.openai.com/docs/api-reference/responses/create"
LEGAL = Rule("legal input", source=f"{_DOCS}#input", strict=True)

REQUIRED = {"model": str, "input": list}
OPTIONAL = {
    "stream": bool,
    "store": bool,
    "instructions": str,
    "max_output_tokens": int,
    "temperature": float,
    "top_p": float,
    "reasoning": dict,
    "include": list,
    "metadata": dict,
}
_KEYS = {
    "message": {"type", "role", "content"},
    "function_call": {"type", "call_id", "name", "arguments"},
    "function_call_output": {"type", "call_id", "output"},
}
_STATUS = {"length": "incomplete", "content_filter": "incomplete"}
_REASON = {"length": "max_output_tokens", "content_filter": "content_filter"}

Item = dict[str, object]


def heard(parameters: Mapping[str, object]) -> str:
    """What the person said last."""
    items = parameters["input"]
    assert isinstance(items, list)
    content = items[-1]["content"]
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or f"<{part['image_url'][:21]}>" for part in content)


def check(parameters: Mapping[str, object]) -> None:
    """Raises Refusal for items that the API does not take."""
    items = parameters["input"]
    assert isinstance(items, list)
    waiting: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind not in _KEYS or set(item) - _KEYS[kind]:
            raise Refusal(400, f"input[{at}]: no such item, or no such field", rule=LEGAL)
        if kind == "function_call":
            json.loads(item["arguments"])
            waiting.add(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                raise Refusal(400, f"input[{at}]: No tool call found for it", rule=LEGAL)
            waiting.remove(item["call_id"])
        else:
            if waiting:
                raise Refusal(400, f"input[{at}]: No tool output found for {waiting}", rule=LEGAL)
            _check_message(at, item)
    if not items or items[-1].get("role") != "user":
        raise Refusal(400, "the last word is not a person's", rule=LEGAL)


def _check_message(at: int, item: Mapping[str, object]) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer") or not content:
        raise Refusal(400, f"input[{at}]: no such role, or nothing is said", rule=LEGAL)
    legal = {"output_text", "refusal"} if role == "assistant" else {"input_text", "input_image"}
    for part in content if isinstance(content, list) else ():
        url = part.get("image_url", "data:image/")
        if part["type"] not in legal or not url.startswith("data:image/"):
            raise Refusal(400, f"input[{at}]: no such part", rule=LEGAL)


def events(
    script: Script, pieces: Sequence[str], parameters: Mapping[str, object]
) -> Iterator[tuple[str | None, str]]:
    """The stream: names of events and their data, numbered."""
    numbers = count()

    def event(kind: str, **fields: object) -> tuple[str | None, str]:
        return kind, json.dumps({"type": kind, "sequence_number": next(numbers), **fields})

    begun = _response(parameters, status="in_progress", output=[])
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    output = _output(script, pieces)
    for index, item in enumerate(output):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {**item, "status": "in_progress"} | _without_words(item)
        yield event("response.output_item.added", output_index=index, item=empty)
        if item["type"] == "reasoning":
            summary = {**at, "summary_index": 0}
            part = {"type": "summary_text", "text": ""}
            yield event("response.reasoning_summary_part.added", **summary, part=part)
            for piece in script.thoughts:
                yield event("response.reasoning_summary_text.delta", **summary, delta=piece)
            thought = "".join(script.thoughts)
            yield event("response.reasoning_summary_text.done", **summary, text=thought)
        elif item["type"] == "function_call":
            arguments = str(item["arguments"])
            half = len(arguments) // 2
            for part_ in (arguments[:half], arguments[half:]):
                yield event("response.function_call_arguments.delta", **at, delta=part_)
            yield event(
                "response.function_call_arguments.done",
                **at,
                name=item["name"],
                arguments=arguments,
            )
        elif item["type"] == "web_search_call":
            yield event("response.web_search_call.searching", **at)
        else:
            content = {**at, "content_index": 0}
            blank = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", **content, part=blank)
            for piece in pieces:
                yield event("response.output_text.delta", **content, delta=piece, logprobs=[])
            said = "".join(pieces)
            yield event("response.output_text.done", **content, text=said, logprobs=[])
        yield event("response.output_item.done", output_index=index, item=item)
    if "no finish" not in script.ways:
        ended = whole(script, pieces, parameters)
        yield event(f"response.{ended['status']}", response=ended)


def whole(
    script: Script, pieces: Sequence[str], parameters: Mapping[str, object]
) -> dict[str, object]:
    """The same as one document."""
    status = _STATUS.get(script.finish, "completed")
    more: dict[str, object] = {}
    if status == "incomplete":
        more["incomplete_details"] = {"reason": _REASON[script.finish]}
    if "no usage" not in script.ways:
        more["usage"] = _usage(script, pieces)
    return _response(parameters, status=status, output=_output(script, pieces)) | more


def error(words: str) -> tuple[str | None, str]:
    """What goes wrong in the middle."""
    failed = {"code": "server_error", "message": words}
    response = _response({"model": "m"}, status="failed", output=[]) | {"error": failed}
    kind = "response.failed"
    return kind, json.dumps({"type": kind, "sequence_number": 9, "response": response})


def _output(script: Script, pieces: Sequence[str]) -> list[Item]:
    output: list[Item] = []
    if script.thoughts:
        summary = [{"type": "summary_text", "text": "".join(script.thoughts)}]
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary})
    for call in script.calls:
        if "result" in call:
            action = {"type": "search", "query": call["arguments"]}
            item: Item = {"type": "web_search_call", "id": call["id"], "action": action}
        else:
            item = {"type": "function_call", "id": f"fc_{call['id']}", "call_id": call["id"]}
            item |= {"name": call["name"], "arguments": call["arguments"]}
        output.append({**item, "status": "completed"})
    if pieces:
        said = {"type": "output_text", "text": "".join(pieces), "annotations": []}
        message: Item = {"type": "message", "id": "msg_1", "role": "assistant"}
        output.append({**message, "status": "completed", "content": [said]})
    return output


def _without_words(item: Item) -> Item:
    empty: Item = {"summary": [], "content": [], "arguments": ""}
    return {key: value for key, value in empty.items() if key in item}


def _response(parameters: Mapping[str, object], *, status: str, output: list[Item]) -> Item:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": parameters["model"],
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": parameters.get("instructions"),
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _usage(script: Script, pieces: Sequence[str]) -> Item:
    """Here the input includes what was cached."""
    counted = script.counted(pieces)
    prompt = counted["input"] + counted["cache_read"] + counted["cache_write"]
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": counted["cache_read"],
            "cache_write_tokens": counted["cache_write"],
        },
        "output_tokens": counted["output"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + counted["output"],
    }
