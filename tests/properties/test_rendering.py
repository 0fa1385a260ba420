"""
Whatever an agent writes: its parts fit, show something, keep together what belongs together, and
join again.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from hypothesis import assume, example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from turngate.gateway.outbound.rendering import (
    beginning,
    join,
    split,
)
from turngate.gateway.outbound.rendering.blocks import flat_fences, parsed_fences
from turngate.gateway.outbound.rendering.graphemes import is_boundary

Measure = Callable[[str], int]


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def escaped(text: str) -> int:
    return len(html.escape(text))


def without_markup(text: str) -> int:
    return len(re.sub(r"[*_`~\[\]]", "", text))


WORDS = [
    "word",
    "a longer sentence. And another!",
    "**bold**",
    "*it*",
    "***x***",
    "**unclosed",
    "a * b * c",
    "`code`",
    "``a ` b``",
    "[l(1)](http://a.b/c_(d))",
    "![image](http://a.b/c.png 'title')",
    "<https://example.org/a?b=c>",
    "http://example.org/a_b",
    "1 < 2 & 3",
    "&amp;",
    "\\*",
    "\\",
    "👨‍👩‍👧",
    "🇩🇪🇫🇷",
    "👍🏽",
    "e\u0301",
    "한국",
    "각",
    "你好。",
    "\u202eright to left\u202c",
    "\ud800",
    "\ud83d\ude00",
    "\x00",
    "```",
    "~~~",
    "``` ",
    "> ",
    "- ",
    "\t",
    "    ",
    "x" * 70,
]
words = st.sampled_from(WORDS) | st.text(max_size=6)
lines = st.lists(words, max_size=8).map(" ".join)
line_ends = st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\n\n\n", "\r", ""])
openings = st.sampled_from(
    ["```", "```py", "````md", "~~~", "~~~~ sh -x", "  ```js", "```" + "long" * 20]
)
prefixes = st.sampled_from(["", "", "> ", "- ", "  ", "1. ", "> - ", "    ", "10. "])


@st.composite
def code(draw: st.DrawFn) -> str:
    opening, prefix = draw(openings), draw(prefixes)
    rest = re.sub(r"[^>]", " ", prefix)
    inside = draw(
        st.lists(lines | st.sampled_from(["```", "~~~", "    deep", "", "x = 1"]), max_size=12)
    )
    mark = re.search(r"`+|~+", opening)
    closing = draw(st.sampled_from([[mark[0]], [mark[0] + "  "], []])) if mark else []
    return prefix + opening + "\n" + "".join(f"{rest}{line}\n" for line in [*inside, *closing])


tables = st.integers(1, 12).map(
    lambda rows: "| a | b \\| c |\n|---|:-:|\n" + "| one | two |\n" * rows
)
items = st.tuples(prefixes, lines).map("".join)
blocks = st.tuples(lines | items | code() | tables, line_ends).map("".join)
documents = st.lists(blocks, max_size=12).map("".join) | st.text()
limits = st.integers(64, 400)
measures = st.sampled_from([len, utf16, escaped, without_markup])

_PARSER = MarkdownIt("commonmark")


@given(documents, limits, measures)
def test_every_part_fits_and_shows_something(text: str, largest: int, measure: Measure) -> None:
    parts = split(text, largest, measure)

    assert all(measure(part) <= largest for part in parts)
    assert all(part.strip() for part in parts)


@given(documents, limits, measures)
@example("``` ", 64, len)
@example("```\n``` ", 64, len)
@example("~~~ " * 100, 64, len)
def test_joining_gives_the_text_again(text: str, largest: int, measure: Measure) -> None:
    assume(text.strip())
    assume(not has_long_blanks(text, largest, measure))

    assert join(split(text, largest, measure)) == text


@given(documents, limits)
def test_of_blanks_without_end_the_words_are_left(text: str, largest: int) -> None:
    text = text.replace("\n\n", "\n" * 500)

    assert join(split(text, largest, len)).split() == text.split()


@given(
    st.lists(st.lists(lines, max_size=4).map("\n".join) | code(), max_size=8).map("\n\n".join),
    limits,
)
def test_no_part_leaves_code_open(text: str, largest: int) -> None:
    assume(
        not re.search(r"(```|~~~).{16}", text)
    )  # a language that takes a quarter of a part is not repeated
    assume(not has_long_blanks(text, largest, len))

    for part in split(text, largest, len):
        assert not _is_open(part), part


@given(documents, limits, measures)
def test_no_written_character_is_cut(text: str, largest: int, measure: Measure) -> None:
    assume(not re.search(r"\s{8}", text))
    text = text.replace("```", "").replace("~~~", "")
    place = 0
    for part in split(text, largest, measure):
        place += len(part)
        assert is_boundary(text, place)


@given(
    st.lists(
        st.sampled_from(
            [
                "[text](http://a.b/c_(d))",
                "http://a.b/c?d=e",
                "&amp;",
                "<http://a.b>",
                "\\*",
                "w",
                "**w",
                "w**",
                "_w",
                "w_",
            ]
        )
    ),
    limits,
    measures,
)
def test_no_link_and_no_entity_is_cut(pieces: list[str], largest: int, measure: Measure) -> None:
    ends = {0}
    text = ""
    for piece in pieces:
        text += piece + " "
        ends |= {len(text), len(text) - 1}
    place = 0
    for part in split(text, largest, measure):
        place += len(part)
        assert place in ends


@given(st.text())
def test_tiny_limits_still_make_progress(text: str) -> None:
    for largest in (0, 1, 5):
        assert join(split(text, largest, len)).split() is not None


@given(documents, limits, measures)
def test_a_beginning_fits_and_leaves_no_code_open(
    text: str, largest: int, measure: Measure
) -> None:
    shown, count = beginning(text, largest, measure, " …")

    assert measure(shown) <= largest
    assert not _is_open(shown)
    assert count == 0 or text[:count].strip()


@given(
    st.lists(
        lines | st.sampled_from(["```", "```py", "~~~", "  ```", "    ```", "- a", "> b", ""])
    ).map("\n".join)
)
def test_the_short_way_to_find_fences_agrees_with_the_parser(text: str) -> None:
    flat = flat_fences(text)

    assert flat is None or flat == parsed_fences(text)


def has_long_blanks(text: str, largest: int, measure: Measure) -> bool:
    return any(4 * measure(run) >= largest for run in re.findall(r"[\s>]+", text))


def _is_open(part: str) -> bool:
    """Whether the last block of the part is code whose fence is not closed."""
    fences = [token for token in _PARSER.parse(part) if token.type == "fence" and token.map]
    if not fences or not fences[-1].map:
        return False
    last = fences[-1]
    first, after = last.map
    total = len(re.findall(r"\r\n?|\n", part)) + (not part.endswith(("\n", "\r")))
    code_lines = last.content.count("\n") + (not last.content.endswith("\n") and last.content != "")
    return after >= total and after - first - 1 <= code_lines
