"""
Every kind of event that Discord tells of, and what it means: `tests/golden/discord` has one of
each.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turngate.adapters.discord.channels import Names, channel_from
from turngate.adapters.discord.contents import FileRef
from turngate.adapters.discord.mentions import (
    linked,
    readable,
    without_ids,
)
from turngate.adapters.discord.normalise import (
    HANDLED,
    Me,
    lacks_content,
    normalise,
)
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.serialization import from_dict, to_dict

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "discord").glob("*.json"))
ME = Me(
    id="700000000000000007",
    name="turn_bot",
    account="main",
    roles=frozenset({"600000000000000007"}),
    commands=frozenset({"new", "stop"}),
)
NAMES = Names(
    channels={"800000000000000001": "general"},
    roles={"600000000000000001": "admins", "600000000000000007": "turn_bot"},
)
NOW = datetime.fromtimestamp(1790000030, UTC)


def case(name: str) -> Any:
    return json.loads(next(path for path in GOLDEN if path.stem == name).read_text())


def normalised(case: Any, me: Me = ME, **changes: object) -> InboundMessage | None:
    place = channel_from(case["channel"], guild=case["guild"], parent=case["parent"])
    me = replace(me, threads=case.get("threads", False))
    return normalise(case["event"], case["payload"] | changes, place, me, NOW, NAMES)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_an_event_means_what_it_meant(path: Path) -> None:
    case = json.loads(path.read_text())

    message = normalised(case)

    assert (message and to_dict(message)) == case["message"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_is_written_down_can_be_read_again(path: Path) -> None:
    written = json.loads(path.read_text())["message"]

    assert written is None or to_dict(from_dict(InboundMessage, written)) == written


def test_all_that_is_handled_has_an_example_and_nothing_else_has() -> None:
    assert {json.loads(path.read_text())["event"] for path in GOLDEN} == set(HANDLED)


# What Discord promises of every event; it leaves out the rest, or says null, as it likes.
PROMISED = {
    "id",
    "author",
    "timestamp",
    "channel_id",
    "type",
    "data",
    "message",
    "user_id",
    "message_id",
    "emoji",
    "edited_timestamp",
}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_discord_may_leave_out_is_not_needed(path: Path) -> None:
    told = json.loads(path.read_text())
    optional = set(told["payload"]) - PROMISED

    for name in optional:
        without = {key: value for key, value in told["payload"].items() if key != name}
        assert normalised(told | {"payload": without}) == normalised(told, **{name: None})


def test_what_is_not_handled_means_nothing() -> None:
    assert normalised(case("dm") | {"event": "TYPING_START"}) is None


def test_a_message_is_the_same_event_wherever_it_comes_from() -> None:
    told = case("channel")
    payload = {
        name: value for name, value in told["payload"].items() if name not in ("guild_id", "member")
    }

    live, read = normalised(told), normalised(told | {"payload": payload})

    assert live is not None
    assert live == read


def test_two_changes_of_a_message_are_two_events() -> None:
    first = normalised(case("edit"))
    second = normalised(case("edit"), edited_timestamp="2026-11-10T12:01:00.600000+00:00")

    assert first is not None
    assert second is not None
    assert not set(first.event_ids) & set(second.event_ids)


def test_a_changed_message_that_then_gets_a_picture_is_the_same_event() -> None:
    first = normalised(case("edit"))
    second = normalised(case("edit"), embeds=[{"type": "link", "title": "A"}])

    assert first is not None
    assert second is not None
    assert first.event_ids == second.event_ids


def test_the_account_is_where_it_was_said() -> None:
    message = normalised(case("dm"), replace(ME, account="support"))

    assert message is not None
    assert message.source.account == "support"


def test_a_name_that_is_not_known_is_missing_and_nothing_else() -> None:
    told = case("thread") | {"guild": None, "parent": None}

    message = normalised(told)

    assert message is not None
    assert message.source.chat_name is None
    assert message.source.nameless == from_dict(InboundMessage, told["message"]).source.nameless


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("content-that-was-kept-from-us", True),
        ("channel", False),
        ("sticker", False),
        ("poll", False),
        ("file-of-no-known-kind", False),
        ("forward", False),
        ("joined", False),
        ("components-of-another-bot", False),
    ],
)
def test_a_message_with_nothing_in_it_was_kept_from_us(name: str, lacks: bool) -> None:
    assert lacks_content(case(name)["payload"]) is lacks


def test_a_bot_that_is_still_thinking_keeps_nothing_from_us() -> None:
    thinking = case("answer-of-another-bot-to-a-command")["payload"] | {
        "content": "",
        "flags": 1 << 7,
    }

    assert not lacks_content(thinking)


def test_a_file_can_be_found_again_by_what_is_kept_of_it() -> None:
    message = normalised(case("picture"))

    assert message is not None
    ref = FileRef.read(message.attachments[0].ref or "")
    assert (ref.channel, ref.message) == (message.source.chat_id, message.id)
    assert ref.url == case("picture")["payload"]["attachments"][0]["url"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<t:99999999999999:R>", "<t:99999999999999:R>"),
        ("<t:9999999999999:R>", "<t:9999999999999:R>"),
        ("<t:0>", "1970-01-01 00:00 UTC"),
        ("1 < 2 <@> <#> <:a:>", "1 < 2 <@> <#> <:a:>"),
        ("</ask me:5>", "/ask me"),
    ],
)
def test_what_stands_for_something_is_read_as_words(written: str, read: str) -> None:
    assert readable(written, NAMES, bot=ME.id, bot_name=ME.name) == read


def test_a_title_calls_nobody_by_a_number() -> None:
    asked = "<@7001> ask <@!42> in <#9002> <@&5> :) <:blob:123456789012345678> at <t:0>\nnow"

    assert without_ids(asked) == "ask in :) :blob: at 1970-01-01 00:00 UTC\nnow"


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("ask in #general, please", "ask in <#800000000000000001>, please"),
        (
            "#generals and a#general and http://a.b/#general",
            "#generals and a#general and http://a.b/#general",
        ),
        (
            "`#general` ```\n#general\n``` #general",
            "`#general` ```\n#general\n``` <#800000000000000001>",
        ),
        ("# general", "# general"),
    ],
)
def test_a_channel_that_is_called_by_its_name_can_be_opened(written: str, sent: str) -> None:
    assert linked(written, NAMES, room=2000) == sent


def test_a_name_that_two_channels_have_leads_to_neither() -> None:
    assert (
        linked("#general", Names(channels={"1": "general", "2": "general"}), room=2000)
        == "#general"
    )


def test_a_text_without_room_for_links_stays_as_it_is() -> None:
    assert linked("#general", NAMES, room=20) == "#general"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("</new:1234567890> starts over, did you know?", "new"),
        ("<@700000000000000007> </new:1234567890> starts over", "new"),
        ("<@700000000000000007> /new starts over", "command"),
    ],
)
def test_a_command_that_is_only_mentioned_is_not_carried_out(content: str, kind: str) -> None:
    """Finding C10."""
    message = normalised(case("channel"), content=content)

    assert message is not None
    assert message.kind == kind
    assert message.text.startswith("/new starts over")
