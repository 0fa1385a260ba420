"""Which conversation a message belongs to: the table of keys, and the rules below it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from turngate.gateway.domain.messages import ChatType, SessionSource
from turngate.gateway.rules.session_keys import (
    build_session_key,
    owner_of,
    person_apart,
)

DM, GROUP, CHANNEL, THREAD = ChatType.DM, ChatType.GROUP, ChatType.CHANNEL, ChatType.THREAD


def telegram(chat_type: ChatType = DM, chat: str | None = None, **more: str) -> SessionSource:
    return SessionSource(platform="telegram", chat_type=chat_type, chat_id=chat, **more)


def discord(chat_type: ChatType, chat: str, **more: str) -> SessionSource:
    return SessionSource(platform="discord", chat_type=chat_type, chat_id=chat, **more)


def slack(chat_type: ChatType, chat: str, **more: str) -> SessionSource:
    return SessionSource(platform="slack", chat_type=chat_type, chat_id=chat, **more)


TOPIC = telegram(GROUP, "-100", thread_id="17585", user_id="42")
SIGNAL = SessionSource(
    platform="signal", chat_type=GROUP, chat_id="group:abc", user_id="+1555", user_id_alt="uuid-1"
)
SHARED_GROUPS = {"per_user_in_groups": False}
OWN_THREADS = {"per_user_in_threads": True}

TABLE = {
    "dm": (telegram(DM, "99"), {}, "agent:main:telegram:dm:99"),
    "dm with a thread and a user": (
        telegram(DM, "99", thread_id="topic-1", user_id="42"),
        {},
        "agent:main:telegram:dm:99:topic-1",
    ),
    "dm without a chat id": (telegram(user_id="jordan"), {}, "agent:main:telegram:dm:jordan"),
    "dm without a chat id, alternative id": (
        telegram(user_id="primary", user_id_alt="alt"),
        {},
        "agent:main:telegram:dm:alt",
    ),
    "dm with a thread only": (telegram(thread_id="7"), {}, "agent:main:telegram:dm:7"),
    "dm with nothing at all": (telegram(), {}, "agent:main:telegram:dm"),
    "group": (discord(GROUP, "g1", user_id="alice"), {}, "agent:main:discord:group:g1:alice"),
    "group, shared": (
        discord(GROUP, "g1", user_id="alice"),
        SHARED_GROUPS,
        "agent:main:discord:group:g1",
    ),
    "group without a user": (discord(GROUP, "g1"), {}, "agent:main:discord:group:g1"),
    "thread of a group, a session each": (
        TOPIC,
        OWN_THREADS,
        "agent:main:telegram:group:-100:17585:42",
    ),
    "thread of a group, shared": (TOPIC, {}, "agent:main:telegram:group:-100:17585:*"),
    "thread of a shared group": (TOPIC, SHARED_GROUPS, "agent:main:telegram:group:-100:17585"),
    "discord thread": (
        discord(THREAD, "g1", thread_id="t4", user_id="a"),
        {},
        "agent:main:discord:thread:g1:t4:*",
    ),
    "slack channel": (slack(CHANNEL, "C01", user_id="U1"), {}, "agent:main:slack:channel:C01:U1"),
    "slack thread": (
        slack(GROUP, "C01", thread_id="1700000000.0001", user_id="U1"),
        {},
        "agent:main:slack:group:C01:1700000000.0001:*",
    ),
    "thread without a user, a session each": (
        telegram(GROUP, "-100", thread_id="17585"),
        OWN_THREADS,
        "agent:main:telegram:group:-100:17585:*",
    ),
    "thread of a shared group, a session each": (
        TOPIC,
        SHARED_GROUPS | OWN_THREADS,
        "agent:main:telegram:group:-100:17585",
    ),
    "an id with a colon": (SIGNAL, {}, "agent:main:signal:group:group%3Aabc:uuid-1"),
    "another agent": (telegram(DM, "99"), {"agent": "coder"}, "agent:coder:telegram:dm:99"),
    "another account": (
        telegram(DM, "99", account="support"),
        {},
        "agent:main:telegram/support:dm:99",
    ),
}


@pytest.mark.parametrize(("source", "settings", "key"), TABLE.values(), ids=TABLE.keys())
def test_the_table_of_keys(
    source: SessionSource, settings: dict[str, bool | str], key: str
) -> None:
    assert build_session_key(source, **settings) == key


def test_the_alternative_user_id_wins_over_the_user_id() -> None:
    source = discord(GROUP, "g1", user_id="alice", user_id_alt="alice-for-life")

    assert build_session_key(source) == "agent:main:discord:group:g1:alice-for-life"


def test_a_user_whose_first_id_changes_keeps_the_key_by_the_alternative_one() -> None:
    before = discord(GROUP, "g1", user_id="alice", user_id_alt="7")
    after = discord(GROUP, "g1", user_id="alice-renamed", user_id_alt="7")

    assert build_session_key(before) == build_session_key(after)


def test_the_number_12345_and_the_string_12345_are_one_id() -> None:
    number = SessionSource(platform="telegram", chat_type=GROUP, chat_id=12345, user_id=12345)
    string = SessionSource(platform="telegram", chat_type=GROUP, chat_id="12345", user_id="12345")

    assert (
        build_session_key(number)
        == build_session_key(string)
        == "agent:main:telegram:group:12345:12345"
    )


@pytest.mark.parametrize("nothing", [0, "0", "", None], ids=repr)
def test_thread_0_and_an_empty_thread_are_no_thread(nothing: object) -> None:
    source = SessionSource(
        platform="telegram", chat_type=GROUP, chat_id="-100", thread_id=nothing, user_id="42"
    )

    assert build_session_key(source) == "agent:main:telegram:group:-100:42"


def test_a_shared_thread_42_and_user_42_of_one_group_have_different_keys() -> None:
    thread = build_session_key(telegram(GROUP, "-100", thread_id="42"))
    person = build_session_key(telegram(GROUP, "-100", user_id="42"))

    assert thread != person


def test_a_user_whose_id_is_the_mark_of_shared_threads_has_a_key_of_their_own() -> None:
    person = telegram(GROUP, "-100", thread_id="7", user_id="*")
    nobody = telegram(GROUP, "-100", thread_id="7")

    assert (
        build_session_key(person, per_user_in_threads=True)
        == "agent:main:telegram:group:-100:7:%2A"
    )
    assert (
        build_session_key(nobody, per_user_in_threads=True) == "agent:main:telegram:group:-100:7:*"
    )


def test_an_account_other_than_main_adds_itself_and_main_does_not() -> None:
    assert build_session_key(telegram(DM, "99", account="main")) == "agent:main:telegram:dm:99"
    assert (
        build_session_key(telegram(DM, "99", account="sales")) == "agent:main:telegram/sales:dm:99"
    )


def test_a_slash_in_a_platform_is_not_the_slash_before_an_account() -> None:
    platform = SessionSource(platform="x/sales", chat_id="99")
    account = SessionSource(platform="x", account="sales", chat_id="99")

    assert build_session_key(platform) == "agent:main:x%2Fsales:dm:99"
    assert build_session_key(account) == "agent:main:x/sales:dm:99"


@pytest.mark.parametrize(
    "ordinary",
    [
        "-100123",
        "+15551234",
        "1700000000.0001",
        "@ann",
        "a/b",
        "a b",
        "jörg",
        "你好",
        "😀",
        "C01-x_y~z",
        "a=b&c",
    ],
)
def test_an_ordinary_id_stays_as_it_is(ordinary: str) -> None:
    assert build_session_key(telegram(DM, ordinary)) == f"agent:main:telegram:dm:{ordinary}"


@pytest.mark.parametrize(
    ("raw", "encoded"),
    [
        (":", "%3A"),
        ("%", "%25"),
        ("%3A", "%253A"),
        ("*", "%2A"),
        ("a:b:c", "a%3Ab%3Ac"),
        ("a\nb", "a%0Ab"),
        ("\x00", "%00"),
        ("\x1f", "%1F"),
        ("\x7f", "%7F"),
        ("\x85", "%C2%85"),
        ("\x9f", "%C2%9F"),
        ("\ud800", "%ED%A0%80"),
        ("\udfff", "%ED%BF%BF"),
    ],
    ids=ascii,
)
def test_only_what_could_be_mistaken_or_cannot_be_stored_is_percent_encoded(
    raw: str, encoded: str
) -> None:
    assert build_session_key(telegram(DM, raw)) == f"agent:main:telegram:dm:{encoded}"


def test_every_part_that_others_choose_is_encoded() -> None:
    source = SessionSource(
        platform="a:b",
        account="c:d",
        chat_type=GROUP,
        chat_id="e:f",
        thread_id="g:h",
        user_id="i:j",
    )

    key = build_session_key(source, agent="k:l", per_user_in_threads=True)

    assert key == "agent:k%3Al:a%3Ab/c%3Ad:group:e%3Af:g%3Ah:i%3Aj"


def test_labels_scope_and_the_alternative_chat_id_are_not_part_of_a_key() -> None:
    source = telegram(GROUP, "-100", user_id="42")
    dressed = replace(
        source,
        chat_name="Ops",
        user_name="Ann",
        chat_topic="deploys",
        chat_id_alt="-200",
        scope="T1",
    )

    assert build_session_key(dressed) == build_session_key(source)


@pytest.mark.parametrize("thread", [None, "7"])
def test_a_dm_belongs_to_its_person_whatever_the_settings(thread: str | None) -> None:
    source = telegram(DM, "99", user_id="42", thread_id=thread)

    assert person_apart(source, per_user_in_groups=False, per_user_in_threads=False) == "42"


@pytest.mark.parametrize(
    ("source", "in_groups", "in_threads", "owner"),
    [
        (telegram(DM, "99", user_id="42"), False, False, "telegram:42"),
        (telegram(DM, "99", user_id="42", user_id_alt="u-42"), True, False, "telegram:u-42"),
        (telegram(DM, "99"), True, True, None),
        (telegram(GROUP, "-100", user_id="42"), True, False, "telegram:42"),
        (telegram(GROUP, "-100", user_id="42"), False, True, None),
        (telegram(GROUP, "-100"), True, True, None),
        (TOPIC, True, False, None),
        (TOPIC, True, True, "telegram:42"),
        (TOPIC, False, True, None),
        (telegram(DM, "99", user_id="42", account="support"), True, False, "telegram/support:42"),
    ],
    ids=[
        "dm",
        "dm by the alternative id",
        "dm of nobody",
        "own session in a group",
        "shared group",
        "group without a user",
        "shared thread",
        "own session in a thread",
        "thread of a shared group",
        "another account",
    ],
)
def test_a_session_is_owned_by_the_person_who_has_it_alone(
    source: SessionSource, in_groups: bool, in_threads: bool, owner: str | None
) -> None:
    assert owner_of(source, per_user_in_groups=in_groups, per_user_in_threads=in_threads) == owner
