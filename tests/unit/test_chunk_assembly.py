"""What comes in pieces and must be whole: characters, and calls of tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.gateway.agents.chunk_assembly import Calls, TextAssembler
from turngate.gateway.domain.agent_events import Tool, ToolStatus
from turngate.gateway.domain.errors import AgentError

DONE, FAILED, STARTED = ToolStatus.DONE, ToolStatus.FAILED, ToolStatus.STARTED


@given(st.text())
def test_a_text_that_was_cut_between_halves_of_characters_is_whole_again(text: str) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    halves = [
        units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)
    ]
    mender = TextAssembler()

    assert "".join(map(mender.mend, halves)) == text


@given(st.lists(st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100))))
def test_half_a_character_never_goes_on(pieces: list[str]) -> None:
    mender = TextAssembler()

    assert "".join(map(mender.mend, pieces)).encode("utf-8") is not None


def test_a_call_is_told_of_at_once_and_again_with_what_it_was_called_with() -> None:
    calls = Calls()
    begun = calls.begin(0, "a", "look")
    calls.add(0, '{"at":')
    again = calls.begin(0, "", None)
    calls.add(0, ' "sky"}')

    assert begun == [Tool(id="a", name="look", status=STARTED)]
    assert again == []
    assert calls.finish(DONE) == [Tool(id="a", name="look", status=DONE, input='{"at": "sky"}')]
    assert calls.finish(DONE) == []


def test_another_id_at_the_same_place_is_another_call() -> None:
    calls = Calls()
    calls.begin(0, "a", "look")

    assert calls.begin(0, "b", "read") == [
        Tool(id="a", name="look", status=DONE),
        Tool(id="b", name="read", status=STARTED),
    ]


def test_a_call_without_id_and_name_is_still_one() -> None:
    calls = Calls()

    assert calls.begin(0, None, None) == [Tool(id="call_1", name="tool", status=STARTED)]
    assert calls.begin(1, "", "") == [Tool(id="call_2", name="tool", status=STARTED)]


def test_a_result_finds_its_call_by_its_id() -> None:
    calls = Calls()
    calls.begin(0, "a", "look")
    calls.begin(1, "b", "read")

    assert calls.finish_named("b", "page") == [
        Tool(id="b", name="read", status=DONE, output="page")
    ]
    assert calls.finish_named("c", "page") == []
    assert calls.finish(FAILED) == [Tool(id="a", name="look", status=FAILED)]


def test_pieces_of_no_call_are_not_kept_and_a_call_without_an_end_is_an_error() -> None:
    calls = Calls()
    calls.add(3, "x")
    calls.begin(0, "a", "look")
    calls.add(0, "x" * 1_000_000)

    with pytest.raises(AgentError):
        calls.add(0, "x")


def test_no_half_of_a_character_is_in_what_is_told_of_a_call() -> None:
    calls = Calls()
    begun = calls.begin(0, "a\ud83d", "look\udc00")
    calls.add(0, "\ud83e")
    calls.add(0, "\udd8a\ud83d")

    assert begun == [Tool(id="a\ufffd", name="look\ufffd", status=STARTED)]
    assert calls.begin(0, "a\ufffd", "") == []
    assert calls.finish_named("a\ufffd", "\ud83d") == [
        Tool(id="a\ufffd", name="look\ufffd", status=DONE, input="🦊\ufffd", output="\ufffd")
    ]
