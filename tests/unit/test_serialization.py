"""The dict form: what it looks like, and what is refused with the name of the field."""

from __future__ import annotations

from datetime import time, timedelta, timezone

import pytest

from tests.fakes import NOON, message, user
from turngate.gateway.domain.agent_events import (
    Done,
    Tool,
    ToolStatus,
    Usage,
)
from turngate.gateway.domain.errors import MalformedRecord
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    ReplyTo,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.serialization import from_dict, to_dict
from turngate.gateway.domain.session import ResetPolicy, Session
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.domain.usage import Cost, Tokens

AT = "2026-05-04T12:00:00+00:00"


def entry(**changes: object) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": "hi"}], "at": AT} | changes


def test_fields_at_their_default_are_left_out() -> None:
    assert to_dict(SessionSource(platform="telegram", chat_id="99")) == {
        "platform": "telegram",
        "chat_id": "99",
    }


def test_a_time_is_written_in_utc() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=9)))

    assert to_dict(Sent(message_id="1", at=east)) == {"message_id": "1", "at": AT}


def test_a_time_is_read_into_utc() -> None:
    sent = from_dict(Sent, {"message_id": "1", "at": "2026-05-04T21:00:00+09:00"})

    assert sent.at == NOON
    assert sent.at.utcoffset() == timedelta(0)


def test_enums_durations_and_times_of_day_are_written_plainly() -> None:
    policy = ResetPolicy(idle_after=timedelta(minutes=90), daily_at=time(4, 30), zone="Asia/Tokyo")

    assert to_dict(policy) == {"idle_after": 5400.0, "daily_at": "04:30:00", "zone": "Asia/Tokyo"}
    assert to_dict(SessionSource(platform="x", chat_type=ChatType.GROUP)) == {
        "platform": "x",
        "chat_type": "group",
    }


def test_an_event_says_its_type() -> None:
    tool = Tool(id="1", name="search", status=ToolStatus.DONE)

    assert to_dict(tool) == {"type": "tool", "id": "1", "name": "search", "status": "done"}
    assert to_dict(Done()) == {"type": "done"}


def test_blocks_are_told_apart_by_their_type() -> None:
    blocks = (Text("hi"), Media(type=MediaType.IMAGE, name="cat.png"))

    record = to_dict(Entry(role=Role.USER, content=blocks, at=NOON))

    assert record["content"] == [
        {"type": "text", "text": "hi"},
        {"type": "image", "name": "cat.png"},
    ]
    assert from_dict(Entry, record).content == blocks


def test_a_text_that_looks_like_json_stays_that_very_string() -> None:
    typed = '[{"type":"text","text":"hi"}]'

    record = to_dict(user(typed))

    assert record["content"] == [{"type": "text", "text": typed}]
    assert from_dict(Entry, record).text == typed


def test_unknown_keys_are_ignored_at_every_depth() -> None:
    record = to_dict(message())
    record["source"] = {**to_dict(message().source), "mood": "sunny"}

    assert from_dict(InboundMessage, record | {"colour": {"deep": [1]}}) == message()


def test_null_is_none_where_none_is_allowed() -> None:
    assert from_dict(SessionSource, {"platform": "x", "chat_id": None}) == SessionSource(
        platform="x"
    )


def test_a_whole_number_is_a_float_where_a_float_is_wanted() -> None:
    assert from_dict(Usage, {"type": "usage", "cost_usd": 2}).cost_usd == 2.0
    assert from_dict(ResetPolicy, {"idle_after": 60}).idle_after == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("cls", "record", "complaint"),
    [
        (Entry, entry(role="wizard"), r"Entry\.role: 'wizard' is not a valid Role"),
        (Entry, entry(role=["user"]), r"Entry\.role: "),
        (Entry, entry(role=None), r"Entry\.role: "),
        (Entry, {"role": "user", "content": []}, r"Entry\.at is missing"),
        (Entry, entry(at="yesterday"), r"Entry\.at: "),
        (Entry, entry(at=1714824000), r"Entry\.at: expected str, got int"),
        (Entry, entry(at="2026-05-04T12:00:00"), r"Entry\.at: .* has no time zone"),
        (Entry, entry(at="0001-01-01T00:00:00+14:00"), r"Entry\.at: "),
        (Entry, entry(content="hi"), r"Entry\.content: expected list, got str"),
        (
            Entry,
            entry(content={"type": "text", "text": "hi"}),
            r"Entry\.content: expected list, got dict",
        ),
        (Entry, entry(content=["hi"]), r"Entry\.content: unknown type None"),
        (Entry, entry(content=[{"text": "hi"}]), r"Entry\.content: unknown type None"),
        (Entry, entry(content=[{"type": ["text"]}]), r"Entry\.content: unknown type \['text'\]"),
        (
            Entry,
            entry(content=[{"type": "video"}]),
            r"Entry\.content: unknown type 'video', .*audio, .*image, .*text",
        ),
        (Entry, entry(content=[{"type": "text"}]), r"Entry\.content: Text\.text is missing"),
        (
            Entry,
            entry(content=[{"type": "text", "text": 7}]),
            r"Entry\.content: Text\.text: expected str, got int",
        ),
        (Entry, entry(tool_calls=[{"id": "1"}]), r"Entry\.tool_calls: ToolCall\.name is missing"),
        (Entry, entry(reasoning="hm"), r"Entry\.reasoning: Reasoning: expected an object, got str"),
        (Entry, entry(seq="1"), r"Entry\.seq: expected int, got str"),
        (Entry, entry(seq=1.0), r"Entry\.seq: expected int, got float"),
        (Entry, entry(seq=True), r"Entry\.seq: expected int, got bool"),
        (Entry, entry(seq=None), r"Entry\.seq: expected int, got NoneType"),
        (Entry, [], r"Entry: expected an object, got list"),
        (Entry, None, r"Entry: expected an object, got NoneType"),
        (Tokens, {"input": False}, r"Tokens\.input: expected int, got bool"),
        (ReplyTo, {"message_id": "1", "to_bot": 1}, r"ReplyTo\.to_bot: expected bool, got int"),
        (
            SessionSource,
            {"platform": "x", "chat_id": [99]},
            r"SessionSource\.chat_id: expected str, got list",
        ),
        (
            ToolCall,
            {"id": "1", "name": "f", "arguments": {}},
            r"ToolCall\.arguments: expected str, got dict",
        ),
        (Part, {"target": {}, "text": ""}, r"Part\.target: SessionSource\.platform is missing"),
        (Usage, {"cost_usd": True}, r"Usage\.cost_usd: expected float, got bool"),
        (Usage, {"cost_usd": "1.5"}, r"Usage\.cost_usd: expected float, got str"),
        (Usage, {"cost_usd": 10**400}, r"Usage\.cost_usd: "),
        (ResetPolicy, {"idle_after": "1h"}, r"ResetPolicy\.idle_after: expected float, got str"),
        (ResetPolicy, {"idle_after": 1e300}, r"ResetPolicy\.idle_after: "),
        (ResetPolicy, {"idle_after": float("nan")}, r"ResetPolicy\.idle_after: "),
        (ResetPolicy, {"daily_at": "25:00"}, r"ResetPolicy\.daily_at: "),
        (ResetPolicy, {"daily_at": 4}, r"ResetPolicy\.daily_at: expected str, got int"),
        (Session, {}, r"Session\.id is missing"),
    ],
)
def test_a_malformed_record_says_which_field_is_wrong(
    cls: type, record: object, complaint: str
) -> None:
    with pytest.raises(MalformedRecord, match=f"^{complaint}"):
        from_dict(cls, record)


def test_the_way_to_a_wrong_field_is_named_from_the_outside_in() -> None:
    record = to_dict(message())
    record["reply_to"] = {"message_id": [7]}

    with pytest.raises(
        MalformedRecord,
        match=r"^InboundMessage\.reply_to: ReplyTo\.message_id: expected str, got list$",
    ):
        from_dict(InboundMessage, record)


def test_only_types_of_the_vocabulary_have_a_dict_form() -> None:
    with pytest.raises(TypeError, match="str is not a type of the vocabulary"):
        to_dict("hi")
    with pytest.raises(TypeError, match="int is not a type of the vocabulary"):
        from_dict(int, {})


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_that_no_database_takes_is_refused(number: int) -> None:
    with pytest.raises(MalformedRecord, match="64 bits"):
        from_dict(Tokens, {"input": number})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_float_that_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(MalformedRecord, match="is not a number"):
        from_dict(Cost, {"usd": number})


def test_ids_may_be_written_as_numbers() -> None:
    """Finding C13: other programs write them so."""
    source = from_dict(SessionSource, {"platform": "x", "chat_id": 99, "user_id": 7})
    record = to_dict(message()) | {"id": 12}

    assert (source.chat_id, source.user_id) == ("99", "7")
    assert from_dict(InboundMessage, record).id == "12"
    with pytest.raises(MalformedRecord, match="expected str, got bool"):
        from_dict(SessionSource, {"platform": "x", "chat_id": True})
