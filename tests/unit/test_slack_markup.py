"""
Markdown as Slack takes it: every word arrives, nobody is called by accident, and nothing is too
long.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.simulators.slack import blocks as block_kit
from tests.simulators.slack.text import calls_everybody, kept, seen
from turngate.adapters.slack.markup import (
    LARGEST_SECTION,
    LONGEST_LABEL,
    marked,
    plain,
    question_blocks,
    size,
    unfinished,
)
from turngate.gateway.domain.outbox import Button

NAMES = {"U1": "ann"}

UGLY = [
    "a * b * c",
    "***x***",
    "[l(1)](http://a.b/c_(d))",
    "````\n```\nx\n```\n````",
    "|a|b\\|c|\n|-|-|\n|1|2|",
    "un**closed",
    "```py\nunclosed <b>",
    "1 < 2 & 3",
    "a <b and c> d",
    "👨‍👩‍👧 **b**",
    "\u202eabc",
    "\n" * 100,
    "😀" * 2049,
    "Vec<String> and <b>tags</b>",
    "`Vec<String>` and `` a`b<c> ``",
    "```\nVec<String>\n```\n<i>after</i>",
    "<#general> and <@somebody>",
    "write &lt; and &amp;lt; for <",
]


def read(markdown: str) -> str:
    """As people would read it, without any formatting."""
    return seen(kept(marked(markdown)), NAMES)


@pytest.mark.parametrize("markdown", UGLY)
def test_ugly_input_arrives_as_it_was_written(markdown: str) -> None:
    assert read(markdown) == markdown


@pytest.mark.parametrize(
    "markdown",
    [
        "1 < 2 & 3",
        "**bold** _i_",
        "if (a<b) x",
        "`Vec<String>`",
        "```\n<p> &lt;\n```",
        "<https://a.b/?c=1&d=2>",
    ],
)
def test_what_needs_no_escape_gets_none(markdown: str) -> None:
    assert marked(markdown) == markdown


def test_a_tag_is_shown_and_not_left_out() -> None:
    assert marked("a <b>c</b>") == "a &lt;b>c&lt;/b>"


def test_a_fence_ends_only_with_a_line_of_its_own() -> None:
    assert marked("```\n``` <c>\n```\n<d>") == "```\n``` <c>\n```\n&lt;d>"
    assert marked("~~~\n```\n<c>\n~~~~\n<d>") == "~~~\n```\n<c>\n~~~~\n&lt;d>"
    assert marked("```inline``` <d>") == "```inline``` &lt;d>"


def test_half_of_a_character_and_nothing_are_replaced() -> None:
    assert marked("half \ud800 of \x00 it") == "half \ufffd of \ufffd it"


@pytest.mark.parametrize(
    "markdown",
    [
        "<!channel> listen",
        "<!here|here> listen",
        "<!everyone>",
        "<!subteam^S1>",
        "`<!channel>`",
        "```\n<!here>\n```",
        "<<!channel>>",
        "``<!channel>`",
        "<!channel\n>",
    ],
)
def test_an_agent_calls_no_crowd(markdown: str) -> None:
    assert not calls_everybody(marked(markdown))
    assert not calls_everybody(plain(markdown))
    assert "<!" not in str(question_blocks(markdown, [])) + str(
        question_blocks(markdown, [], as_plain=True)
    )


def test_a_person_is_called_only_in_the_form_that_the_gateway_writes() -> None:
    assert (
        marked("<@U1> and <@W2>, not <@u1> or <@ann>")
        == "<@U1> and <@W2>, not &lt;@u1> or &lt;@ann>"
    )
    assert plain("<@U1> & <b>") == "<@U1> &amp; &lt;b&gt;"


def test_a_chat_is_mentioned_again_as_it_came() -> None:
    assert marked("see <#C1>, not <#D1>") == "see <#C1>, not &lt;#D1>"
    assert plain("see <#C1> & more") == "see <#C1> &amp; more"


def test_plain_text_has_every_sign() -> None:
    assert seen(plain("1 < 2 & 3 &lt; **x** <i>"), {}) == "1 < 2 & 3 &lt; **x** <i>"


def test_it_is_measured_as_it_is_sent() -> None:
    assert [size("abc"), size("a <b>"), size("😀"), size("\ud800")] == [3, 8, 2, 1]


PIECES = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "`",
        "``",
        "```",
        "~~~",
        "<",
        ">",
        "<b>",
        "<!",
        "<!here>",
        "!",
        "here",
        "<@U1>",
        "&",
        "&lt;",
        "lt;",
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
@example("`x<b>`` y` <c>")
@example("```\na <b>\n``` <c>\n```\n<d>")
@example("> ```\n> <b>")
@example("<!`>")
@example("<a `x`` >")
@example("a `b` <c `d` e>")
def test_what_was_shown_of_a_growing_text_never_changes(text: str) -> None:
    whole = marked(text)

    for end in range(len(text) + 1):
        begun = text[:end]
        assert whole.startswith(marked(begun[: len(begun) - unfinished(begun)])), (end, begun)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_no_text_calls_a_crowd(text: str) -> None:
    assert not calls_everybody(marked(text))
    assert not calls_everybody(plain(text))


def test_only_the_end_of_the_last_line_waits() -> None:
    waits = {
        "": 0,
        "a line\n": 0,
        "a `b` c": 0,
        "a <b": 2,
        "a <b\n": 0,
        "a `b` <c> d": 0,
        "a `b": 2,
        "a `b`": 3,
        "x\n```py": 5,
        "```\na <b": 0,
        "```\na <": 1,
        "a &l": 2,
    }

    assert {text: unfinished(text) for text in waits} == waits


BUTTONS = [Button(label="Yes", nonce="n1"), Button(label="L" * 100, nonce="n2")]


def test_a_question_has_its_text_and_its_buttons() -> None:
    text, row = question_blocks("May I **delete** it?", BUTTONS)

    assert text == {"type": "markdown", "text": "May I **delete** it?"}
    assert [each["value"] for each in row["elements"]] == ["n1", "n2"]
    assert [len(each["text"]["text"]) for each in row["elements"]] == [3, LONGEST_LABEL]


@pytest.mark.parametrize("as_plain", [False, True])
def test_however_long_it_is_slack_takes_it(as_plain: bool) -> None:
    many = [Button(label=f"{n}", nonce=f"n{n}") for n in range(60)]

    blocks = question_blocks("word & <@U1> " * 900, many, as_plain=as_plain)

    block_kit.check(blocks)
    assert [button["value"] for button in block_kit.buttons(blocks)] == [
        each.nonce for each in many
    ]
    assert len({button["action_id"] for button in block_kit.buttons(blocks)}) == 60


def test_plain_sections_hold_all_of_it() -> None:
    text = "word & <@U1>\n" * 100 + "x" * 2 * LARGEST_SECTION + "<@U1> & " * LARGEST_SECTION

    sections = question_blocks(text, [], as_plain=True)

    assert "".join(each["text"]["text"] for each in sections) == plain(text)
    assert not any(each["text"]["text"].endswith(("<", "<@U1", "&am", "&")) for each in sections)
