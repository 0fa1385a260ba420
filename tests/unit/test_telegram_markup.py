"""Markdown as Telegram shows it: every word arrives, and the right ones stand out."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turngate.adapters.telegram.markup import (
    Marked,
    marked,
    plain,
    units,
)


def shown(markdown: str) -> tuple[str, list[tuple[str, str]]]:
    """The words, and which of them stand out how."""
    result = marked(markdown, {"7": "Ann 😀"}.get)
    return result.text, [(entity["type"], _covered(result, entity)) for entity in result.entities]


def _covered(result: Marked, entity: dict[str, int]) -> str:
    start, end = entity["offset"], entity["offset"] + entity["length"]
    return result.text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


UGLY = [
    ("a * b * c", "a * b * c", []),
    ("***x***", "x", [("bold", "x"), ("italic", "x")]),
    ("[l(1)](http://a.b/c_(d))", "l(1)", [("text_link", "l(1)")]),
    ("````\n```\nx\n```\n````", "```\nx\n```", [("pre", "```\nx\n```")]),
    ("|a|b\\|c|\n|-|-|\n|1|2|", "a | b|c\n--+----\n1 | 2", [("pre", "a | b|c\n--+----\n1 | 2")]),
    ("un**closed", "un**closed", []),
    ("```py\nunclosed", "unclosed", [("pre", "unclosed")]),
    ("1 < 2 & 3", "1 < 2 & 3", []),
    ("👨‍👩‍👧 **b**", "👨‍👩‍👧 b", [("bold", "b")]),
    ("\u202eabc", "\u202eabc", []),
    ("half \ud800 of it", "half ? of it", []),
]


@pytest.mark.parametrize(("markdown", "text", "entities"), UGLY)
def test_ugly_input_stays_readable(
    markdown: str, text: str, entities: list[tuple[str, str]]
) -> None:
    assert shown(markdown) == (text, entities)


@pytest.mark.parametrize(
    "markdown",
    [
        "Vec<String> and <b>tags</b>",
        "<div>\nhello <i>you</i>\n</div>\n\nafter",
        "a <!-- comment --> b",
        "- item\n  <p>x</p>",
        "<a<b<c>>>",
        "[a]: http://only.a.definition",
    ],
)
def test_what_looks_like_html_is_shown_as_it_was_written(markdown: str) -> None:
    assert shown(markdown)[0].replace("•", "-").split() == markdown.split()


def test_a_link_that_leads_nowhere_is_written_out() -> None:
    assert shown("😀 [here](docs/a.md) **now**") == ("😀 here (docs/a.md) now", [("bold", "now")])


def test_an_agent_calls_nobody_by_name_or_by_a_link_to_a_person() -> None:
    text, entities = shown("**@ann** [you](tg://user?id=7) mail foo@bar.example")

    assert text == "@\u2060ann you (tg://user?id=7) mail foo@bar.example"
    assert entities == [("bold", "@\u2060ann")]


def test_a_person_whom_the_gateway_names_is_called() -> None:
    result = marked("😀 <@7> and <@9>", {"7": "Ann 😀"}.get)

    assert result.text == "😀 Ann 😀 and user 9"
    assert [(entity["url"], _covered(result, entity)) for entity in result.entities] == [
        ("tg://user?id=7", "Ann 😀"),
        ("tg://user?id=9", "user 9"),
    ]


def test_in_code_everything_is_as_it_was_written() -> None:
    assert shown("`@ann <@7> <b>`") == ("@ann <@7> <b>", [("code", "@ann <@7> <b>")])


def test_nothing_is_left_of_blanks_at_both_ends() -> None:
    assert shown("\n\n  **a** 😀 \n") == ("a 😀", [("bold", "a")])


@pytest.mark.parametrize(
    ("text", "count"), [("😀", 2), ("𝄞", 2), ("你好", 2), ("abc", 3), ("😀" * 2049, 4098)]
)
def test_telegram_counts_in_utf_16(text: str, count: int) -> None:
    assert units(text) == marked(text).size == count


@example(">-")
@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.text("*_`~[]()<>#-|!@ \n\t\\&a1é😀", max_size=80)
)
def test_whatever_is_written_every_entity_covers_something_that_is_there(markdown: str) -> None:
    result = marked(markdown)

    assert bool(result.text) == bool(plain(markdown).text)
    for entity in result.entities:
        assert entity["length"] > 0
        assert 0 <= entity["offset"] <= entity["offset"] + entity["length"] <= result.size
        assert _covered(result, entity).strip() or entity["type"] in ("pre", "code")


@given(
    st.lists(st.from_regex(r"\w+", fullmatch=True), min_size=1, max_size=8),
    st.sampled_from(["**", "_", "`", "<", ""]),
)
def test_no_word_gets_lost(words: list[str], mark: str) -> None:
    text = " ".join(f"{mark}{word}{mark}" for word in words)

    assert all(word in marked(text).text for word in words)


GROWING = {
    "list marks": lambda n: "* " * n + "x",
    "dashes": lambda n: "- " * n + "x",
    "numbers": lambda n: "1. " * n + "x",
    "tabs": lambda n: "\t* " * n + "x",
    "lists in quotations": lambda n: "> * " * n + "x",
    "quotations in lists": lambda n: "* > " * n + "x",
    "deeper lines": lambda n: "\n".join("\t" * line + "- - x" for line in range(int(n**0.5))),
    "a wide table": lambda n: f"|{'a' * n}|\n|-|\n" + "|b|\n" * n,
    "a link that is repeated": lambda n: "[a]" * n + "\n\n[a]: x/" + "a" * n,
    "code and names": lambda n: "`@a` @b " * n,
    "dead links": lambda n: "[a](docs/b) " * n,
    "mentions": lambda n: "<@1> " * n,
}


@pytest.mark.parametrize("grow", GROWING.values(), ids=list(GROWING))
def test_no_text_becomes_much_larger_by_its_marks(grow: Callable[[int], str]) -> None:
    """Finding R1: ten kilobytes of list marks became 25 million characters."""
    for count in (9, 100, 3000):
        markdown = grow(count)

        assert len(marked(markdown).text) <= max(4096, 4 * len(markdown))


@pytest.mark.parametrize("grow", GROWING.values(), ids=list(GROWING))
def test_twice_the_text_takes_about_twice_the_time(grow: Callable[[int], str]) -> None:
    """Finding R1: the event loop stood still for seconds. Four times as much may take ten times."""
    short, long = grow(1500), grow(6000)

    assert best_of(3, lambda: marked(long)) < 10 * best_of(3, lambda: marked(short)) + 0.02


def best_of(times: int, act: Callable[[], object]) -> float:
    """The least time of the processor: what else the machine does counts little then."""
    took = []
    for _ in range(times):
        began = time.process_time()
        act()
        took.append(time.process_time() - began)

    return min(took)


def test_a_few_nested_lists_are_still_lists() -> None:
    assert shown("- a\n  - b\n    - c")[0] == "• a\n  • b\n    • c"


@pytest.mark.parametrize("markdown", ["```py\n    indented = 1\n```", "```\n\n  two\n```"])
def test_the_first_line_of_code_keeps_its_indentation(markdown: str) -> None:
    """Findings M2 and C4: Telegram removes blanks only up to the first entity."""
    code = markdown.partition("\n")[2].removesuffix("\n```")

    assert shown(markdown) == (code, [("pre", code)])


def test_there_are_no_more_entities_than_telegram_regards_and_no_address_is_lost() -> None:
    """A low finding of A3: beyond a hundred, formatting is ignored."""
    lines = "\n".join(
        f"- **{line}** [there](https://a.example/{line}) `{line}`" for line in range(99)
    )
    result = marked(lines)
    linked = {entity["url"] for entity in result.entities if entity["type"] == "text_link"}

    assert len(result.entities) == 100
    assert all(
        address in linked or f"({address})" in result.text
        for address in (f"https://a.example/{line}" for line in range(99))
    )
