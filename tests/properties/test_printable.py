"""Whatever somebody writes, the terminal is told nothing but what it shows."""

from __future__ import annotations

import io
import re
import unicodedata

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.tiny_terminal import TinyTerminal
from turngate.gateway.cli.answer_view import AnswerView
from turngate.gateway.cli.printable import printable, printable_line
from turngate.gateway.cli.tables import line, table

BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
TEXTS = st.text(st.characters()) | st.text(
    st.sampled_from("\x1b[]0;m\x07\x9b\u202e\r\n\t ab&#x;|*`>-1.")
).map(str)
SPELLED_OUT = re.compile("&#(?:27|x1[bB]|155|x202[eE]|8238);")


def is_harmful(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char not in "\n\t"
    ) or char in BIDI


@given(TEXTS)
@example("\x1b]0;owned\x07\x9b31m\u202e\ud800\r\n\x7f\x85\u2028")
def test_no_control_and_no_change_of_direction_is_left(text: str) -> None:
    shown = printable(text)

    assert [char for char in shown if is_harmful(char)] == []
    shown.encode()


@given(TEXTS)
def test_what_is_harmless_is_not_touched(text: str) -> None:
    harmless = "".join(char for char in text if not is_harmful(char))

    assert printable(harmless) == harmless


@given(TEXTS)
def test_making_it_printable_again_changes_nothing(text: str) -> None:
    assert printable(printable(text)) == printable(text)


@given(TEXTS)
def test_one_line_is_one_line(text: str) -> None:
    assert len(printable_line(text).splitlines()) <= 1
    assert "\t" not in printable_line(text)


@settings(deadline=None)
@given(
    TEXTS,
    st.sampled_from(
        ["", "&#27;[31m", "&#x202E;", "&#x9b;", "[x](http://\x1b]8;;y)", "`\x1b[2J`", "\t"]
    ),
)
@example("[a](http://127.0.0.1/&#x202E;)", "")
@example("```\n\x1b[31m\n```", "")
def test_an_answer_tells_the_terminal_nothing_but_colours(text: str, more: str) -> None:
    output = io.StringIO()
    view = AnswerView(Console(file=output, force_terminal=True, width=40, height=10, _environ={}))

    view.add(text + more)
    view.refresh()
    view.add(more + text)
    view.finish()

    written = output.getvalue()
    TinyTerminal().write(
        re.sub(r"[\t\u00ad\u200b-\u200d\u2060-\u2064\ufeff\xa0]", " ", _visible(written))
    )
    assert [char for char in written if char in BIDI] == []


def _visible(written: str) -> str:
    """Unassigned and private characters show as boxes; they are no business of this test."""
    boxes = ("Cn", "Co", "Cf", "Zs")
    return "".join(" " if unicodedata.category(char) in boxes else char for char in written)


@settings(deadline=None)
@given(TEXTS)
def test_a_table_tells_the_terminal_nothing_but_colours(text: str) -> None:
    output = io.StringIO()
    console = Console(
        file=output, force_terminal=True, width=40, _environ={}, markup=False, emoji=False
    )
    shown = table("A", "B", flexible="B")
    shown.add_row(line(text), line(text, "dim"))

    console.print(shown)

    TinyTerminal().write(_visible(output.getvalue()))
    assert [char for char in output.getvalue() if char in BIDI] == []
