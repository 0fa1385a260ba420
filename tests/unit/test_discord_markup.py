"""Markdown as Discord shows it: every word arrives, and nothing that Discord does not know."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turngate.adapters.discord.markup import (
    LARGEST_TEXT,
    Marked,
    marked,
    plain,
    units,
)
from turngate.gateway.outbound.rendering import split
from turngate.gateway.rules.redaction import Redactor

HIDDEN = "`\u200b`\u200b`"

UGLY = [
    ("a * b * c", "a * b * c"),
    ("***x***", "***x***"),
    ("[l(1)](http://a.b/c_(d))", "[l(1)](http://a.b/c_(d))"),
    ("````\n```\nx\n```\n````", f"```\n{HIDDEN}\nx\n{HIDDEN}\n```"),
    ("|a|b\\|c|\n|-|-|\n|1|2|", "```\na | b|c\n--+----\n1 | 2\n```"),
    ("un**closed", "un**closed"),
    ("```py\nunclosed", "```py\nunclosed\n```"),
    ("1 < 2 & 3", "1 < 2 & 3"),
    ("👨‍👩‍👧 **b**", "👨‍👩‍👧 **b**"),
    ("\u202eabc", "\u202eabc"),
    ("half \ud800 of it", "half ? of it"),
    ("a\0b", "a\ufffdb"),
    ("\n" * 100_000 + "x", "x"),
]


@pytest.mark.parametrize(("markdown", "text"), UGLY)
def test_ugly_input_stays_readable(markdown: str, text: str) -> None:
    assert marked(markdown).text == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# One\n## Two ##\n### Three", "# One\n## Two\n### Three"),
        ("#### Four", "**Four**"),
        ("###### **Six** and more", "**Six and more**"),
        ("#### `a**b`", "`a**b`"),
        ("####", "####"),
        ("#tag", "#tag"),
        ("Title\n=====\ntext", "# Title\ntext"),
        ("Title\n---\ntext", "## Title\ntext"),
        ("To buy:\n-", "To buy:\n-"),
        ("two\nlines\n---", "two\nlines\n──────────"),
        ("- item\n---", "- item\n──────────"),
    ],
)
def test_headings_are_such_as_discord_knows(markdown: str, text: str) -> None:
    assert marked(markdown).text == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("***", "──────────"),
        (">quoted\n>> twice\n>>> thrice", "> quoted\n> twice\n> thrice"),
        ("+ a\n  + b", "- a\n  - b"),
        ("- [ ] todo\n* [x] done", "- ☐ todo\n* ☑ done"),
        ("a - b\n-5 degrees", "a - b\n-5 degrees"),
        ("![a cat](http://a.b/c.png)", "[a cat](http://a.b/c.png)"),
        ('![a cat](http://a.b/c_(d).png "so cute")', "[a cat](http://a.b/c_(d).png)"),
        ("> - ![](http://a.b/c.png)", "> - http://a.b/c.png"),
        ("`![a](b)` \\![a](b)", "`![a](b)` \\![a](b)"),
        ("wow![", "wow!["),
        ("a || b || c, `a || b`, ||secret||", r"a \|\| b \|\| c, `a || b`, ||secret||"),
        ("a\r\nb\rc", "a\nb\nc"),
    ],
)
def test_what_discord_does_not_know_is_written_in_another_way(markdown: str, text: str) -> None:
    assert marked(markdown).text == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("~~~python\nx\n~~~", "```python\nx\n```"),
        ("```{.python}\nx\n```", "```\nx\n```"),
        ("```c++ title=a.cc\nx\n```", "```c++\nx\n```"),
        ("- ```\n  x\n  ```\nafter", "- ```\n  x\n  ```\nafter"),
        ("> ```\n> x\nafter", "> ```\n> x\n> ```\nafter"),
        ("> ```\n> x\n> ```\n> y", "> ```\n> x\n> ```\n> y"),
        ("```one line``` and more", "```one line``` and more"),
        ("```\n#### x\n|a|b|\n|-|-|\n![a](b)\n```", "```\n#### x\n|a|b|\n|-|-|\n![a](b)\n```"),
    ],
)
def test_code_is_as_it_was_written_between_fences_that_discord_knows(
    markdown: str, text: str
) -> None:
    assert marked(markdown).text == text


def test_a_table_stands_in_columns() -> None:
    table = (
        "| Name | Größe | 数 |\n|:--|--:|:-:|\n| **Ann** | `1` | 你好 |\n| [Bob](http://b.c) | "
        "22\nafter"
    )

    assert marked(table).text.split("\n") == [
        "```",
        "Name             | Größe | 数",
        "-----------------+-------+-----",
        "Ann              |     1 | 你好",
        "Bob (http://b.c) |    22 |",
        "```",
        "after",
    ]


def test_in_a_table_the_marks_of_code_are_left_out_and_those_inside_it_are_not() -> None:
    assert "\n__init__ | a * b\n" in marked("|a|b|\n|-|-|\n|`__init__`|a * b|").text


def test_a_table_that_is_too_wide_is_told_row_by_row() -> None:
    table = f"|Name|Story|\n|-|-|\n|Ann|{'long ' * 20}|\n|Bob||"

    assert (
        marked(table).text
        == f"- **Name:** Ann · **Story:** {('long ' * 20).strip()}\n- **Name:** Bob"
    )


def test_a_row_that_is_longer_than_the_head_loses_nothing() -> None:
    assert (
        marked("|a|b|\n|-|-|\n|1|2|3|\n|4|").text
        == "```\na | b |\n--+---+--\n1 | 2 | 3\n4 |   |\n```"
    )


def test_a_person_in_a_table_is_called() -> None:
    result = marked("|who|what|\n|-|-|\n|<@12>|`x`|")

    assert result.text == "- **who:** <@12> · **what:** `x`"
    assert result.users == ("12",)


def test_only_people_are_called_and_each_once() -> None:
    result = marked("<@12> <@13> <@12> <@&14> <#15> @everyone @here")

    assert result.users == ("12", "13")
    assert result.text == "<@12> <@13> <@12> <@&14> <#15> @everyone @here"


def test_a_person_whom_the_agent_names_by_a_pseudonym_is_called() -> None:
    redactor = Redactor(b"k" * 32, "discord")
    pseudonym = redactor.redact("<@400000000000000043> are you there")

    assert "400000000000000043" not in pseudonym
    assert marked(redactor.restore(f"**Yes**, {pseudonym}")).users == ("400000000000000043",)


def test_discord_takes_a_hundred_people_at_most() -> None:
    assert len(marked(" ".join(f"<@{number}>" for number in range(150))).users) == 100


def test_what_is_sent_plainly_is_all_of_it_and_calls_nobody() -> None:
    assert plain("  #### x <@12>\n|a|\n") == Marked("#### x <@12>\n|a|")


@pytest.mark.parametrize(
    ("text", "count"), [("😀", 2), ("𝄞", 2), ("你好", 2), ("abc", 3), ("😀" * 2049, 4098)]
)
def test_a_text_is_counted_in_the_larger_unit(text: str, count: int) -> None:
    assert units(text) == marked(text).size == count


@pytest.mark.parametrize(
    "text",
    [
        "😀" * 2049,
        "|a|b|\n|-|-|\n" + "|x|y|\n" * 900,
        "````\n" + "```\n" * 900 + "````",
        "#### x\n" * 900,
    ],
    ids=["emoji", "table", "fences", "headings"],
)
def test_parts_fit_after_they_were_converted(text: str) -> None:
    parts = split(text, LARGEST_TEXT, lambda part: marked(part).size)

    assert len(parts) > 1
    assert max(marked(part).size for part in parts) <= LARGEST_TEXT


@example("|-|\n|-|")
@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.text("*_`~[]()<>#-|!@ \n\t\\&+=a1é😀", max_size=80)
)
def test_whatever_is_written_something_is_shown(markdown: str) -> None:
    result = marked(markdown)

    assert bool(result.text) == bool(plain(markdown).text)
    assert result.text == result.text.strip()


@given(
    st.lists(st.from_regex(r"[a-z0-9]+", fullmatch=True), min_size=1, max_size=8),
    st.sampled_from(
        ["**", "_", "`", "<", "|", "#### ", "> ", "- [ ] ", "![", "\n", "\n|-|-|\n|", "~~~\n", ""]
    ),
)
def test_no_word_gets_lost(words: list[str], mark: str) -> None:
    text = " ".join(f"{mark}{word}{mark}" for word in words)

    shown = marked(text).text

    assert all(word in shown for word in words)


LONG = 4000
AWKWARD = [
    ("![x](a", " ", "x"),
    ("![x](", "(a)", "x"),
    ("![", "[a]", "x"),
    ("", "![", ""),
    ("", "![x](a ", ""),
    ("", "![x](<a", ""),
    ("![](", "a", ""),
    ("![", "\\]", ""),
    ("|| ", "` ", "||"),
    ("|| ", "`` ` ", "||"),
    ("|| ", "\\`", "||"),
    ("", " ||", " "),
    ("# a", " ", "b"),
    ("# a", " #", "b"),
    ("# ", "#", " b"),
    ("#### ", "**", ""),
    ("", "- ", "x"),
    ("", "-", " x"),
    ("", "_ ", "x"),
    ("", "> ", "x"),
    ("- ", " ", "[ ]"),
    ("", "    ", "x"),
    ("", "\n", "x"),
    ("", "x\n", "---"),
    ("", "x\n\n", "="),
    ("", "```\n", ""),
    ("", "> ```\n", ""),
    ("", "```x`\n", ""),
    ("", "~~~\n```\n", ""),
    ("", "> ~~~\nx\n", ""),
    ("|a|\n|-|\n", "|", "x"),
    ("|a|\n|-|\n|", "b|", "\n|c|"),
    ("", "|a|\n|-|\n", ""),
    ("", "|a", "\n|-"),
    ("", "|*a", "\n|-|"),
    ("|a|\n|", "-", "x|"),
    ("|a|\n", "|:-:", "|"),
    ("|a|\n|-|\n|", "*a ", "|"),
    ("|a|\n|-|\n|", "[a](", "|"),
    ("|a|\n|-|\n|", "\\", "|"),
    ("|a|b|\n|-|-|\n", "|<@1>|\n", ""),
    ("", "<@1> ", ""),
    ("", "<@", ""),
    ("", "😀", ""),
    ("", "\ud800", ""),
    ("", "\r\n", "x"),
]


def time_of(markdown: str) -> float:
    """The shortest of some runs, in seconds of this process."""
    times = []
    for _ in range(4):
        began = time.process_time()
        marked(markdown)
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize(("begins", "again", "ends"), AWKWARD)
def test_a_text_four_times_as_long_takes_four_times_as_long(
    begins: str, again: str, ends: str
) -> None:
    """
    Finding R2: a picture that does not end and backticks in runs of many lengths held up the event
    loop for minutes. Sixteen times as long would be the square.
    """
    count = max(LONG // len(again), 1)

    short, long = (time_of(f"{begins}{again * times * count}{ends}") for times in (1, 4))

    assert long < 9 * short + 0.002


def backticks(longest: int) -> str:
    """Runs of all lengths up to this one."""
    return "||" + " ".join("`" * length for length in range(1, longest))


def table(columns: int, rows: int, name: str = "a") -> str:
    """A wide table with short rows."""
    return "|".join([""] + [name] * columns + [""]) + "\n" + "|-" * columns + "|\n" + "|b|\n" * rows


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (backticks(90), backticks(180)),
        (table(1000, 1000), table(4000, 4000)),
        (table(1, 1000, "n" * 3000), table(1, 4000, "n" * 12000)),
    ],
    ids=["backticks", "wide table", "long name"],
)
def test_neither_do_runs_of_all_lengths_and_tables_of_many_columns(short: str, long: str) -> None:
    """Finding R2. Filling up every row of a wide table took memory by the square as well."""
    assert time_of(long) < 9 * time_of(short) + 0.002
    assert len(marked(long).text) < 3 * len(long)


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("`![a](b)` ![c](d)", "`![a](b)` [c](d)"),
        ("``![a](b) ` `` ![c](d)", "``![a](b) ` `` [c](d)"),
        ("`` ![a](b) `", "`` [a](b) `"),
        ("\\`![a](b)`", "\\`[a](b)`"),
        ("\\![a](b)", "\\![a](b)"),
        ('![a](<b c>) ![d](e "f")', "[a](<b c>) [d](e)"),
        ("![a [b]](c(d)e)", "[a [b]](c(d)e)"),
        ("![](http://x.y)", "http://x.y"),
        ("![a](b c", "![a](b c"),
        ("a || b `a || b`", r"a \|\| b `a || b`"),
        ("# Title # #  ", "# Title #"),
        ("# C#", "# C#"),
    ],
)
def test_pictures_bars_and_headings_are_found_as_before(markdown: str, text: str) -> None:
    assert marked(markdown).text == text


def test_a_table_with_rows_of_other_lengths_keeps_every_cell() -> None:
    shown = marked("|a|b|\n|-|-:|\n|1|\n|2|3|4|").text

    assert shown == "```\na | b |\n--+---+--\n1 |   |\n2 | 3 | 4\n```"
