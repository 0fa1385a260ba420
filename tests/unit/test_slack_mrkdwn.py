"""Slack's own way of writing, as people read it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulators.slack.text import escaped, kept, typed
from turngate.adapters.slack.markup import marked
from turngate.adapters.slack.mrkdwn import to_markdown
from turngate.gateway.rules.redaction import Redactor, new_key

READ = {
    "plain": "plain",
    "1 &lt; 2 &amp; 3 &gt; 1": "1 < 2 & 3 > 1",
    "&amp;lt;": "&lt;",
    "&amp;amp;lt;": "&amp;lt;",
    "&nbsp; &#60;": "&nbsp; &#60;",
    "<@U1> and <@W2|bob>": "<@U1> and <@W2>",
    "<#C1|general> <#C2|> <#C3>": "#general <#C2> <#C3>",
    "<!here> <!channel|channel> <!everyone>": "@here @channel @everyone",
    "<!subteam^S1|@oncall> <!subteam^S2>": "@oncall <!subteam^S2>",
    "<!date^1790000000^{date_short}|Sep 21> <!date^1790000000^{time}>": "Sep 21 <!date^1790000000^{time}>",  # noqa: E501
    "<https://example.org>": "https://example.org",
    "<https://example.org/|example.org>": "https://example.org/",
    "<https://example.org/?a=1&amp;b=2|R&amp;D>": "[R&D](https://example.org/?a=1&b=2)",
    "<mailto:ann@b.example|ann@b.example>": "ann@b.example",
    "<tel:+491234567|+491234567>": "+491234567",
    "Vec<String> <b>": "Vec<String> <b>",
    "<> < > <|>": "<> < > <|>",
}


@pytest.mark.parametrize("mrkdwn", READ)
def test_it_is_read_as_people_see_it(mrkdwn: str) -> None:
    assert to_markdown(mrkdwn) == READ[mrkdwn]


@given(st.text())
def test_what_was_escaped_is_read_as_it_was_typed(text: str) -> None:
    assert to_markdown(escaped(text)) == text


@given(st.text(alphabet="ab &<>;/:.htpslg"))
def test_addresses_in_it_stay_addresses(text: str) -> None:
    assert to_markdown(typed(text)) == text


def test_a_mention_goes_to_an_agent_without_its_id_and_comes_back_as_one() -> None:
    redactor = Redactor(new_key(), "slack")

    shown = redactor.redact(to_markdown("<@U123ABC> &amp; <#C123ABC> and <!subteam^S123ABC>"))
    answer = kept(marked(redactor.restore(shown)))

    assert not any(id_ in shown for id_ in ("U123ABC", "C123ABC", "S123ABC"))
    assert answer == "<@U123ABC> &amp; <#C123ABC> and &lt;!subteam^S123ABC&gt;"
