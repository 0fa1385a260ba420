"""Server-sent events, however they are cut, ended and broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.gateway.agents.sse import (
    LONGEST_EVENT,
    EventReader,
    EventTooLong,
    ServerEvent,
)


def read(*chunks: bytes) -> list[tuple[str, str]]:
    reader = EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return [(event.name, event.data) for event in [*events, *reader.end()]]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_ending_of_the_standard_is_understood(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: one", b"", b"data: two", b"", b""])

    assert read(stream) == [("a", "one"), ("message", "two")]


def test_lines_of_data_are_joined_and_only_one_blank_is_taken_off() -> None:
    assert read(b"data: one\ndata:  two\ndata\ndata:four\n\n") == [("message", "one\n two\n\nfour")]


def test_comments_keep_alives_ids_and_names_alone_are_no_events() -> None:
    assert read(b": ping\n\n:\n\nid: 7\nretry: 100\n\nevent: nothing\n\ndata: x\n\n") == [
        ("message", "x")
    ]


def test_a_name_counts_for_one_event() -> None:
    assert read(b"event: a\ndata: 1\n\ndata: 2\n\n") == [("a", "1"), ("message", "2")]


def test_a_byte_order_mark_is_no_part_of_the_stream() -> None:
    assert read(b"\xef\xbb\xbfdata: x\n\n") == [("message", "x")]
    assert read(b"\xef", b"\xbb\xbfdata: x\n\n") == [("message", "x")]


def test_an_event_at_the_very_end_counts_without_its_blank_line() -> None:
    assert read(b"data: x") == [("message", "x")]
    assert read(b"data: x\n") == [("message", "x")]


def test_bytes_that_are_no_text_are_replaced_and_cost_nothing_else() -> None:
    assert read(b"data: a\xff\xfeb\n\ndata: c\n\n") == [
        ("message", "a\ufffd\ufffdb"),
        ("message", "c"),
    ]


def test_a_character_that_is_cut_in_two_is_whole_again() -> None:
    whole = "data: 🦊é\n\n".encode()

    assert read(*(whole[at : at + 1] for at in range(len(whole)))) == [("message", "🦊é")]


def test_a_line_of_a_megabyte_is_read_and_one_without_an_end_is_not() -> None:
    assert read(b"data: " + b"x" * 1_000_000 + b"\n\n") == [("message", "x" * 1_000_000)]
    with pytest.raises(EventTooLong):
        read(*[b"x" * 1000] * (LONGEST_EVENT // 1000 + 1))


def test_an_event_of_endless_lines_is_too_long_as_well() -> None:
    with pytest.raises(EventTooLong):
        read(*[b"data:" + b"x" * 1000 + b"\n"] * (LONGEST_EVENT // 1000 + 1))


def test_endless_empty_lines_of_data_are_counted() -> None:
    """Finding R17: they filled memory, in quadratic time, and the turn never ended."""
    with pytest.raises(EventTooLong):
        read(*[b"data:\n"] * (LONGEST_EVENT // 40 + 1))


def test_an_event_of_many_lines_is_whole() -> None:
    ((_, data),) = read(*[b"data: x\n"] * 50_000, b"\n")
    assert data.count("x") == 50_000


def test_any_number_of_events_is_read() -> None:
    reader = EventReader()
    counted = sum(
        len(reader.feed(b"data: " + b"x" * 1000 + b"\n\n")) for _ in range(LONGEST_EVENT // 500)
    )

    assert counted == LONGEST_EVENT // 500


@given(
    st.lists(
        st.sampled_from([b"data: a", b"event: e", b":", b"", b"data", b"\xff", b"\xef\xbb\xbf"])
    ),
    st.data(),
)
def test_it_does_not_matter_where_the_stream_is_cut(
    lines: list[bytes], data: st.DataObject
) -> None:
    ends = [data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])) for _ in lines]
    stream = b"".join(line + end for line, end in zip(lines, ends, strict=True))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [
        stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]

    assert read(*pieces) == read(stream)


def test_an_event_says_what_it_is() -> None:
    assert EventReader().feed(b"event: a\ndata: b\n\n") == [ServerEvent("a", "b")]
