"""
Every kind of update that Telegram sends, and what it means: `tests/golden/telegram` has one of
each.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turngate.adapters.telegram.normalise import (
    HANDLED,
    Me,
    normalise,
)
from turngate.gateway.domain.messages import InboundMessage
from turngate.gateway.domain.serialization import from_dict, to_dict

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "telegram").glob("*.json"))
ME = Me(id=7, username="turn_bot", account="main", commands=frozenset({"new", "stop"}))
NOW = datetime.fromtimestamp(1790000030, UTC)


def normalised(update: dict[str, object], me: Me = ME) -> InboundMessage | None:
    return normalise(update, me, NOW)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_an_update_means_what_it_meant(path: Path) -> None:
    case = json.loads(path.read_text())

    message = normalised(case["update"])

    assert (message and to_dict(message)) == case["message"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_only_what_is_asked_for_is_handled(path: Path) -> None:
    update = json.loads(path.read_text())["update"]

    assert set(update) - {"update_id"} <= set(HANDLED)


def test_all_that_is_asked_for_is_handled() -> None:
    kinds = {kind for path in GOLDEN for kind in json.loads(path.read_text())["update"]} - {
        "update_id"
    }

    assert kinds == set(HANDLED)


def test_two_changes_of_a_message_within_a_second_are_two_events() -> None:
    update = json.loads(next(path for path in GOLDEN if path.stem == "edit").read_text())["update"]
    again = update | {
        "update_id": 600,
        "edited_message": update["edited_message"] | {"text": "typos"},
    }

    first, second = normalised(update), normalised(again)

    assert first is not None
    assert second is not None
    assert not set(first.event_ids) & set(second.event_ids)


def test_the_account_is_where_it_was_said() -> None:
    case = json.loads(next(path for path in GOLDEN if path.stem == "dm").read_text())

    message = normalised(case["update"], Me(id=7, username="turn_bot", account="support"))

    assert message is not None
    assert message.source.account == "support"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_is_written_down_can_be_read_again(path: Path) -> None:
    written = json.loads(path.read_text())["message"]

    assert written is None or to_dict(from_dict(InboundMessage, written)) == written
