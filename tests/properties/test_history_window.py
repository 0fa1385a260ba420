"""
Whatever a transcript holds, what the agent is shown of it is legal, in order, within budget, and
nothing but it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.fakes import NOON, assistant, user
from tests.full_length import examples
from turngate.gateway.domain.transcript import (
    Block,
    Entry,
    Media,
    MediaType,
    Origin,
    Reasoning,
    Role,
    Text,
    ToolCall,
)
from turngate.gateway.rules.history_window import (
    HistoryRules,
    live_start,
    middle,
    talk_in,
    window,
)
from turngate.gateway.rules.token_estimate import estimate_text_tokens, estimate_tokens

UNAVAILABLE = (Text("[result unavailable]"),)

# Artefacts, near misses and ordinary words, so that lines of any mixture come up.
PIECES = st.sampled_from(
    [
        "",
        " ",
        "\t",
        "hello",
        "你好",
        "[image]",
        "[image: /tmp/x]",
        "[2026-05-04 12:00]",
        "[Calling tool: look(1)]",
        "<tool_call>",
        "{}",
        "</tool_call>",
        "```",
        "````py",
        "~~~",
        "]",
        '[{"type":"text","text":"hi"}]',
        "\n",
        "\n\n",
        "\r\n",
    ]
)
TEXTS = st.lists(PIECES, max_size=10).map("".join) | st.text(max_size=40) | st.just("x" * 300)
PICTURE = Media(type=MediaType.IMAGE, path="/p", name="n")
CONTENTS: list[tuple[Block, ...]] = [
    (),
    (Text(""),),
    (Text("[image]"),),
    (PICTURE,),
    (Text("look"), PICTURE, Text(" ")),
    (Text("[2026-05-04 12:00] hi\n[image: /tmp/x]\nbye"), Text("again")),
    (Text('[{"type":"text","text":"hi"}]'),),
    (Text("x" * 300),),
    (Text("hello"),),
    (Text("你好"),),
]
CALLS = [
    (),
    *(tuple(ToolCall(id=id_, name="look") for id_ in ids) for ids in ("a", "ab", "bc", "aa")),
]
# Mostly what a store holds; calls and reasoning also where they do not belong.
ENTRIES = st.sampled_from(
    [
        Entry(
            role=role,
            origin=origin,
            content=content,
            at=NOON,
            tool_calls=calls,
            tool_call_id=id_,
            reasoning=thought,
        )
        for role, id_ in [(Role.USER, None), (Role.ASSISTANT, None), (Role.SYSTEM, None)]
        + [(Role.TOOL, id_) for id_ in "abc"]
        for origin in [*[Origin.CHAT] * 6, Origin.COMMAND, Origin.DELIVERY, Origin.SUMMARY]
        for content in CONTENTS
        for calls in CALLS
        for thought in (None, Reasoning(text="because", signature="s"))
    ]
)
RULES = st.builds(
    HistoryRules,
    messages=st.integers(0, 30),
    tokens=st.integers(0, 600),
    threshold=st.sampled_from([0.5, 0.9, 1.0, 2.0]),
    keep_recent=st.integers(0, 6),
    headroom=st.sampled_from([0.25, 0.75]),
)
MARKS = st.integers(-1, 40)
PROMPTS = st.sampled_from([0, 0, 10, 100, 1000])


def numbered(entries: Sequence[Entry]) -> list[Entry]:
    return [
        replace(entry, seq=seq, at=NOON + timedelta(minutes=seq))
        for seq, entry in enumerate(entries, start=1)
    ]


TRANSCRIPTS = st.lists(ENTRIES, max_size=35).map(numbered)
# Nearly all of these have something that a summary may replace.
LONG_TRANSCRIPTS = st.lists(ENTRIES, min_size=20, max_size=35).map(numbered)
moderate = settings(max_examples=examples(200), deadline=None)


def is_user_turn(entry: Entry) -> bool:
    return entry.role is Role.USER and entry.origin not in (Origin.COMMAND, Origin.SUMMARY)


def starts_legally(entries: Sequence[Entry]) -> bool:
    """
    A user turn comes first; before it at most one summary and one delivery. Without one, nothing
    more than those.
    """
    lead = next((at for at, entry in enumerate(entries) if is_user_turn(entry)), len(entries))
    origins = [entry.origin for entry in entries[:lead] if entry.role is not Role.TOOL]
    return origins in ([], [Origin.SUMMARY], [Origin.DELIVERY], [Origin.SUMMARY, Origin.DELIVERY])


def calls_are_answered(entries: Sequence[Entry]) -> bool:
    """
    Right after each entry come the results of its calls, one per call, and no other result is
    anywhere.
    """
    waiting: set[str] = set()
    for entry in entries:
        if entry.role is Role.TOOL:
            if entry.tool_call_id not in waiting:
                return False
            waiting.remove(entry.tool_call_id)
        elif waiting:
            return False
        elif entry.role is Role.ASSISTANT:
            waiting = {call.id for call in entry.tool_calls}
    return not waiting


def without_stand_ins(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.content != UNAVAILABLE]


@moderate
@given(TRANSCRIPTS, RULES, MARKS, PROMPTS)
def test_a_window_starts_legally(
    entries: list[Entry], rules: HistoryRules, mark: int, prompt: int
) -> None:
    assert starts_legally(window(entries, rules, mark=mark, prompt_tokens=prompt).entries)


@moderate
@given(TRANSCRIPTS, RULES, MARKS, PROMPTS)
def test_every_call_has_one_result_and_every_result_its_call(
    entries: list[Entry], rules: HistoryRules, mark: int, prompt: int
) -> None:
    assert calls_are_answered(window(entries, rules, mark=mark, prompt_tokens=prompt).entries)


@moderate
@given(TRANSCRIPTS, RULES, PROMPTS)
def test_a_window_is_within_budget_or_is_one_user_turn(
    entries: list[Entry], rules: HistoryRules, prompt: int
) -> None:
    """Over budget, only the nearest user turn is shown, and nothing beside it."""
    found = window(entries, rules, prompt_tokens=prompt)
    latest = [
        entry.seq
        for entry in window(entries, replace(rules, tokens=10**6)).entries
        if is_user_turn(entry)
    ][-1:]
    is_within = found.tokens <= max(0, rules.tokens - prompt)
    assert found.tokens == sum(map(estimate_tokens, found.entries))
    assert is_within or [entry.seq for entry in found.entries] == latest


@moderate
@given(TRANSCRIPTS, RULES, PROMPTS)
def test_what_the_budget_left_out_is_counted(
    entries: list[Entry], rules: HistoryRules, prompt: int
) -> None:
    found = window(entries, rules, prompt_tokens=prompt)
    everything = window(entries, replace(rules, tokens=10**6))
    shown, wanted = without_stand_ins(found.entries), without_stand_ins(everything.entries)
    assert found.left_out == len(wanted) - len(shown)


@moderate
@given(TRANSCRIPTS, RULES, PROMPTS)
def test_the_nearest_user_turn_is_always_shown(
    entries: list[Entry], rules: HistoryRules, prompt: int
) -> None:
    """Thinning, which only knows the first user turn, is kept out of the way."""
    rules = replace(rules, messages=max(1, rules.messages), keep_recent=100)
    visible = [entry.seq for entry in entries if is_user_turn(entry) and window([entry]).entries]
    found = {
        entry.seq
        for entry in window(entries, rules, prompt_tokens=prompt).entries
        if is_user_turn(entry)
    }
    assert found.issuperset(visible[-1:])


@moderate
@given(TRANSCRIPTS, RULES, MARKS, PROMPTS)
def test_nothing_is_reordered_repeated_or_made_up(
    entries: list[Entry], rules: HistoryRules, mark: int, prompt: int
) -> None:
    given_by_seq = {entry.seq: entry for entry in entries}
    shown = without_stand_ins(window(entries, rules, mark=mark, prompt_tokens=prompt).entries)
    order = [entry.seq for entry in shown]
    assert order == sorted(set(order))
    assert all(
        replace(entry, content=(), tool_calls=()) == bare(given_by_seq[entry.seq])
        for entry in shown
    )
    assert all(Origin.COMMAND is not entry.origin for entry in shown)


def bare(entry: Entry) -> Entry:
    return replace(entry, content=(), tool_calls=())


@moderate
@given(TRANSCRIPTS, RULES)
def test_all_but_answers_is_verbatim_with_breadcrumbs_in_place(
    entries: list[Entry], rules: HistoryRules
) -> None:
    given_by_seq = {entry.seq: entry for entry in entries}
    shown = without_stand_ins(window(entries, rules).entries)
    verbatim = [
        entry
        for entry in shown
        if entry.role is not Role.ASSISTANT or entry.origin is Origin.SUMMARY
    ]
    assert all(entry.content == expected_blocks(given_by_seq[entry.seq]) for entry in verbatim)


def expected_blocks(entry: Entry) -> tuple[Text, ...]:
    blocks = [
        block if isinstance(block, Text) else Text(f"[{block.type.value}]")
        for block in entry.content
    ]
    return tuple(block for block in blocks if block.text.strip())


@settings(max_examples=examples(500), deadline=None)
@given(TEXTS)
def test_an_answer_only_ever_loses_lines_and_what_begins_them(text: str) -> None:
    shown = [
        line
        for entry in window([user("hi"), assistant(text)]).entries[1:]
        for line in entry.text.split("\n")
    ]
    given_lines = iter(text.split("\n"))
    assert all(any(given_line.endswith(line) for given_line in given_lines) for line in shown)


@settings(max_examples=examples(500), deadline=None)
@given(TEXTS)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = window([user("hi"), assistant(text)]).entries[1:]
    assert window([user("hi"), *once]).entries[1:] == once


@moderate
@given(st.text(min_size=1).filter(str.strip) | st.just('[{"type":"text","text":"hi"}]'))
def test_whatever_a_user_types_comes_back_as_that_very_entry(text: str) -> None:
    typed = user(text)
    assert window([typed]).entries[0] is typed


@moderate
@given(TEXTS, TEXTS)
def test_more_text_never_costs_less(one: str, other: str) -> None:
    assert estimate_text_tokens(one + other) >= max(
        estimate_text_tokens(one), estimate_text_tokens(other)
    )
    assert estimate_tokens(user(one + other)) >= estimate_tokens(user(one))


@moderate
@given(TRANSCRIPTS, st.integers(0, 40))
def test_the_live_part_is_a_legal_suffix_within_the_cap(entries: list[Entry], cap: int) -> None:
    live = entries[live_start(entries, cap) :]
    users = [entry for entry in entries if is_user_turn(entry)]
    kept_whole = len(entries) <= cap
    begins_well = (
        not live
        or is_user_turn(live[0])
        or is_answered_delivery(live)
        or (not any(map(is_user_turn, live)) and is_no_result(live))
    )
    assert len(live) <= cap
    assert kept_whole or begins_well
    within_cap = users and users[-1] in entries[len(entries) - cap :]
    assert not within_cap or users[-1] in live


def is_answered_delivery(entries: Sequence[Entry]) -> bool:
    return entries[0].origin is Origin.DELIVERY and len(entries) > 1 and is_user_turn(entries[1])


def is_no_result(entries: Sequence[Entry]) -> bool:
    return entries[0].role is not Role.TOOL


@moderate
@given(LONG_TRANSCRIPTS, RULES)
def test_nothing_but_what_is_summarised_disappears(
    entries: list[Entry], rules: HistoryRules
) -> None:
    entries = [entry for entry in entries if entry.origin is not Origin.SUMMARY]
    old, roomy = middle(entries, rules), replace(rules, messages=100, tokens=10**6)
    assume(old)
    mark = old[-1].seq
    summary = replace(user("what was said"), origin=Origin.SUMMARY, seq=100)
    rest = [entry for entry in entries if entry.seq > mark]

    before = window(entries, roomy).entries
    after = window([summary, *rest], roomy, mark=mark).entries

    assert entries == [*old, *rest]
    assert list(after) == [summary, *(entry for entry in before if entry.seq > mark)]


@moderate
@given(LONG_TRANSCRIPTS, RULES)
def test_a_summary_leaves_the_newest_and_stands_for_no_more_than_fits(
    entries: list[Entry], rules: HistoryRules
) -> None:
    entries = [entry for entry in entries if entry.origin not in (Origin.SUMMARY, Origin.COMMAND)]
    old = middle(entries, rules)
    assume(old)
    rest = entries[len(old) :]
    weight = sum(
        estimate_tokens(entry) for entry in old if entry.role is not Role.USER or talk_in([entry])
    )

    assert len(rest) >= rules.keep_recent
    assert is_user_turn(talk_in(rest)[0]) or talk_in(rest)[0].origin is Origin.DELIVERY
    assert weight <= rules.headroom * rules.tokens or old == middle(
        entries, replace(rules, tokens=0)
    )
