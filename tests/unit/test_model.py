"""
The vocabulary: what a source is called, which ids are one, how sums add up, and that nothing can be
changed.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from tests.fakes import NOON, dm
from turngate.gateway.domain import (
    agent_events,
    messages,
    outbox,
    session,
    transcript,
    usage,
)
from turngate.gateway.domain.ids import SessionId, SessionKey
from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.domain.session import (
    EndReason,
    Opened,
    ResetNotice,
    Session,
)
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    MediaType,
    Role,
    Text,
)
from turngate.gateway.domain.usage import (
    Cost,
    CostStatus,
    Tokens,
)

VOCABULARY = (messages, transcript, session, agent_events, outbox, usage)
TYPES = [
    thing
    for module in VOCABULARY
    for thing in vars(module).values()
    if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == module.__name__
]


def source(**about: object) -> SessionSource:
    return SessionSource(platform="telegram", **about)


def a_session(**about: object) -> Session:
    about = {"origin": dm(), **about}
    return Session(
        id=SessionId("s"),
        key=SessionKey("k"),
        started_at=NOON,
        last_interaction_at=NOON,
        updated_at=NOON,
        **about,
    )


@pytest.mark.parametrize(
    ("about", "description"),
    [
        ({"user_name": "Ann", "user_id": "42", "chat_id": "99"}, "DM with Ann"),
        ({"user_id": "42", "chat_id": "99"}, "DM with 42"),
        ({"user_id": "42", "user_id_alt": "u-42", "chat_id": "99"}, "DM with u-42"),
        ({"chat_id": "99"}, "DM with 99"),
        ({}, "DM with somebody"),
        ({"user_name": "Ann", "thread_id": "7"}, "DM with Ann, thread: 7"),
        (
            {"chat_type": ChatType.GROUP, "chat_name": "Ops", "thread_id": "7"},
            "group: Ops, thread: 7",
        ),
        ({"chat_type": ChatType.GROUP, "chat_name": "Ops", "chat_id": "-100"}, "group: Ops"),
        ({"chat_type": ChatType.GROUP, "chat_id": "-100", "user_name": "Ann"}, "group: -100"),
        ({"chat_type": ChatType.GROUP}, "group: unknown"),
        ({"chat_type": ChatType.CHANNEL, "chat_name": "news"}, "channel: news"),
        (
            {"chat_type": ChatType.THREAD, "chat_name": "Ops", "thread_id": "t4"},
            "thread: Ops, thread: t4",
        ),
    ],
)
def test_a_source_says_in_words_where_it_is(about: dict[str, object], description: str) -> None:
    assert source(**about).description == description


@pytest.mark.parametrize("terminal", [SessionSource.terminal(), SessionSource.terminal("work")])
def test_the_terminal_is_called_cli_terminal(terminal: SessionSource) -> None:
    assert terminal.description == "CLI terminal"


def test_two_sessions_of_the_terminal_are_two_places() -> None:
    assert SessionSource.terminal("a") != SessionSource.terminal("b")


ID_FIELDS = ["chat_id", "user_id", "thread_id", "user_id_alt", "chat_id_alt", "scope"]


@pytest.mark.parametrize("name", ID_FIELDS)
def test_a_number_and_its_string_are_one_id(name: str) -> None:
    assert source(**{name: 12345}) == source(**{name: "12345"})
    assert getattr(source(**{name: 12345}), name) == "12345"


@pytest.mark.parametrize("name", ID_FIELDS)
def test_an_empty_id_is_none(name: str) -> None:
    assert getattr(source(**{name: ""}), name) is None


@pytest.mark.parametrize("nothing", [0, "0", "", None], ids=repr)
def test_thread_0_is_no_thread(nothing: object) -> None:
    assert source(thread_id=nothing).thread_id is None


def test_an_id_0_other_than_a_thread_is_an_id() -> None:
    assert source(chat_id=0, user_id=0).chat_id == "0"
    assert source(chat_id=0, user_id=0).user_id == "0"


def test_a_negative_number_is_an_id() -> None:
    assert source(chat_id=-100).chat_id == "-100"


def test_a_string_of_another_class_becomes_a_plain_string() -> None:
    assert type(source(chat_id=ChatType.GROUP).chat_id) is str


def test_labels_are_left_as_they_came() -> None:
    labelled = source(chat_name="", user_name="0", chat_topic=" ")

    assert (labelled.chat_name, labelled.user_name, labelled.chat_topic) == ("", "0", " ")


def test_the_person_is_known_by_the_alternative_id_first() -> None:
    assert source(user_id="42", user_id_alt="u-42").participant_id == "u-42"
    assert source(user_id="42").participant_id == "42"
    assert source().participant_id is None


def test_tokens_add_up_kind_by_kind() -> None:
    one = Tokens(input=1, output=2, cache_read=3, cache_write=4)
    other = Tokens(input=10, output=20, cache_read=30, cache_write=40)

    assert one + other == Tokens(input=11, output=22, cache_read=33, cache_write=44)


def test_the_total_of_tokens_is_all_four_together() -> None:
    assert Tokens(input=1, output=20, cache_read=300, cache_write=4000).total == 4321


UNKNOWN, REPORTED, ESTIMATED, PARTIAL = (
    CostStatus.UNKNOWN,
    CostStatus.REPORTED,
    CostStatus.ESTIMATED,
    CostStatus.PARTIAL,
)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (UNKNOWN, UNKNOWN, UNKNOWN),
        (REPORTED, REPORTED, REPORTED),
        (ESTIMATED, ESTIMATED, ESTIMATED),
        (PARTIAL, PARTIAL, PARTIAL),
        (REPORTED, ESTIMATED, ESTIMATED),
        (REPORTED, UNKNOWN, PARTIAL),
        (ESTIMATED, UNKNOWN, PARTIAL),
        (REPORTED, PARTIAL, PARTIAL),
        (ESTIMATED, PARTIAL, PARTIAL),
        (UNKNOWN, PARTIAL, PARTIAL),
    ],
)
def test_a_sum_of_costs_is_as_trustworthy_as_its_weaker_half(
    one: CostStatus, other: CostStatus, both: CostStatus
) -> None:
    first, second = Cost(usd=0.25, status=one), Cost(usd=0.5, status=other)

    assert first + second == Cost(usd=0.75, status=both)
    assert second + first == Cost(usd=0.75, status=both)


def test_a_sum_of_costs_names_the_later_source() -> None:
    assert (Cost(source="agent") + Cost(source="prices")).source == "prices"
    assert (Cost(source="agent") + Cost()).source == "agent"


def test_the_text_of_an_entry_is_its_words_alone() -> None:
    picture = Media(type=MediaType.IMAGE, path="/tmp/cat.png")  # noqa: S108 - a name, not a file
    entry = Entry(role=Role.USER, content=(Text("look"), picture, Text("a cat")), at=NOON)

    assert entry.text == "look\na cat"


@pytest.mark.parametrize(
    "about", [{"messages": 1}, {"archived_through": 1}, {"tokens": Tokens(output=1)}], ids=str
)
def test_an_entry_or_a_token_is_activity(about: dict[str, object]) -> None:
    assert a_session(**about).had_activity


@pytest.mark.parametrize(
    "about", [{}, {"title": "Taxes"}, {"goal": "finish"}, {"last_prompt_tokens": 9}], ids=str
)
def test_without_entries_and_tokens_there_was_no_activity(about: dict[str, object]) -> None:
    assert not a_session(**about).had_activity


def test_what_was_opened_carries_the_notice_of_its_session() -> None:
    notice = ResetNotice(reason=EndReason.IDLE, had_activity=True, previous=SessionId("old"))

    assert Opened(session=a_session(notice=notice), is_new=True).notice == notice


def test_nothing_in_the_vocabulary_can_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        dm().chat_id = "7"  # type: ignore[misc]


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_every_type_is_frozen_and_slotted_and_says_what_it_is(cls: type) -> None:
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)
    assert cls.__doc__
    assert not cls.__doc__.startswith(f"{cls.__name__}(")


@pytest.mark.parametrize(
    "cls", [cls for cls in TYPES if len(fields(cls)) > 1], ids=lambda cls: cls.__name__
)
def test_every_type_with_more_than_one_field_names_them(cls: type) -> None:
    assert all(field.kw_only for field in fields(cls))
