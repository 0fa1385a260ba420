"""
Canaries: ids, phone numbers and addresses of every shape, put anywhere, never reach an agent, and
always come back.

The text around them is drawn from what real texts have next to an id: punctuation, line breaks,
other scripts, escapes.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.fakes import NOON
from tests.full_length import examples
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Reasoning,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.rules.redaction import Redactor
from turngate.gateway.rules.redaction_rules import SIGN, shapes
from turngate.gateway.rules.stream_restorer import StreamRestorer

KEY = bytes(range(32))
PSEUDONYM = re.compile("(?:user|chat|thread|role|phone|email)_[0-9a-f]{16}")
MODERATE = settings(max_examples=examples(200), deadline=None)

# Everything that patterns look for, next to anything at all.
MARKS = st.sampled_from(
    ["<@", "<#", "<@!", "<@&", "<!subteam^", ">", "|", "tg://user?id=", "telegram:", "telegram/x:"]
)
NUMBERS = st.sampled_from(
    ["+", "＋", "00", "tel:", "(0)", "-", ".", "1", "4915", "12345678", "-1001234567890"]
)
OTHERS = st.sampled_from(
    [
        "user_",
        "chat_0123456789abcdef",
        "@",
        ".com",
        " ",
        "\u00a0",
        "\n",
        "\\n",
        "_",
        "é",
        "王",
        "\ud800",
    ]
)
SNIPPETS = MARKS | NUMBERS | OTHERS
ANY_TEXT = st.lists(SNIPPETS | st.text(st.characters(), max_size=5), max_size=30).map("".join)

digits = st.text("0123456789", min_size=1, max_size=3)
snowflakes = st.integers(10**16, 10**19).map(str)
telegram_ids = st.integers(10**8, 10**13).map(str)
telegram_groups = st.integers(10**9, 10**12).map(lambda number: f"-100{number}")
slack_ids = st.tuples(
    st.sampled_from("UWCGDT"),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=8, max_size=10),
).map("".join)
time_stamps = st.integers(10**9, 2 * 10**9).map(lambda seconds: f"{seconds}.000100")
signal_ids = st.uuids().map(str) | st.integers(10**9, 10**14).map(lambda number: f"+{number}")
IDS = snowflakes | telegram_ids | telegram_groups | slack_ids | time_stamps | signal_ids

GAPS = st.sampled_from(
    ["", "", " ", "-", ".", "/", " (", ") ", "\u00a0", "\u202f", " - ", "－", "（"]
)
FULL_WIDTH = str.maketrans("+0123456789", "＋０１２３４５６７８９")


@st.composite
def phone_numbers(draw: st.DrawFn) -> str:
    """A number of 8 to 15 digits, in groups, as somebody somewhere writes it."""
    lead = draw(st.sampled_from(["+", "00", "tel:", "tel:+"]))
    number = str(draw(st.integers(10**7, 10**15 - 1)))
    written = lead + number[0] + "".join(draw(GAPS) + digit for digit in number[1:])
    return written.translate(draw(st.sampled_from([{}, FULL_WIDTH])))


words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
EMAILS = st.builds("{}.{}+{}@{}.{}".format, words, words, digits, words, words)

# What may touch an id in a text and leaves it an id.
AROUND = st.text(
    st.sampled_from(" \n\t,;!?\"'`*_~()[]{}<>|=&%$§€王é\0"), min_size=1, max_size=4
) | st.sampled_from([" und ", "\\n", "\\t", "\\u00e9", " 你好", "\r\n", " \u202a"])
Canary = tuple[str, list[str]]
# With those whom somebody has to tell: a number or an address is recognised by itself.
CANARIES: st.SearchStrategy[Canary] = IDS.map(lambda found: (found, [found])) | (
    phone_numbers() | EMAILS
).map(lambda found: (found, []))


def redactor(known: list[str]) -> Redactor:
    hide = Redactor(KEY, "telegram", emails=True)
    for person in known:
        hide.user(person)
    return hide


def bare(canary: str) -> str:
    """What must not be left: a `tel:` may stay, the digits after it may not."""
    return canary.removeprefix("tel:")


@MODERATE
@given(text=ANY_TEXT, known=st.lists(IDS, max_size=4))
@example(text="tel:030 12345678 0049 151 1234567", known=[])
@example(text="telegram:12345678:12345678", known=["12345678"])
def test_whatever_was_hidden_comes_back_exactly(text: str, known: list[str]) -> None:
    hide = redactor(known)

    assert hide.restore(hide.redact(text)) == text


@MODERATE
@given(text=ANY_TEXT, known=st.lists(IDS, max_size=4))
@example(text="<@12345678> 12345678", known=[])
@example(text="tg://user?id=1", known=[])
def test_hiding_twice_is_hiding_once(text: str, known: list[str]) -> None:
    hide = redactor(known)
    hidden = hide.redact(text)
    again = Redactor(KEY, "telegram", emails=True, known=hide.known)
    for person in known:
        again.user(person)

    assert again.redact(hidden) == hidden


@MODERATE
@given(canary=CANARIES, before=AROUND, after=AROUND)
def test_no_canary_survives_in_a_text(canary: Canary, before: str, after: str) -> None:
    found, known = canary
    hide = redactor(known)
    text = f"a{before}{found}{after}b"

    hidden = hide.redact(text)

    assert bare(found) not in hidden
    assert hide.restore(hidden) == text


@MODERATE
@given(canary=CANARIES.filter(lambda canary: "@" not in canary[0]), before=AROUND, after=AROUND)
def test_a_number_or_an_id_is_hidden_as_a_whole_and_nothing_around_it(
    canary: Canary, before: str, after: str
) -> None:
    found, known = canary

    hidden = redactor(known).redact(f"a{before}{found}{after}b")

    lead = found[: -len(bare(found))]
    assert PSEUDONYM.sub("", hidden, count=1) == f"a{before}{lead}{after}b"


@MODERATE
@given(
    canary=IDS,
    shape=st.sampled_from(
        ["<@{}>", "<@!{}>", "<@&{}>", "<#{}>", "<@{}|ann>", "<#{}|ops>", "<!subteam^{}>"]
    ),
)
def test_no_canary_survives_in_a_mention_known_or_not(canary: str, shape: str) -> None:
    hide = redactor([])

    hidden = hide.redact(shape.format(canary))

    assert canary not in hidden
    assert hide.restore(hidden) == shape.format(canary)


@MODERATE
@given(
    chat=IDS,
    thread=IDS,
    head=st.sampled_from(["telegram", "telegram/support", "discord", "slack/x-1"]),
)
def test_no_canary_survives_in_a_target(chat: str, thread: str, head: str) -> None:
    hide = redactor([])
    target = f"{head}:{chat}:{thread}"

    hidden = hide.target(target)

    assert chat not in hidden
    assert thread not in hidden
    assert hidden.startswith(f"{head}:chat_")
    assert hide.restore(hidden) == target


@MODERATE
@given(canary=CANARIES, before=AROUND, after=AROUND)
def test_no_canary_survives_in_a_history(canary: Canary, before: str, after: str) -> None:
    found, known = canary
    text = f"a{before}{found}{after}b"
    entries = [
        Entry(
            role=Role.USER,
            content=(Text(text), Media(type=MediaType.FILE, name=text)),
            at=NOON,
            message_id=found,
        ),
        Entry(
            role=Role.ASSISTANT,
            content=(Text(text),),
            at=NOON,
            tool_calls=(
                ToolCall(id="1", name="look", arguments=json.dumps({"q": [text, {text: found}]})),
                ToolCall(id="2", name="look", arguments=text),
            ),
            reasoning=Reasoning(text=text),
        ),
        Entry(
            role=Role.TOOL,
            content=(Text(json.dumps({"out": text}, ensure_ascii=False)),),
            at=NOON,
            tool_call_id="1",
        ),
        *(Entry(role=Role.USER, content=(Text(text),), at=NOON, sender=sender) for sender in known),
    ]

    shown = Redactor(KEY, "telegram", emails=True).history(entries)

    assert bare(found) not in repr(shown)


@MODERATE
@given(canary=CANARIES, before=AROUND, after=AROUND)
def test_no_canary_survives_in_the_preview_of_a_tool(
    canary: Canary, before: str, after: str
) -> None:
    found, known = canary
    preview = json.dumps({"text": f"a{before}{found}{after}b"}, ensure_ascii=False)

    assert bare(found) not in redactor(known).redact(preview)


@MODERATE
@given(chat=IDS, person=IDS, thread=IDS, label=AROUND)
def test_no_canary_survives_in_a_source(chat: str, person: str, thread: str, label: str) -> None:
    name = f"a{label}{person}{label}{chat}{label}{thread}{label}"
    source = SessionSource(
        platform="telegram",
        chat_type=ChatType.GROUP,
        chat_id=chat,
        user_id=person,
        thread_id=thread,
        chat_name=name,
        user_name=name,
        chat_topic=name,
    )

    shown = repr(redactor([]).source(source))

    assert not [canary for canary in (chat, person, thread) if canary in shown]


@MODERATE
@given(one=st.tuples(words, st.text(max_size=5)), other=st.tuples(words, st.text(max_size=5)))
def test_two_people_never_share_a_pseudonym(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other and one[1] and other[1])

    assert Redactor(KEY, one[0]).user(one[1]) != Redactor(KEY, other[0]).user(other[1])


@MODERATE
@given(text=ANY_TEXT)
def test_turning_back_changes_nothing_that_was_not_given_out(text: str) -> None:
    assert redactor(["42"]).restore(text) == text


# Words that touch each other, with and without an end, around something that may or may not be a
# pseudonym.
STREAMED = st.lists(
    st.sampled_from(
        [
            "user_0123456789abcdef",
            "chat_0123456789abcdef",
            "_",
            " ",
            "\\n",
            "\\u0041",
            "a",
            "0",
            "\\",
            "é",
        ]
    )
    | st.integers(230, 280).map(lambda length: "_" * length)
    | st.integers(230, 280).map(lambda length: "a" * length)
    | st.text(max_size=4),
    max_size=12,
).map("".join)


@settings(max_examples=examples(400), deadline=None)
@example(text="user_0123456789abcdef" + "_" * 300, cuts=list(range(400)))
@example(text="_user_0123456789abcdef" + "a" * 300, cuts=list(range(400)))
@example(text="a" * 300 + "user_0123456789abcdef", cuts=list(range(400)))
@example(text="\\nuser_0123456789abcdef" + "_" * 236, cuts=[1])
@given(text=STREAMED, cuts=st.lists(st.integers(0, 600), max_size=40))
def test_a_stream_is_restored_as_the_whole_text_is_however_it_is_cut(
    text: str, cuts: list[int]
) -> None:
    known = {
        "user_0123456789abcdef": "4711",
        "chat_0123456789abcdef": "a-very-long-chat-id-of-somewhere",
    }
    restore = Redactor(KEY, "telegram", known=known).restore
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream = StreamRestorer(restore)

    pieces = [stream.feed(text[start:end]) for start, end in pairwise(at)]

    assert "".join(pieces) + stream.rest() == restore(text)


@MODERATE
@given(text=STREAMED)
def test_a_stream_holds_back_no_more_than_the_end(text: str) -> None:
    stream = StreamRestorer(str)
    shown = ""
    for char in text:
        shown += stream.feed(char)

    assert len(text) - len(shown) <= 300


@settings(max_examples=examples(500), deadline=None)
@given(ANY_TEXT | phone_numbers(), st.booleans())
def test_what_has_no_sign_of_anything_sensitive_has_nothing_sensitive(
    text: str, emails: bool
) -> None:
    if SIGN.search(text) is None:
        assert shapes(frozenset({"telegram", "slack"}), emails).search(text) is None
