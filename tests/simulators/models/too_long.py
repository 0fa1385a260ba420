"""What servers answer to a prompt that does not fit, each in its own words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import web

Body = dict[str, object]


def _openai(size: int, window: int) -> Body:
    words = f"This model's maximum context length is {window} tokens. However, your messages "
    return {
        "error": {
            "message": f"{words}resulted in {size} tokens.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }


def _responses(size: int, window: int) -> Body:
    return {
        "error": {
            "message": "Your input exceeds the context window of this model.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "context_length_exceeded",
        }
    }


def _anthropic(size: int, window: int) -> Body:
    words = f"prompt is too long: {size} tokens > {window} maximum"
    return {"type": "error", "error": {"type": "invalid_request_error", "message": words}}


def _llama_cpp(size: int, window: int) -> Body:
    return {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": size,
            "n_ctx": window,
        }
    }


def _vllm(size: int, window: int) -> Body:
    words = f"This model's maximum context length is {window} tokens. However, you requested {size}"
    return {
        "object": "error",
        "message": f"{words} tokens in the messages, Please reduce the length of the messages.",
        "type": "BadRequestError",
        "param": None,
        "code": 400,
    }


WORDINGS = {
    "openai": _openai,
    "responses": _responses,
    "anthropic": _anthropic,
    "llama.cpp": _llama_cpp,
    "vllm": _vllm,
}


def refusal(
    parameters: Mapping[str, object], window: int | None, wording: str
) -> web.StreamResponse | None:
    """The refusal of a request whose words take more than the window; None if they fit."""
    asked = {name: parameters.get(name) for name in ("messages", "system", "input", "instructions")}
    size = len(json.dumps(asked)) // 4
    if window is None or size <= window:
        return None
    return web.json_response(WORDINGS[wording](size, window), status=400)
