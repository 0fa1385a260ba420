"""What an agent tells over the protocol, as events."""

from __future__ import annotations

import json
import math

import pytest
from acp.schema import PermissionOption, PromptResponse, SessionNotification, ToolCallUpdate

from turngate.gateway.agents.acp.questions import labels
from turngate.gateway.agents.acp.updates import (
    LONGEST_INPUT,
    LONGEST_OUTPUT,
    Enclosed,
    Heard,
    Reading,
)
from turngate.gateway.domain.agent_events import (
    File,
    Tool,
    ToolStatus,
    Usage,
)
from turngate.gateway.domain.transcript import Text


def read(*updates: dict[str, object], reading: Reading | None = None) -> list[Heard]:
    reading = reading or Reading()
    told = [
        SessionNotification.model_validate({"sessionId": "s", "update": update})
        for update in updates
    ]
    return [event for notification in told for event in reading.events(notification)]


def message(content: dict[str, object], id_: str | None = None) -> dict[str, object]:
    return {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": id_}


def text(words: str, id_: str | None = None) -> dict[str, object]:
    return message({"type": "text", "text": words}, id_)


def call(status: str, **more: object) -> dict[str, object]:
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "bash",
        "status": status,
        **more,
    }


def progress(status: str | None = None, **more: object) -> dict[str, object]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status, **more}


def statuses(events: list[Heard]) -> list[str]:
    return [event.status.value for event in events if isinstance(event, Tool)]


class TestWords:
    def test_pieces_of_one_message_belong_together(self) -> None:
        assert read(text("one ", "m1"), text("two", "m1")) == [Text("one "), Text("two")]

    def test_two_messages_are_two_paragraphs(self) -> None:
        assert read(text("one", "m1"), text("two", "m2")) == [Text("one"), Text("\n\ntwo")]

    @pytest.mark.parametrize(
        ("content", "event"),
        [
            (
                {"type": "image", "data": "eA==", "mimeType": "image/png"},
                Enclosed(data="eA==", mime="image/png"),
            ),
            (
                {"type": "audio", "data": "eA==", "mimeType": "audio/ogg"},
                Enclosed(data="eA==", mime="audio/ogg"),
            ),
            ({"type": "resource", "resource": {"uri": "a:b", "text": "words"}}, Text("words")),
            (
                {"type": "resource", "resource": {"uri": "a:b", "blob": "eA=="}},
                Enclosed(data="eA==", mime=None),
            ),
            (
                {"type": "resource_link", "uri": "file:///a%20b.txt", "name": "b"},
                File(path="/a b.txt", name="b"),
            ),
            (
                {"type": "resource_link", "uri": "made.txt", "name": "b"},
                File(path="made.txt", name="b"),
            ),
            (
                {"type": "resource_link", "uri": "https://a.example/", "name": "b"},
                Text("[b](https://a.example/)"),
            ),
            ({"type": "resource_link", "uri": "http://[", "name": "b"}, Text("[b](http://[)")),
        ],
    )
    def test_whatever_is_in_a_message_reaches_people(
        self, content: dict[str, object], event: Heard
    ) -> None:
        assert read(message(content)) == [event]

    def test_what_has_no_place_in_a_chat_is_left_out(self) -> None:
        plan = {"sessionUpdate": "plan", "entries": []}
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
        echoed = {
            "sessionUpdate": "user_message_chunk",
            "content": {"type": "text", "text": "hello"},
        }

        assert read(plan, commands, echoed) == []


class TestTools:
    def test_one_that_waits_for_its_input_is_not_shown_yet(self) -> None:
        assert read(call("pending")) == []

    def test_one_that_runs_is_shown_once(self) -> None:
        events = read(
            call("in_progress", kind="execute"), progress("in_progress"), progress("in_progress")
        )

        assert events == [Tool(id="t", name="execute", title="bash", status=ToolStatus.STARTED)]

    def test_it_is_shown_again_when_more_is_known_of_it(self) -> None:
        _, known = read(call("in_progress"), progress(title="ls", rawInput={"command": "ls"}))

        assert known == Tool(
            id="t",
            name="bash",
            title="ls",
            status=ToolStatus.STARTED,
            input='{"command": "ls"}',
            output=None,
        )

    def test_one_of_which_only_the_end_is_heard_has_begun_too(self) -> None:
        assert statuses(read(call("pending"), progress("completed"))) == ["started", "done"]
        assert statuses(read(progress("failed"))) == ["started", "failed"]
        assert statuses(read(call("completed"))) == ["started", "done"]

    def test_what_came_out_is_told_in_words(self) -> None:
        shown = [{"type": "content", "content": {"type": "text", "text": "a.txt"}}]
        changed = [{"type": "diff", "path": "/a", "oldText": "1\n2", "newText": "1"}]

        outputs = [
            read(progress("completed", **more))[-1].output  # type: ignore[union-attr,arg-type]
            for more in (
                {"content": shown},
                {"content": changed},
                {"rawOutput": "raw"},
                {"rawOutput": {"a": 1}},
                {},
            )
        ]

        assert outputs == ["a.txt", "/a: 2 lines before, 1 now", "raw", '{"a": 1}', None]

    def test_however_much_goes_in_and_comes_out_what_is_told_is_bounded(self) -> None:
        begun, done = read(
            progress("completed", rawInput={"a": "x" * 100_000}, rawOutput="y" * 100_000)
        )

        assert isinstance(begun, Tool)
        assert isinstance(done, Tool)
        assert len(json.loads(begun.input or "")["cut"]) == LONGEST_INPUT
        assert len(done.output or "") == LONGEST_OUTPUT


class TestQuestions:
    def test_what_a_tool_wants_is_told_with_what_was_said_of_it_before(self) -> None:
        reading = Reading()
        read(call("pending", title="Delete it"), reading=reading)
        wanted = ToolCallUpdate(tool_call_id="t", raw_input={"path": "/a", "lines": [1, 2]})

        assert (
            reading.question(wanted)
            == "The agent asks for permission: Delete it\n\npath: /a\nlines: [1, 2]"
        )

    def test_nothing_is_said_twice(self) -> None:
        wanted = ToolCallUpdate(tool_call_id="t", title="rm -r .", raw_input={"command": "rm -r ."})

        assert Reading().question(wanted) == "The agent asks for permission: rm -r ."

    def test_no_two_options_read_the_same(self) -> None:
        named = enumerate(("Yes", "Yes", "No"))
        options = [
            PermissionOption(option_id=f"o{at}", name=name, kind="allow_once") for at, name in named
        ]

        assert labels(options) == {"Yes": "o0", "Yes (2)": "o1", "No": "o2"}


class TestCost:
    def test_a_turn_costs_what_was_added_to_the_sum(self) -> None:
        reading = Reading(cost=1.0)
        read(_cost(1.25), _cost(1.5), reading=reading)

        assert reading.spent(PromptResponse(stop_reason="end_turn")) == Usage(cost_usd=0.5)

    def test_a_sum_that_was_begun_anew_is_all_of_it(self) -> None:
        reading = Reading(cost=1.0)
        read(_cost(0.25), reading=reading)

        assert reading.spent(PromptResponse(stop_reason="end_turn")) == Usage(cost_usd=0.25)

    @pytest.mark.parametrize(
        ("amount", "currency"), [(5.0, "EUR"), (-1.0, "USD"), (math.inf, "USD")]
    )
    def test_other_money_and_impossible_sums_are_not_counted(
        self, amount: float, currency: str
    ) -> None:
        reading = Reading()
        read(_cost(amount, currency), reading=reading)

        assert reading.spent(PromptResponse(stop_reason="end_turn")) is None


def _cost(amount: float, currency: str = "USD") -> dict[str, object]:
    cost = {"amount": amount, "currency": currency}
    return {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost}
