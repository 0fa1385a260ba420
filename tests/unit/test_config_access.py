"""The access section: when the bot answers in groups, and what calls it."""

from __future__ import annotations

import re

import pytest

from tests.configs import config_of, mistakes_in
from turngate.config.access import AccessEntry, Whom
from turngate.config.show import as_yaml

OPS = AccessEntry(platform="telegram", id="-100", whom=Whom.CHAT)

FOR_EVER = "this pattern could take for ever on some messages; repeat single signs only, and seldom"
TABLE = [
    (
        "{direct: open}",
        '1:18: access.direct: "open" is not a choice; '
        "write one of pairing, listed, open-dangerously",
    ),
    (
        "{groups: mentions}",
        '1:18: access.groups: "mentions" is not a choice; did you mean mention?',
    ),
    (
        "{group_modes: {'telegram:12': all}}",
        '1:24: access.group_modes."telegram:12": this is a person; a mode is for a chat, a guild '
        "or a team, "
        "such as telegram:chat:-100123",
    ),
    (
        "{group_modes: {'telegram:chat:-1': maybe}}",
        '1:44: access.group_modes."telegram:chat:-1": "maybe" is not a choice; write one of '
        "mention, all, off",
    ),
    ("{background: -1}", "1:22: access.background: this is too small; write 0 or more"),
    ("{background: 1000}", "1:22: access.background: this is too large; write 200 or less"),
    (
        "{bots: ['discord:guild:9']}",
        "1:17: access.bots[0]: a guild is not a bot; write the ids of the bots one by one",
    ),
    (
        "{wake_words: ['']}",
        "1:23: access.wake_words[0]: this must be a pattern; write words in quotes, such as "
        '"^hey bot"',
    ),
    (
        "{wake_words: [7]}",
        "1:23: access.wake_words[0]: this must be a pattern; write words in quotes, such as "
        '"^hey bot"',
    ),
    (
        "{wake_words: ['hey (bot']}",
        "1:23: access.wake_words[0]: this is not a regular expression (missing ), unterminated "
        "subpattern); "
        "put a \\ before a sign that stands for itself",
    ),
    (
        "{wake_words: ['.*']}",
        "1:23: access.wake_words[0]: this pattern fits an empty message, and so every message; "
        "write groups: all instead",
    ),
    *(
        (f"{{wake_words: ['{pattern}']}}", f"1:23: access.wake_words[0]: {FOR_EVER}")
        for pattern in ("(a+)+b", "(a|a)*b", "(?:a*b)+", "(a?){50}b", "a+b+c+d", "x?a?b?c?d?e")
    ),
    (
        f"{{wake_words: ['{'x' * 201}']}}",
        "1:23: access.wake_words[0]: this pattern is too long; 200 characters are the most",
    ),
]


@pytest.mark.parametrize(("written", "mistake"), TABLE, ids=[written[:40] for written, _ in TABLE])
def test_a_mistake_is_named_with_its_place_and_its_cure(written: str, mistake: str) -> None:
    assert mistakes_in(f"access: {written}") == [f"turngate.yaml:{mistake}"]


@pytest.mark.parametrize(
    "pattern", ["^hey bot", "bot", r"\bbot\b", "(hey|ok),? bot", "[+*?]{2}bot", r"b\+ot", "h.*bot"]
)
def test_a_pattern_that_ends_soon_is_taken_and_fits_small_letters_and_capitals(
    pattern: str,
) -> None:
    (word,) = config_of(f"access: {{wake_words: ['{pattern}']}}").access.wake_words

    assert (word.pattern, bool(word.flags & re.IGNORECASE)) == (pattern, True)


def test_a_chat_has_its_mode_and_off_is_a_word() -> None:
    config = config_of(
        "access: {groups: off, group_modes: {'telegram:chat:-100': off, discord:guild:9: all}}"
    )

    assert config.access.groups == "off"
    assert config.access.group_modes[OPS] == "off"
    assert config_of(as_yaml(config)).access == config.access


SLACKS = (
    "platforms: {slack: [{account: a, bot_token: x, app_token: y}, {account: b, bot_token: "
    "x, app_token: y}]}\n"
)


@pytest.mark.parametrize("written", ["bots: ['slack:U2']", "group_modes: {'slack:chat:C2': all}"])
def test_an_entry_without_a_workspace_is_refused_where_there_are_several(written: str) -> None:
    (mistake,) = mistakes_in(f"{SLACKS}access: {{{written}}}", not_built=())

    assert "which workspace? there are several; write slack/ACCOUNT:" in mistake
