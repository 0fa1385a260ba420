"""Whatever a model server sends, it becomes events, or an error of ours."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from turngate.gateway.agents.anthropic import _Message
from turngate.gateway.agents.model_call import ServerRefusal
from turngate.gateway.agents.model_stream import ModelStream
from turngate.gateway.agents.openai import _Completion
from turngate.gateway.domain.agent_events import Tool, Usage
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.serialization import to_dict
from turngate.gateway.domain.transcript import Reasoning, Text

KEYS = {
    "openai": [
        "choices",
        "delta",
        "message",
        "content",
        "text",
        "reasoning",
        "refusal",
        "tool_calls",
        "index",
        "id",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "error",
        "code",
        "prompt_tokens_details",
        "cached_tokens",
        "type",
    ],
    "anthropic": [
        "type",
        "index",
        "message",
        "usage",
        "content_block",
        "delta",
        "content",
        "text",
        "thinking",
        "id",
        "signature",
        "partial_json",
        "input",
        "name",
        "tool_use_id",
        "stop_reason",
        "error",
        "input_tokens",
    ],
}
TYPES = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "error",
]
TYPES += [
    "message",
    "message_stop",
    "text",
    "text_delta",
    "thinking",
    "thinking_delta",
    "signature_delta",
    "tool_use",
]
TYPES += [
    "input_json_delta",
    "web_search_tool_result",
    "server_tool_use",
    "tool_calls",
    "stop",
    "length",
]


def values(keys: list[str]) -> st.SearchStrategy[object]:
    odd = st.text(st.sampled_from("a é\ud83d\udc00🦊"), max_size=3)
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(TYPES) | odd
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=5)
        ),
        max_leaves=12,
    )


def play(answer: ModelStream, messages: list[object]) -> None:
    said: list[object] = []
    with suppress(AgentError, ServerRefusal):
        for message in messages:
            said += answer.read(json.dumps(message))
    said += [*answer.rest(), *answer.usage()]
    assert answer.is_complete in (True, False)
    assert all(isinstance(event, Text | Reasoning | Tool | Usage) for event in said)
    for event in said:
        json.dumps(to_dict(event), ensure_ascii=False).encode("utf-8")


@given(st.lists(values(KEYS["openai"]), max_size=6))
def test_nothing_in_a_completion_breaks_the_agent(messages: list[object]) -> None:
    play(_Completion(str), messages)


@given(
    st.lists(
        values(KEYS["anthropic"]) | st.dictionaries(st.just("type"), st.sampled_from(TYPES)),
        max_size=6,
    )
)
def test_nothing_in_a_message_breaks_the_agent(messages: list[object]) -> None:
    play(_Message(str), messages)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(TYPES)},
            optional={
                key: values(KEYS["anthropic"])
                for key in ("index", "delta", "content_block", "message", "usage")
            },
        ),
        max_size=6,
    )
)
def test_nothing_in_an_event_of_a_known_type_breaks_the_agent(messages: list[object]) -> None:
    play(_Message(str), messages)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "choices": st.lists(
                    st.fixed_dictionaries({"delta": values(KEYS["openai"])}), max_size=2
                )
            },
            optional={"usage": values(KEYS["openai"]), "error": values(KEYS["openai"])},
        ),
        max_size=6,
    )
)
def test_nothing_in_a_chunk_of_the_known_shape_breaks_the_agent(messages: list[object]) -> None:
    play(_Completion(str), messages)
