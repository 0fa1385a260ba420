"""The words of the chat's socket."""

from __future__ import annotations

import json

import pytest

from tests.fakes import NOON
from tests.talk import key_of
from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.domain.transcript import Text
from turngate.gateway.rules.session_lifecycle import Session
from turngate.gateway.web import frames
from turngate.gateway.web.frames import (
    Archive,
    Delete,
    Earlier,
    Open,
    Rename,
    Say,
)

PLACE = SessionSource.browser("one")


def session(**more: str) -> Session:
    return Session(
        id=SessionId("s"),
        key=key_of(PLACE),
        origin=PLACE,
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
        **more,
    )


@pytest.mark.parametrize(
    ("frame", "asked"),
    [
        ({"type": "open"}, Open(conversation="one")),
        ({"type": "earlier", "before": 7}, Earlier(conversation="one", before=7)),
        ({"type": "say", "id": "m", "text": "hi"}, Say(conversation="one", id="m", text="hi")),
        ({"type": "rename", "title": ""}, Rename(conversation="one", title="")),
        ({"type": "archive", "archived": True}, Archive(conversation="one", archived=True)),
        ({"type": "delete"}, Delete(conversation="one")),
    ],
)
def test_a_frame_is_read(frame: dict[str, object], asked: object) -> None:
    assert frames.parse(json.dumps({"conversation": "one", **frame})) == asked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"type": "open"}',
        '{"type": "open", "conversation": 5}',
        '{"type": "open", "conversation": ""}',
        '{"type": "open", "conversation": "a/b"}',
        '{"type": "open", "conversation": "a\\n"}',
        json.dumps({"type": "open", "conversation": "a" * 65}),
        '{"type": "open", "conversation": ["a"]}',
        '{"type": ["open"], "conversation": "a"}',
        '{"type": "dance", "conversation": "a"}',
        '{"type": "say", "conversation": "a", "id": "m"}',
        '{"type": "say", "conversation": "a", "id": "m", "text": null}',
        '{"type": "say", "conversation": "a", "id": null, "text": "x"}',
        '{"type": "archive", "conversation": "a", "archived": 1}',
        '{"type": "earlier", "conversation": "a", "before": true}',
        '{"type": "earlier", "conversation": "a", "before": NaN}',
    ],
    ids=lambda text: text[:60],
)
def test_a_frame_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(MalformedRecord):
        frames.parse(text)


def test_a_conversation_is_called_by_its_title_then_by_what_was_said() -> None:
    assert frames.name_of(session(title="Plans", preview="hello")) == "Plans"
    assert frames.name_of(session(preview="hello")) == "hello"
    assert frames.name_of(session()) == "New conversation"
    assert frames.name_of(None) == "New conversation"


def test_a_name_cannot_turn_the_text_around_it() -> None:
    assert frames.name_of(session(title="\u202egnp.exe\u2066\n2")) == "gnp.exe 2"
    assert frames.name_of(session(title="\u202e", preview="hello")) == "hello"


def test_what_a_tool_is_called_is_one_clean_line() -> None:
    tool = Tool(
        id="1", name="a\u202eb", title="c\nd", status=ToolStatus.STARTED, input="kept\u202e"
    )

    frame = frames.happened("one", 1, tool)

    assert frame is not None
    assert frame["event"] == {
        "type": "tool",
        "id": "1",
        "name": "ab",
        "title": "c d",
        "status": "started",
        "input": "kept\u202e",
        "output": None,
    }


def test_half_a_character_does_not_break_the_wire() -> None:
    frame = frames.happened("one", 1, Text("\ud83d"))

    assert frame is not None
    assert frames.written(frame).encode("ascii")
