"""Who is let in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.admission import Allowed, authorize
from gateway.model import ChatType, SessionSource


@pytest.mark.parametrize("source", [SessionSource.terminal(), SessionSource.terminal("x"), SessionSource.browser("y")])
def test_whoever_sits_at_this_machine_is_let_in(source: SessionSource) -> None:
    assert authorize(source, ())


@pytest.mark.parametrize("platform", ["telegram", "discord", "slack", "", "Web", "web ", "webhook"])
def test_everybody_else_is_not(platform: str) -> None:
    assert not authorize(SessionSource(platform=platform, chat_id="cli", user_id="cli"), ())


DM = SessionSource(platform="telegram", chat_id="42", user_id="42")
GROUP = SessionSource(platform="telegram", chat_type=ChatType.GROUP, chat_id="-100", user_id="42", scope="9")


def test_a_person_who_is_allowed_is_let_in_for_direct_messages_alone() -> None:
    allowed = (Allowed(platform="telegram", person="42"),)

    assert authorize(DM, allowed)
    assert not authorize(GROUP, allowed)
    assert not authorize(replace(DM, user_id="43"), allowed)
    assert not authorize(replace(DM, platform="discord"), allowed)


def test_a_chat_or_scope_that_is_allowed_lets_everybody_in_there_and_nobody_elsewhere() -> None:
    for allowed in (Allowed(platform="telegram", chat="-100"), Allowed(platform="telegram", scope="9")):
        assert authorize(GROUP, (allowed,))
        assert not authorize(DM, (allowed,))
        assert not authorize(replace(GROUP, chat_id="-200", scope=None), (allowed,))


def test_an_entry_for_one_account_holds_for_that_account() -> None:
    allowed = (Allowed(platform="telegram", account="support", person="42"),)

    assert authorize(replace(DM, account="support"), allowed)
    assert not authorize(DM, allowed)


def test_an_entry_that_names_nobody_lets_nobody_in() -> None:
    nameless = SessionSource(platform="telegram", chat_type=ChatType.GROUP)

    assert not authorize(nameless, (Allowed(platform="telegram"),))
    assert not authorize(replace(nameless, chat_type=ChatType.DM), (Allowed(platform="telegram"),))
