"""
Everything that Slack sends, and what it means: `tests/golden/slack` has one of each, raw and as a
message.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turngate.adapters.slack.identity import (
    BotIdentity,
    Chat,
    EventContext,
    Kind,
)
from turngate.adapters.slack.normalise import (
    from_history,
    moment,
    normalise,
)
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
)
from turngate.gateway.domain.serialization import from_dict, to_dict

FOLDER = Path(__file__).parents[1] / "golden" / "slack"
GOLDEN = sorted(path.name.removesuffix(".raw.json") for path in FOLDER.glob("*.raw.json"))
ME = BotIdentity(
    user="U0BOT",
    bot="B0BOT",
    team="T1",
    account="main",
    commands=frozenset({"new", "stop", "status"}),
)
NOW = datetime.fromtimestamp(1790000030, UTC)


def raw(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((FOLDER / f"{name}.raw.json").read_text())
    return case


def written(name: str) -> dict[str, Any] | None:
    message: dict[str, Any] | None = json.loads((FOLDER / f"{name}.message.json").read_text())
    return message


def known_in(case: dict[str, Any]) -> EventContext:
    known = dict(case["known"])
    chat = known.pop("place", None)
    return EventContext(chat=chat and Chat(**{**chat, "kind": Kind(chat["kind"])}), **known)


def outcome(case: dict[str, Any], me: BotIdentity = ME) -> InboundMessage | None:
    me = replace(me, **case.get("me", {}))
    if "message" in case:
        return from_history(case["message"], case["channel"], me, known_in(case))
    return normalise(case["body"], me, known_in(case), NOW)


@pytest.mark.parametrize("name", GOLDEN)
def test_what_slack_sends_means_what_it_meant(name: str) -> None:
    message = outcome(raw(name))

    assert (message and to_dict(message)) == written(name)


@pytest.mark.parametrize("name", GOLDEN)
def test_what_is_written_down_can_be_read_again(name: str) -> None:
    message = written(name)

    assert message is None or to_dict(from_dict(InboundMessage, message)) == message


def test_a_mention_and_its_message_are_one() -> None:
    mention, message = raw("channel-mention-as-app-mention"), raw("channel-mention-as-app-mention")
    message["body"]["event_id"] = "EvOther"
    message["body"]["event"] |= {"type": "message", "channel_type": "channel"}

    one, other = outcome(mention), outcome(message)

    assert one is not None
    assert other is not None
    assert set(one.event_ids) & set(other.event_ids) == {"message:C1:1790000000.000100"}
    assert one == replace(other, event_ids=one.event_ids)


def test_what_slack_calls_a_mention_calls_the_bot_however_it_is_written() -> None:
    mention = raw("channel-mention-as-app-mention")
    mention["body"]["event"] |= {"text": "hello", "blocks": []}

    message = outcome(mention)

    assert message is not None
    assert message.addressed_to_bot


def test_what_a_history_says_was_said_is_what_the_event_said() -> None:
    told, read = outcome(raw("channel")), outcome(raw("history"))

    assert told is not None
    assert read is not None
    assert read == replace(told, event_ids=read.event_ids)
    assert set(read.event_ids) < set(told.event_ids)


def test_two_changes_of_a_message_are_two_events() -> None:
    edit, again = raw("edit"), raw("edit")
    again["body"]["event_id"] = "EvOther"
    again["body"]["event"]["message"] |= {
        "text": "hello everybody",
        "edited": {"user": "U2", "ts": "1790000006.000000"},
    }

    first, second = outcome(edit), outcome(again)

    assert first is not None
    assert second is not None
    assert not set(first.event_ids) & set(second.event_ids)


def test_the_account_is_where_it_was_said() -> None:
    message = outcome(raw("dm"), replace(ME, account="support"))

    assert message is not None
    assert message.source.account == "support"


def test_an_id_of_another_workspace_is_another_person() -> None:
    stranger, colleague = (
        outcome(raw("shared-channel-stranger")),
        outcome(raw("shared-channel-colleague")),
    )

    assert stranger is not None
    assert colleague is not None
    assert stranger.source.user_id == colleague.source.user_id == colleague.source.participant_id
    assert stranger.source.participant_id != colleague.source.participant_id


def test_an_app_of_a_whole_enterprise_is_meant_by_its_name() -> None:
    case = raw("dm")
    case["body"]["authorizations"] = [
        {"enterprise_id": "E1", "team_id": None, "is_enterprise_install": True}
    ]

    assert outcome(case, replace(ME, enterprise="E1")) is not None
    assert outcome(case) is None


def test_another_workspace_of_the_same_enterprise_is_another_one() -> None:
    case = raw("dm")
    case["body"]["authorizations"] = [
        {"enterprise_id": "E1", "team_id": "T2", "is_enterprise_install": False}
    ]

    assert outcome(case, replace(ME, enterprise="E1")) is None


def test_what_names_no_workspace_is_ours() -> None:
    case = raw("dm")
    del case["body"]["authorizations"], case["body"]["team_id"]

    assert outcome(case) is not None


def test_of_a_press_the_message_says_what_its_container_does_not() -> None:
    case, less = raw("press"), raw("press")
    less["body"]["container"] = {"type": "message"}

    assert outcome(less) == outcome(case)


def test_a_tombstone_alone_says_what_was_deleted() -> None:
    case = raw("delete-of-what-was-answered")
    del case["body"]["event"]["previous_message"]

    message = outcome(case)

    assert message is not None
    assert (message.kind, message.id) == (MessageKind.DELETE, "1790000000.000100")


def test_what_an_event_says_of_its_chat_counts_more_than_what_was_looked_up() -> None:
    case = raw("group-dm") | {"known": {"place": {"kind": "channel"}}}

    message = outcome(case)

    assert message is not None
    assert message.source.chat_type is ChatType.GROUP


def test_a_time_is_read_to_the_microsecond() -> None:
    assert moment("1790000000.000100") == datetime(2026, 9, 21, 14, 13, 20, 100, UTC)
    assert moment("1790000000") == datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
    assert moment("nonsense").year == 1970


def paths(value: object) -> list[list[Any]]:
    """Of everything inside."""
    if isinstance(value, dict):
        return [[key, *rest] for key, inner in value.items() for rest in [[], *paths(inner)]]
    if isinstance(value, list):
        return [[at, *rest] for at, inner in enumerate(value) for rest in [[], *paths(inner)]]
    return []


def broken(case: dict[str, Any], path: list[Any], instead: object) -> dict[str, Any]:
    """The same with something else at that place."""
    copy: dict[str, Any] = json.loads(json.dumps(case))
    inner: Any = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = instead
    return copy


@pytest.mark.parametrize("name", GOLDEN)
def test_whatever_slack_leaves_out_or_changes_nothing_breaks(name: str) -> None:
    """
    What cannot be converted is said to be so, and no value of a wrong type gets into the store
    (finding R6).
    """
    case = raw(name)
    ours = [path for path in paths(case) if path[0] in ("body", "message") and len(path) > 1]

    for path in ours:
        for instead in (None, "", 7, [], {}, ["x"], {"y": 1}):
            with suppress(ValueError):
                message = outcome(broken(case, path, instead))
                assert message is None or is_stored_as_it_is(message)


def is_stored_as_it_is(message: InboundMessage) -> bool:
    written = json.loads(json.dumps(to_dict(message)))
    return from_dict(InboundMessage, written) == message


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message", "text": "words", "user": "U2", "channel": "D1"},
        {"type": "message", "text": "words", "user": "U2", "channel": "D1", "ts": 1790000000.0001},
        {"type": "message", "text": "words", "user": "U2", "channel": "D1", "ts": "9" * 20},
        {"type": {"of": "tomorrow"}, "text": "words", "user": "U2", "channel": "D1"},
        {},
    ],
)
def test_words_that_cannot_be_placed_are_not_passed_over(event: dict[str, object]) -> None:
    case = {"body": {"type": "event_callback", "event": event}, "known": {}}

    with pytest.raises((ValueError, OverflowError)):
        outcome(case)


@pytest.mark.parametrize("subtype", ["of_tomorrow", "file_comment"])
def test_a_subtype_of_tomorrow_keeps_its_words(subtype: str) -> None:
    case = raw("dm")
    case["body"]["event"]["subtype"] = subtype

    message = outcome(case)

    assert message is not None
    assert message.text == "hello"


UNKNOWN_BLOCK = {
    "type": "card_of_tomorrow",
    "block_id": "b7",
    "heading": {"type": "plain_text", "text": "Heading"},
    "body": {"type": "mrkdwn", "text": "*first* &amp; second"},
    "parts": [{"type": "part", "label": "Third", "part_id": "p1"}],
}


def test_blocks_and_elements_of_tomorrow_keep_their_words() -> None:
    """The summary of Slack stands before them, unless they say the same."""
    case = raw("dm")
    elements = [{"type": "text", "text": "Look "}, {"type": "chip", "caption": "Chip", "id": "c1"}]
    section = {"type": "rich_text", "elements": [{"type": "panel", "elements": elements}]}
    case["body"]["event"] |= {"text": "Summary", "blocks": [section, UNKNOWN_BLOCK]}

    message = outcome(case)

    assert message is not None
    for words in ("Summary", "Look ", "Chip", "Heading", "*first* & second", "Third"):
        assert words in message.text
    assert "p1" not in message.text
    assert "card_of_tomorrow" not in message.text


def test_attachments_of_apps_keep_their_blocks_and_fields() -> None:
    case = raw("old-bot-with-attachments-alone")
    case["body"]["event"]["attachments"] = [
        {
            "color": "#ff0000",
            "fallback": "what notifications say",
            "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "Disk full"}}],
            "fields": [{"title": "Host", "value": "db1", "short": True}],
        }
    ]

    message = outcome(case)

    assert message is not None
    assert message.text == "Host: db1\nDisk full"
