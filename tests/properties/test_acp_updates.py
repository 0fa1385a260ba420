"""
Whatever an agent sends over the protocol is events that a store can keep, or nothing; never an
error of ours.
"""

from __future__ import annotations

import json

from acp.schema import SessionNotification
from hypothesis import given
from hypothesis import strategies as st

from turngate.gateway.agents.acp.updates import Enclosed, Reading
from turngate.gateway.agents.acp.wire import parsed
from turngate.gateway.domain.serialization import to_dict

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
content = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries({"type": st.just("image"), "data": texts, "mimeType": texts}),
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": texts, "name": texts}),
    st.fixed_dictionaries(
        {
            "type": st.just("resource"),
            "resource": st.fixed_dictionaries({"uri": texts, "text": texts}),
        }
    ),
    anything,
)
tool_fields = st.fixed_dictionaries(
    {"toolCallId": st.sampled_from(["t1", "t2"]) | texts, "title": texts},
    optional={
        "status": st.sampled_from(["pending", "in_progress", "completed", "failed"]) | anything,
        "kind": st.sampled_from(["read", "other"]) | anything,
        "rawInput": anything,
        "rawOutput": anything,
        "content": st.lists(
            st.fixed_dictionaries({"type": st.just("content"), "content": content}), max_size=2
        ),
    },
)
updates = st.one_of(
    st.builds(
        lambda words, id_: {
            "sessionUpdate": "agent_message_chunk",
            "content": words,
            "messageId": id_,
        },
        content,
        texts,
    ),
    st.builds(lambda words: {"sessionUpdate": "agent_thought_chunk", "content": words}, content),
    st.builds(
        lambda kind, fields: {"sessionUpdate": kind, **fields},
        st.sampled_from(["tool_call", "tool_call_update"]),
        tool_fields,
    ),
    st.builds(
        lambda cost: {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost}, anything
    ),
    anything,
)


def received(update: object) -> SessionNotification | None:
    """As it comes out of the line; None if it is passed over."""
    line = json.dumps(
        {"method": "session/update", "params": {"sessionId": "s", "update": update}}
    ).encode()
    message = parsed(line)
    assert message is not None
    try:
        return SessionNotification.model_validate(message["params"])
    except ValueError:
        return None


@given(st.lists(updates, max_size=6))
def test_every_update_can_be_kept_or_is_passed_over(told: list[object]) -> None:
    reading = Reading()
    for notification in filter(None, map(received, told)):
        for event in reading.events(notification):
            if not isinstance(event, Enclosed):
                json.dumps(to_dict(event), ensure_ascii=False, allow_nan=False).encode()
