"""What is piped into `turngate chat`: one message, unless a line of it is a command."""

from __future__ import annotations

import io

import pytest

from turngate.gateway.cli.chat_piped import messages_in, read_piped
from turngate.gateway.domain.errors import Refused

COMMANDS = {"new", "help"}


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("hello", ["hello"]),
        ("hello\n", ["hello"]),
        ("\n\nhello\n\nworld\n\n", ["hello\n\nworld"]),
        ("  indented\n", ["  indented"]),
        ("/new\n", ["/new"]),
        ("one\n/new\ntwo\nthree\n", ["one", "/new", "two\nthree"]),
        ("one\n  /NEW title words \n/help\n", ["one", "/NEW title words", "/help"]),
        ("/new\n\n/new\n", ["/new", "/new"]),
        ("/unknown\n", ["/unknown"]),
        (
            "see /new\n/news\n/etc/hosts\n//new\n/new/x",
            ["see /new\n/news\n/etc/hosts\n//new\n/new/x"],
        ),
        ("one\r\n/new\r\ntwo", ["one\r", "/new", "two"]),
        ("\n \n", []),
    ],
)
def test_commands_stand_alone_and_the_rest_stays_together(text: str, messages: list[str]) -> None:
    assert messages_in(text, COMMANDS) == messages


def test_all_of_a_pipe_is_read() -> None:
    assert read_piped(io.BytesIO("grün\n".encode())) == "grün\n"


@pytest.mark.parametrize(
    ("piped", "reason"),
    [
        (b"x" * 10_000_000, "the input has more than 1,048,576 bytes; send less"),
        (b"\x89PNG\r\n\xff\xfe", "not UTF-8 text"),
        (b"", "the input is empty"),
        (b" \n\t\n", "the input is empty"),
    ],
)
def test_what_is_no_message_is_refused_with_the_cure(piped: bytes, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        read_piped(io.BytesIO(piped))
