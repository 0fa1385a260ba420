"""Who is let in."""

from __future__ import annotations

import pytest

from gateway.admission import authorize
from gateway.model import SessionSource


@pytest.mark.parametrize("source", [SessionSource.terminal(), SessionSource.terminal("x"), SessionSource.browser("y")])
def test_whoever_sits_at_this_machine_is_let_in(source: SessionSource) -> None:
    assert authorize(source)


@pytest.mark.parametrize("platform", ["telegram", "discord", "slack", "", "Web", "web ", "webhook"])
def test_everybody_else_is_not(platform: str) -> None:
    assert not authorize(SessionSource(platform=platform, chat_id="cli", user_id="cli"))
