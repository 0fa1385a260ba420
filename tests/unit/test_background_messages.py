"""What was said to others: bounded in every direction, told once, and only where it was said."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes import message
from turngate.gateway.domain.messages import (
    LONGEST_BACKGROUND_MESSAGE,
    ChatType,
    InboundMessage,
    SessionSource,
)
from turngate.gateway.inbound.background_messages import (
    MOST_CHARACTERS,
    MOST_CHATS,
    BackgroundMessages,
)

CHAT = SessionSource(platform="slack", chat_type=ChatType.CHANNEL, chat_id="C1", user_id="U1")


def said(text: str, id: str = "1", **where: str) -> InboundMessage:  # noqa: A002
    return message(text, id=id, source=replace(CHAT, **where))


def texts(background: BackgroundMessages, at: InboundMessage) -> list[str]:
    return [remark.text for remark in background.take(at)]


def test_the_last_remarks_of_a_place_are_told_once_oldest_first() -> None:
    background = BackgroundMessages(lambda: 2)
    for text in ("one", "two", "three"):
        background.add(said(text))

    assert texts(background, said("bot?")) == ["two", "three"]
    assert texts(background, said("bot?")) == []


def test_another_chat_account_platform_or_thread_is_told_nothing() -> None:
    background = BackgroundMessages(lambda: 5)
    background.add(said("secret"))
    background.add(said("private thread", thread_id="t1"))

    for elsewhere in (
        {"chat_id": "C2"},
        {"account": "work"},
        {"platform": "discord"},
        {"thread_id": "t2"},
    ):
        assert texts(background, said("bot?", **elsewhere)) == []
    assert texts(background, said("bot?")) == ["secret"]
    assert texts(background, said("bot?", thread_id="t1")) == ["private thread"]


def test_a_message_that_begins_a_thread_is_said_in_the_chat_itself() -> None:
    background = BackgroundMessages(lambda: 5)
    background.add(said("the server is down", id="100.1", thread_id="100.1"))

    assert texts(background, said("bot?", id="100.2", thread_id="100.2")) == ["the server is down"]


def test_nothing_is_kept_where_nothing_is_wanted_and_no_empty_remark() -> None:
    nothing, some = BackgroundMessages(lambda: 0), BackgroundMessages(lambda: 5)
    nothing.add(said("hello"))
    some.add(said(" \n"))

    assert texts(nothing, said("bot?")) == texts(some, said("bot?")) == []


def test_it_is_bounded_in_length_in_all_and_in_places() -> None:
    background = BackgroundMessages(lambda: 200)
    for number in range(200):
        background.add(said(f"{number} " + "x" * 10_000))
    for number in range(2 * MOST_CHATS):
        background.add(said("hello", chat_id=f"D{number}"))
    background.add(said("still here", chat_id="D1999"))

    assert len(background._chats) == MOST_CHATS
    assert texts(background, said("bot?")) == []
    for number in range(200):
        background.add(said(f"{number} " + "x" * 10_000))
    kept = texts(background, said("bot?"))
    assert max(map(len, kept)) == LONGEST_BACKGROUND_MESSAGE
    assert sum(map(len, kept)) <= MOST_CHARACTERS
    assert kept[-1].startswith("199 ")
