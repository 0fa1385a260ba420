"""Markdown in parts: what a cut keeps together, what it adds, and what it never does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from markdown_it import MarkdownIt

from turngate.gateway.outbound.rendering import (
    beginning,
    join,
    parts,
    split,
)
from turngate.gateway.outbound.rendering.blocks import (
    Blocks,
    find_blocks,
    parsed_fences,
)

FAMILY = "👨‍👩‍👧‍👦"
UGLY = [
    "a * b * c",
    "***x***",
    "[l(1)](http://a.b/c_(d))",
    "````md\n```py\nx\n```\n````",
    "| a | b |\n|---|---|\n| x \\| y | z |",
    "**unclosed bold",
    "1 < 2 & 3",
    FAMILY,
    "\ud800 and \udfff",
    "a\x00b",
    "\u202eright to left",
]
ENDLESS = [
    "[",
    "](",
    "[a](",
    "*",
    "**a ",
    "`",
    "` `` ",
    "> ",
    "- ",
    "1. ",
    "(",
    "| a ",
    "<a ",
    "&",
    "\\",
    "x",
    "```\n",
    "~~~ ",
]
ENDLESS += [
    "- a\n",
    "> a\n",
    "> - ```\n",
    "\u0301",
    "🇩🇪",
    "\r",
    "<!--\n",
    "    ",
    "a\n\n",
    "_a",
    "http://a(",
    "| a |\n|-|\n",
]


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def html_of(parts: Sequence[str]) -> list[str]:
    return [MarkdownIt("commonmark").enable("table").render(part) for part in parts]


class TestFitting:
    def test_what_fits_is_one_part(self) -> None:
        assert split("Hello,\n\nyou there.\n", 100, len) == ["Hello,\n\nyou there.\n"]

    def test_nothing_has_no_parts(self) -> None:
        assert split("", 100, len) == []
        assert split(" \n\t ", 100, len) == []

    def test_the_platform_counts_in_its_own_way(self) -> None:
        assert [utf16(sign) for sign in ("😀", "𝄞", "你好", "\ud800")] == [2, 2, 2, 1]
        assert [len(part) for part in split("😀" * 2049, 4096, utf16)] == [2048, 1]

    def test_a_hundred_thousand_line_ends_are_not_sent(self) -> None:
        assert split("\n" * 100_000, 4096, len) == []
        assert [part.split() for part in split("a" + "\n" * 100_000 + "b", 4096, len)] == [
            ["a"],
            ["b"],
        ]

    def test_line_ends_behind_a_full_part_do_not_make_one_of_their_own(self) -> None:
        assert split("x" * 64 + "\n\n", 64, len) == ["x" * 63, "x\n\n"]

    def test_a_limit_below_all_sense_still_comes_to_an_end(self) -> None:
        assert join(split("```py\nab\n```", 0, len)).startswith("```")

    @pytest.mark.parametrize("text", UGLY)
    @pytest.mark.parametrize("measure", [len, utf16])
    def test_ugly_text_arrives_whole(self, text: str, measure: Callable[[str], int]) -> None:
        assert split(text, 4096, measure) == [text]
        assert join(split(f"{text} " * 500, 100, measure)) == f"{text} " * 500

    def test_an_unclosed_fence_is_closed_in_each_part(self) -> None:
        parts = split("```py\n" + "x = 1\n" * 20, 64, len)

        assert all(part.startswith("```py\n") and part.endswith("\n``` ") for part in parts)
        assert join(parts) == "```py\n" + "x = 1\n" * 20


class TestPreferences:
    def test_paragraphs_before_lines(self) -> None:
        text = "a" * 40 + "\n\n" + "b" * 30 + "\n" + "c" * 60

        assert split(text, 100, len) == ["a" * 40 + "\n\n", "b" * 30 + "\n" + "c" * 60]

    def test_no_part_ends_with_a_heading(self) -> None:
        text = "".join(f"## Part {n}\n\n{'Words of it. ' * 40}\n\n" for n in range(20))

        parts = split(text, 1200, len)

        assert join(parts) == text
        assert all(part.startswith("## Part") for part in parts)

    @pytest.mark.parametrize(
        "lead", ["# Findings\n\n", "Findings\n========\n\n", "**Findings**\n\n", "I found:\n\n"]
    )
    def test_what_leads_to_a_list_stays_with_it(self, lead: str) -> None:
        before = "Some words before it. " * 10
        items = "".join(f"- item {n}\n" for n in range(40))

        first, second, *_ = split(f"{before}\n\n{lead}{items}", 270, len)

        assert first.strip() == before.strip()
        assert second.startswith(lead)

    def test_code_is_cut_before_a_line_that_is_indented_least(self) -> None:
        lines = "".join(
            f"def f{n}():\n    if {n}:\n        x = 1\n    return x\n\n" for n in range(20)
        )

        parts = split(f"```python\n{lines}```\n", 300, len)

        assert len(parts) > 3
        assert all(part.startswith("```python\ndef ") for part in parts)

    def test_lines_before_sentences(self) -> None:
        text = "a" * 60 + "\nSome words. And then some more words" + " more" * 9

        assert split(text, 100, len)[0] == "a" * 60 + "\n"

    def test_sentences_before_words(self) -> None:
        assert split("word " * 11 + "end. " + "word " * 20, 100, len)[0] == "word " * 11 + "end. "

    def test_words_before_letters(self) -> None:
        assert split("word " * 30, 99, len)[0] == "word " * 19

    def test_letters_if_there_is_nothing_else(self) -> None:
        assert [len(part) for part in split("x" * 150, 100, len)] == [100, 50]

    def test_indentation_and_blank_lines_are_kept(self) -> None:
        text = "".join(f"- item {number}\n\n    - below it\n\n\n" for number in range(20))

        assert "".join(split(text, 100, len)) == text

    def test_a_part_does_not_begin_with_what_would_be_taken_for_code(self) -> None:
        text = "".join(f"- item {number}\n    - below it\n    - and this\n" for number in range(20))

        assert all(part.startswith("- item") for part in split(text, 100, len))


class TestKeptTogether:
    @pytest.mark.parametrize(
        "piece",
        [
            "[a link of words](http://a.b/c_(d))",
            "![an image](http://a.b/c.png 'with a title')",
            "[a link][by-its-name]",
            "<http://example.org/and/a/path>",
            "http://example.org/a,b.c-and-a-path",
            "**bold words that are long**",
            "*slanted words that are long*",
            "`code with words`",
            "``code ` with a tick``",
            "~~struck words~~",
            FAMILY * 3,
        ],
    )
    def test_a_cut_goes_round_it(self, piece: str) -> None:
        for before in range(40, 64):
            parts = split("x" * (before - 1) + " " + piece + " " + "y" * 40, 64, len)

            assert any(piece in part for part in parts), before

    @pytest.mark.parametrize(
        "piece",
        ["&amp;", "&#x1F600;", "\\*", "**", FAMILY, "🇩🇪", "👍🏽", "e\u0301\u0302", "한", "\r\n"],
    )
    def test_it_is_not_cut_even_without_a_blank_around(self, piece: str) -> None:
        for before in range(50, 64):
            parts = split("x" * before + piece + "y" * 60, 64, len)

            assert any(piece in part for part in parts), before

    def test_a_link_larger_than_a_part_is_cut_all_the_same(self) -> None:
        text = f"see [this](http://a.b/{'c' * 200}) there"

        assert max(map(len, split(text, 64, len))) <= 64
        assert "".join(split(text, 64, len)) == text

    def test_a_letter_with_ten_thousand_marks_is_cut(self) -> None:
        text = "a" + "\u0301" * 10_000

        assert "".join(split(text, 4096, len)) == text
        assert len(split(text, 4096, len)) == 3

    def test_a_table_goes_into_the_next_part_whole(self) -> None:
        table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5

        assert split("x" * 49 + "\n" + table, 100, len) == ["x" * 49 + "\n", table]

    def test_a_table_larger_than_a_part_is_cut_between_rows(self) -> None:
        parts = split("| a | b |\n|---|---|\n" + "| one | two |\n" * 30, 100, len)

        assert all(
            line in ("| a | b |", "|---|---|", "| one | two |")
            for part in parts
            for line in part.splitlines()
        )


class TestFences:
    def test_code_is_closed_and_opened_again_with_its_language(self) -> None:
        parts = split("```python\n" + "x = 1\n" * 20 + "```\n", 64, len)

        assert parts[:2] == ["```python\n" + "x = 1\n" * 8 + "``` "] * 2
        assert parts[2] == "```python\n" + "x = 1\n" * 4 + "```\n"

    def test_a_line_of_code_longer_than_a_part_is_cut(self) -> None:
        text = "```\n" + "x" * 100 + "\n```"

        assert split(text, 64, len) == [
            "```\n" + "x" * 54 + "\n```  ",
            "```\n" + "x" * 46 + "\n```",
        ]
        assert join(split(text, 64, len)) == text

    def test_code_that_fits_is_not_cut(self) -> None:
        code = "```\n" + "x = 1\n" * 8 + "```\n"

        assert split("words\n" * 10 + code, 100, len) == ["words\n" * 10, code]

    def test_a_fence_inside_a_longer_fence_is_code(self) -> None:
        text = "````md\n" + "```py\nx\n```\n" * 10 + "````\n"

        assert all(part.startswith("````md\n") for part in split(text, 64, len))
        assert all(html.count("<pre>") == 1 for html in html_of(split(text, 64, len)))
        assert join(split(text, 64, len)) == text

    @pytest.mark.parametrize("prefix", ["> ", "- ", "1. ", "10. ", "> - ", "- - ", "- > "])
    def test_code_in_lists_and_quotes_stays_code(self, prefix: str) -> None:
        rest = re.sub(r"[^>]", " ", prefix)
        text = f"{prefix}```py\n" + f"{rest}x = 1\n" * 30 + f"{rest}```\n"
        parts = split(text, 100, len)

        assert len(parts) > 2
        assert all(
            html.count('<pre><code class="language-py">x = 1\n') == 1 for html in html_of(parts)
        )
        assert all("`" not in html for html in html_of(parts))
        assert join(parts) == text

    def test_tildes_are_closed_with_tildes(self) -> None:
        assert split("~~~~\n" + "x = 1\n" * 20, 64, len)[0].endswith("\n~~~~ ")

    def test_no_part_holds_a_fence_without_code(self) -> None:
        for words in range(30, 70):
            parts = split("w" * words + "\n```py\n" + "x = 1\n" * 9 + "```\n" + "w" * 30, 64, len)

            assert all("<code" not in html or "x = 1" in html for html in html_of(parts)), words
            assert join(parts) == "w" * words + "\n```py\n" + "x = 1\n" * 9 + "```\n" + "w" * 30

    def test_a_language_that_is_a_novel_is_not_repeated(self) -> None:
        parts = split("```" + "novel " * 6 + "\n" + "x = 1\n" * 20, 64, len)

        assert parts[1].startswith("```\nx = 1\n")

    @pytest.mark.parametrize(
        "end",
        ["``` ", "```  ", "```   ", "```\nx\n```", "```\nx\n``` ", "~~~", "```\nx", "```\nx\n"],
    )
    def test_a_text_that_ends_as_our_parts_do_is_not_mistaken(self, end: str) -> None:
        assert join(split(end, 64, len)) == end
        assert join(split("words " * 30 + "\n" + end, 64, len)) == "words " * 30 + "\n" + end


class TestBeginning:
    def test_all_of_it_if_it_fits(self) -> None:
        assert beginning("Hello there.", 20, len, " …") == ("Hello there. …", 12)

    def test_up_to_a_word(self) -> None:
        assert beginning("Hello there, you all.", 16, len, " …") == ("Hello there, …", 13)


class TestCost:
    @pytest.mark.parametrize("piece", ENDLESS)
    @pytest.mark.parametrize("largest", [2_000, 32_768])
    def test_measuring_and_parsing_grow_with_the_text_alone(
        self, piece: str, largest: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        measured, parsed = [], []

        def measure(text: str) -> int:
            measured.append(len(text))
            return len(text)

        def find(text: str, shift: int) -> Blocks:
            parsed.append(len(text))
            return find_blocks(text, shift)

        # Only counts what passes: the real one does the work.
        monkeypatch.setattr(parts, "find_blocks", find)
        text = (piece * 100_000)[:100_000] + "."
        result = split(text, largest, measure)

        assert max(map(len, result)) <= largest
        assert sum(measured) < 6 * len(text)
        assert sum(parsed) < 3 * len(text)

    def test_the_parser_is_safe_from_deep_nesting(self) -> None:
        assert parsed_fences("> " * 50_000 + "```") == []
