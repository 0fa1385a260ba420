"""What is looked up before something of Slack is understood."""

from __future__ import annotations

import pytest

from tests.unit.test_slack_normalise import raw
from turngate.adapters.slack.identity import Chat, Kind
from turngate.adapters.slack.lookup_keys import (
    LookupKeys,
    assistant_thread_in,
    keys_of,
    keys_of_message,
)

ROOT = "1789999000.000500"

ABOUT = {
    "channel": LookupKeys(chat="C1", user="U2", kind=Kind.CHANNEL),
    "channel-thread": LookupKeys(
        chat="C1", thread=ROOT, thread_by="U3", user="U2", kind=Kind.CHANNEL
    ),
    "channel-thread-s-own-beginning": LookupKeys(chat="C1", user="U2", kind=Kind.CHANNEL),
    "channel-mention-as-app-mention": LookupKeys(chat="C1", user="U2"),
    "private-channel": LookupKeys(chat="C2", user="U2", kind=Kind.PRIVATE),
    "dm": LookupKeys(chat="D1", user="U2", kind=Kind.IM),
    "edit": LookupKeys(chat="C1", thread=ROOT, user="U2", kind=Kind.CHANNEL),
    "delete": LookupKeys(chat="C1", thread=ROOT, user="U2", kind=Kind.CHANNEL),
    "reaction": LookupKeys(chat="C1", user="U2"),
    "slash-command": LookupKeys(chat="C1", user="U2"),
    "press": LookupKeys(chat="C1", thread=ROOT, user="U2"),
    "press-on-a-message-without-a-thread": LookupKeys(chat="C1", user="U2"),
    "old-bot": LookupKeys(chat="C1", kind=Kind.CHANNEL),
    "something-else-entirely": None,
}


@pytest.mark.parametrize("name", ABOUT)
def test_the_chat_its_thread_and_the_person_are_looked_up(name: str) -> None:
    assert keys_of(raw(name)["body"]) == ABOUT[name]


def test_a_press_that_names_no_container_happened_in_its_channel() -> None:
    body = raw("press")["body"]
    del body["container"]

    assert keys_of(body) == LookupKeys(chat="C1", thread=ROOT, user="U2")


def test_of_a_history_too() -> None:
    case = raw("history-reply")

    assert keys_of_message(case["message"], case["channel"]) == LookupKeys(
        chat="C1", thread=ROOT, thread_by="U0BOT", user="U2"
    )


def test_a_new_thread_of_the_assistant_s_pane_is_noticed() -> None:
    started = raw("assistant-thread-started")["body"]

    assert assistant_thread_in(started) == LookupKeys(
        chat="D1", thread=ROOT, user="U2", kind=Kind.IM
    )
    assert assistant_thread_in(raw("dm")["body"]) is None


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ({"is_im": True, "is_private": True}, Kind.IM),
        ({"is_mpim": True, "is_private": True, "is_channel": False}, Kind.MPIM),
        ({"is_channel": True, "is_private": True}, Kind.PRIVATE),
        ({"is_group": True}, Kind.PRIVATE),
        ({"is_channel": True, "is_private": False}, Kind.CHANNEL),
        ({"id": "D1"}, Kind.IM),
    ],
)
def test_a_chat_is_of_the_kind_that_slack_says(flags: dict[str, object], kind: Kind) -> None:
    told = {"name": "ops", "topic": {"value": "Everything", "creator": "U2", "last_set": 0}} | flags

    assert Chat.of(told) == Chat(kind=kind, name="ops", topic="Everything")
