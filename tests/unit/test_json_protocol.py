"""The agent's side of the contract: how a turn is written, and what is understood of an event."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import NOON, message, said, user
from tests.programs import turn_in
from turngate.gateway.agents.json_protocol import (
    event_of,
    read_event,
    turn_document,
    written,
)
from turngate.gateway.domain.agent_events import (
    Ask,
    Done,
    File,
    Send,
    Tool,
    ToolStatus,
    Usage,
)
from turngate.gateway.domain.errors import AgentError
from turngate.gateway.domain.ids import SessionId
from turngate.gateway.domain.messages import (
    Attachment,
    ChatType,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.session import EndReason, ResetNotice
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Origin,
    Reasoning,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.rules.redaction import Redactor, new_key

TURN = turn_in(Path("/work"))


class TestATurn:
    def test_it_has_the_shape_of_the_contract(self) -> None:
        document = turn_document(replace(TURN, system="Be kind.", context="You are in a chat."))
        assert document == {
            "turn": 7,
            "session": {
                "id": "s1",
                "title": None,
                "is_new": True,
                "reset": None,
                "goal": None,
                "shared": False,
            },
            "source": {
                "platform": "telegram",
                "account": "main",
                "chat_type": "dm",
                "chat_id": "42",
                "thread_id": None,
                "user_id": "42",
                "chat_name": None,
                "chat_topic": None,
                "user_name": "Ann 42",
            },
            "system": "Be kind.",
            "context": "You are in a chat.",
            "history": [],
            "messages": [
                {
                    "id": "1",
                    "text": "hello",
                    "sender": "42",
                    "sender_name": "Ann 42",
                    "reply_to": None,
                    "attachments": [],
                }
            ],
            "workdir": "/work",
        }

    def test_a_reset_is_told(self) -> None:
        notice = ResetNotice(reason=EndReason.IDLE, had_activity=True, previous=SessionId("s0"))
        session = replace(TURN.session, notice=notice, title="Plans", goal="Rest")
        document = turn_document(replace(TURN, session=session))["session"]
        assert document == {
            "id": "s1",
            "title": "Plans",
            "is_new": True,
            "reset": {"reason": "idle", "had_activity": True},
            "goal": "Rest",
            "shared": False,
        }

    def test_a_session_is_new_until_something_was_said_in_it(self) -> None:
        command, talk = said(Role.USER, "/help", origin=Origin.COMMAND), user("hi")
        states = [
            turn_document(replace(TURN, history=history))["session"]
            for history in ((command,), (command, talk))
        ]
        assert [state["is_new"] for state in states] == [True, False]  # type: ignore[index,call-overload]

    def test_history_has_blocks_calls_and_results(self) -> None:
        photo = Media(type=MediaType.IMAGE, path="/in/1", mime="image/png", name="a.png")
        asked = Entry(role=Role.USER, content=(Text("look"), photo), at=NOON, sender="u1")
        called = Entry(
            role=Role.ASSISTANT, content=(), at=NOON, tool_calls=(ToolCall(id="c", name="see"),)
        )
        result = Entry(role=Role.TOOL, content=(Text("a cat"),), at=NOON, tool_call_id="c")
        assert turn_document(replace(TURN, history=(asked, called, result)))["history"] == [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "path": "/in/1", "mime": "image/png", "name": "a.png"},
                ],
                "tool_calls": [],
                "sender": "u1",
            },
            {
                "role": "assistant",
                "content": [],
                "tool_calls": [{"id": "c", "name": "see", "arguments": "{}"}],
            },
            {
                "role": "tool",
                "content": [{"type": "text", "text": "a cat"}],
                "tool_calls": [],
                "tool_call_id": "c",
            },
        ]

    def test_a_message_has_its_files_and_what_it_answers(self) -> None:
        file = Attachment(
            type=MediaType.FILE,
            ref="secret-ref",
            path="/in/x",
            mime="text/plain",
            name="x.txt",
            size=3,
        )
        quoted = ReplyTo(message_id="99", text="what I said", to_bot=True)
        document = turn_document(
            replace(TURN, messages=(replace(message(), attachments=(file,), reply_to=quoted),))
        )
        (shown,) = document["messages"]  # type: ignore[misc,union-attr]
        assert shown["attachments"] == [{"path": "/in/x", "mime": "text/plain", "name": "x.txt"}]  # type: ignore[index,call-overload]
        assert shown["reply_to"] == {"text": "what I said", "to_bot": True}  # type: ignore[index,call-overload]

    def test_a_redacted_turn_shows_no_id_of_anybody(self) -> None:
        source = SessionSource(
            platform="slack",
            chat_type=ChatType.GROUP,
            chat_id="C0CANARY1",
            chat_id_alt="C0CANARY2",
            user_id="U0CANARY3",
            user_id_alt="U0CANARY4",
            thread_id="171CANARY5",
            scope="T0CANARY6",
        )
        said_by = Entry(
            role=Role.USER, content=(Text("hi"),), at=NOON, sender="U0CANARY7", message_id="CANARY8"
        )
        turn = replace(
            TURN,
            source=source,
            session=replace(TURN.session, origin=source),
            messages=(message("hello", id="CANARY9", source=source),),
            history=(said_by,),
        )
        redacted = Redactor(new_key(), "slack").turn(turn)
        assert b"CANARY" not in written(turn_document(redacted))

    def test_it_is_one_line_whatever_people_write(self) -> None:
        line = written(turn_document(replace(TURN, messages=(message("a\nb\u2028c \ud800 ü"),))))
        assert b"\n" not in line
        assert json.loads(line)["messages"][0]["text"] == "a\nb\u2028c ? ü"


class TestAnEvent:
    @pytest.mark.parametrize(
        ("document", "event"),
        [
            ({"type": "text", "text": "hi", "more": 1}, Text("hi")),
            ({"type": "reasoning", "text": "hm"}, Reasoning(text="hm")),
            (
                {"type": "reasoning", "text": "hm", "signature": "s"},
                Reasoning(text="hm", signature="s"),
            ),
            (
                {
                    "type": "tool",
                    "id": "1",
                    "name": "look",
                    "status": "started",
                    "input": {"at": "ü"},
                },
                Tool(id="1", name="look", status=ToolStatus.STARTED, input='{"at": "ü"}'),
            ),
            (
                {
                    "type": "tool",
                    "id": "1",
                    "name": "look",
                    "status": "done",
                    "title": "Look",
                    "output": "a cat",
                },
                Tool(id="1", name="look", status=ToolStatus.DONE, title="Look", output="a cat"),
            ),
            (
                {
                    "type": "tool",
                    "id": "1",
                    "name": "look",
                    "status": "failed",
                    "output": {"code": 3},
                },
                Tool(id="1", name="look", status=ToolStatus.FAILED, output='{"code": 3}'),
            ),
            ({"type": "file", "path": "a.txt", "name": None}, File(path="a.txt")),
            (
                {"type": "ask", "id": "q", "text": "Sure?", "options": ["yes", "no"]},
                Ask(id="q", text="Sure?", options=("yes", "no")),
            ),
            ({"type": "send", "target": "origin", "text": "hi"}, Send(target="origin", text="hi")),
            ({"type": "usage", "input": 3, "cost_usd": 0.5}, Usage(input=3, cost_usd=0.5)),
            ({"type": "usage", "input": 3.0, "output": None}, Usage(input=3)),
            ({"type": "done"}, Done()),
            ({"type": "from-the-future", "text": 1}, None),
        ],
    )
    def test_it_is_understood(self, document: object, event: object) -> None:
        assert event_of(document) == event
        assert read_event(json.dumps(document)) == event

    @pytest.mark.parametrize(
        ("document", "why"),
        [
            ({"type": "error", "text": "out\nof ink"}, "^out of ink$"),
            ({"type": "error", "message": "out of ink"}, "^out of ink$"),
            ({"type": "error"}, "it did not say why"),
            ([], "not an event: a list"),
            ("text", "not an event: a str"),
            ({}, "the agent's event is wrong: type must be a text"),
            ({"type": 3}, "the agent's event is wrong: type must be a text"),
            ({"type": "text"}, "the agent's event text is wrong: text must be a text"),
            ({"type": "text", "text": ["a"]}, "text must be a text"),
            (
                {"type": "tool", "id": "1", "name": "n", "status": "over"},
                "status must be one of started, done, failed",
            ),
            (
                {"type": "ask", "id": "q", "text": "t", "options": "yes"},
                "options must be a list of texts",
            ),
            (
                {"type": "ask", "id": "q", "text": "t", "options": [1]},
                "options must be a list of texts",
            ),
            ({"type": "usage", "input": True}, "input must be a number"),
            ({"type": "usage", "input": float("nan")}, "input must be a number"),
            ({"type": "usage", "cost_usd": -1}, "cost_usd must be a sum of money"),
            ({"type": "usage", "cost_usd": 10**400}, "cost_usd must be a sum of money"),
        ],
    )
    def test_a_mistake_is_told_with_its_place(self, document: object, why: str) -> None:
        with pytest.raises(AgentError, match=why):
            event_of(document)

    @pytest.mark.parametrize("line", ["{", "hello", "[" * 100_000, "1" * 5000, b"\xff"])
    def test_what_is_no_json_is_told_without_repeating_it(self, line: str | bytes) -> None:
        with pytest.raises(
            AgentError,
            match=r"^the agent said something that is not JSON, where each line is one event$",
        ):
            read_event(line)

    def test_an_empty_line_says_nothing(self) -> None:
        assert read_event(" \r\n") is None

    def test_half_a_character_is_no_harm(self) -> None:
        assert read_event(r'{"type":"text","text":"a\ud83db"}') == Text("a?b")
