"""
An answer that grows on the terminal: whatever the pieces, in the end everything stands there once.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.tiny_terminal import TinyTerminal
from turngate.gateway.cli.answer_view import (
    AnswerView,
    rest_after,
    split_last_block,
)
from turngate.gateway.domain.agent_events import Tool, ToolStatus

LONG = """Here is a **long** one.

1. First

2. Second
3. Third

```python
def hello() -> None:
    print("hello")
```

| a | b |
|---|---|
| 1 | 2 |

> quoted

The [end](http://127.0.0.1/x) of it.
"""
WORDS = [
    "Here is a long one.",
    "First",
    "Second",
    "Third",
    "def hello() -> None:",
    "quoted",
    "The end (http://127.0",
]


class Screen:
    """A view on a terminal of our own."""

    def __init__(self, height: int = 24) -> None:
        self._output = io.StringIO()
        self.view = AnswerView(
            Console(
                file=self._output,
                force_terminal=True,
                width=60,
                height=height,
                _environ={},
                emoji=False,
            )
        )

    @property
    def text(self) -> str:
        terminal = TinyTerminal()
        terminal.write(self._output.getvalue())
        return terminal.text

    def stream(self, text: str, size: int) -> None:
        for start in range(0, len(text), size):
            self.view.add(text[start : start + size])
            self.view.refresh()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
@pytest.mark.parametrize("height", [3, 8, 24])
def test_everything_stands_there_once_however_it_came(size: int, height: int) -> None:
    screen = Screen(height)
    screen.view.wait()

    screen.stream(LONG, size)
    screen.view.arrived(LONG)
    screen.view.finish()

    assert [screen.text.count(words) for words in WORDS] == [1] * len(WORDS)
    assert [screen.text.index(words) for words in WORDS] == sorted(
        screen.text.index(words) for words in WORDS
    )
    assert "…" not in screen.text
    assert "**" not in screen.text


@pytest.mark.parametrize("height", [1, 2, 5])
def test_a_block_longer_than_the_screen_is_not_repeated(height: int) -> None:
    screen = Screen(height)
    items = [f"item {number:02}" for number in range(40)]

    screen.stream("\n".join(f"- {item}" for item in items), 5)
    screen.view.finish()

    assert [screen.text.count(item) for item in items] == [1] * 40


def test_while_it_grows_the_newest_lines_are_to_be_seen() -> None:
    screen = Screen(height=6)

    screen.stream("\n".join(f"- item {number}" for number in range(20)), 10)

    assert "item 19" in screen.text
    assert "item 3\n" not in screen.text


def test_pieces_are_not_drawn_one_by_one() -> None:
    screen = Screen()

    for _ in range(1000):
        screen.view.add("x ")

    assert screen.view.is_behind
    assert screen.text == ""


def test_an_answer_that_was_not_streamed_is_shown_when_it_arrives() -> None:
    screen = Screen()
    screen.view.wait()

    screen.view.arrived("The *whole* answer")
    screen.view.finish()

    assert screen.text == "The whole answer"


def test_what_the_kept_answer_has_beyond_the_streamed_is_added() -> None:
    screen = Screen()

    screen.stream("The beginning", 4)
    screen.view.arrived("The beginning\n\n*(incomplete: stopped)*")
    screen.view.finish()

    assert screen.text == "The beginning\n\n(incomplete: stopped)"


def test_words_of_the_gateway_do_not_get_between_those_of_the_agent() -> None:
    screen = Screen()

    screen.stream("The answer", 4)
    screen.view.arrived("The conversation before this one ended.")
    screen.view.arrived("The answer")
    screen.view.finish()

    assert screen.text == "The answer\n\nThe conversation before this one ended."


def test_tools_stand_where_they_were_used() -> None:
    screen = Screen()

    screen.stream("Let me look.", 4)
    for status in (ToolStatus.STARTED, ToolStatus.DONE):
        screen.view.tool(Tool(id="t", name="read", title="README\x1b[31m", status=status))
    screen.view.tool(Tool(id="u", name="write", status=ToolStatus.FAILED))
    screen.stream("Found it.", 4)
    screen.view.arrived("Let me look.\n\nFound it.")
    screen.view.finish()

    assert screen.text == "Let me look.\n• read README\ufffd[31m\n✗ write failed\n\nFound it."


@pytest.mark.parametrize(
    ("whole", "streamed", "rest"),
    [
        ("abc", "", "abc"),
        ("abc", "abc", ""),
        ("a b\n\nc d", "a bc", " d"),
        ("a b", " a\nb ", ""),
        ("abc", "abd", None),
        ("ab", "abc", None),
        ("", "", ""),
    ],
)
def test_the_rest_of_an_answer_is_found_blanks_aside(
    whole: str, streamed: str, rest: str | None
) -> None:
    assert rest_after(whole, streamed) == rest


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("", ("", "")),
        ("one line", ("", "one line")),
        ("one\n\ntwo", ("", "one\n\ntwo")),
        ("one\n\ntwo\n", ("one\n", "two\n")),
        ("1. a\n\n2", ("", "1. a\n\n2")),
        ("1. a\n\n2. b\n", ("", "1. a\n\n2. b\n")),
        ("```\na\n\nb\n\nc\n", ("", "```\na\n\nb\n\nc\n")),
        ("a\n```\nb\n```\nc\n", ("a\n```\nb\n```", "c\n")),
    ],
)
def test_only_the_last_block_may_still_change(text: str, split: tuple[str, str]) -> None:
    assert split_last_block(text) == split
