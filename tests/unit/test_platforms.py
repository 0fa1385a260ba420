"""The accounts of the config: who is connected, where home is, and who pays for a library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import specifications
from tests.configs import config_of
from tests.fakes import FrozenClock
from turngate.config.load import load
from turngate.config.platforms import PLATFORMS
from turngate.gateway.daemon.platforms import (
    accounts_called_each_time,
    connected,
    homes_of,
    platforms_of,
)

SLACKS = """
platforms:
  slack:
    - {bot_token: "${T}", app_token: "${T}", home: C1}
    - account: quiet
      bot_token: "${T}"
      receive: {http: {listen: "127.0.0.1:3000", signing_secret: "${T}"}}
      dm_threads: true
      follow_threads: false
"""

BOTS = """
platforms:
  telegram:
    - {token: "${T}", home: -100123}
    - {account: support, token: "${T}"}
    - {account: sales, token: "${T}", home: "42"}
"""
MORE_BOTS = """
  discord:
    - {token: "${T}", home: 9002}
"""


def test_every_home_is_a_target() -> None:
    config = config_of(BOTS, T="canary")

    assert [home.target for home in homes_of(config)] == ["telegram:-100123", "telegram/sales:42"]
    assert platforms_of(config) == ("telegram",)


def test_every_platform_has_its_own_homes() -> None:
    config = config_of(BOTS + MORE_BOTS, T="canary")

    assert [home.target for home in homes_of(config)][-1] == "discord:9002"
    assert platforms_of(config) == ("telegram", "discord")


async def test_each_bot_is_an_adapter_of_its_own() -> None:
    async with connected(config_of(BOTS, T="canary"), FrozenClock()) as accounts:
        assert list(accounts) == [
            ("telegram", "main"),
            ("telegram", "support"),
            ("telegram", "sales"),
        ]
        assert {adapter.platform for adapter in accounts.values()} == {"telegram"}


async def test_every_platform_has_its_own_adapter() -> None:
    async with connected(config_of(BOTS + MORE_BOTS, T="canary"), FrozenClock()) as accounts:
        assert accounts["discord", "main"].platform == "discord"


async def test_without_an_account_nobody_is_connected() -> None:
    config = config_of("log: {level: info}")

    async with connected(config, FrozenClock()) as accounts:
        assert (accounts, platforms_of(config), list(homes_of(config))) == ({}, (), [])


async def test_each_workspace_is_an_adapter_of_its_own() -> None:
    config = config_of(SLACKS, T="canary")

    async with connected(config, FrozenClock()) as accounts:
        assert list(accounts) == [("slack", "main"), ("slack", "quiet")]
        assert {adapter.platform for adapter in accounts.values()} == {"slack"}
    assert [home.target for home in homes_of(config)] == ["slack:C1"]
    assert [*accounts_called_each_time(config)] == [("slack", "quiet")]


def test_the_gateway_alone_imports_no_platform_s_library() -> None:
    look = (
        "import sys, turngate.gateway.daemon.app; print({'aiogram', 'discord', 'slack_bolt'} "
        "& set(sys.modules))"
    )

    result = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True
    )

    assert result.stdout == "set()\n"


@pytest.mark.parametrize(
    ("platform", "emoji", "count"),
    [("telegram", "👀", 0), ("telegram", "🧀", 1), ("slack", "🧀", 0)],
)
def test_a_reaction_that_a_platform_does_not_take_earns_a_warning(
    tmp_path: Path, platform: str, emoji: str, count: int
) -> None:
    """A low finding of A3: it failed silently."""
    account = {
        "telegram": 'token: "${T}"',
        "slack": 'bot_token: "${T}", app_token: "${T}"',
    }[platform]
    file = tmp_path / "turngate.yaml"
    file.write_text(
        f"platforms: {{{platform}: [{{{account}}}]}}\ndelivery: {{reaction: {emoji}}}\n"
    )

    warnings = load(file, environment={"HOME": "/home/ann", "T": "canary"}).warnings

    assert len([each for each in warnings if "delivery.reaction: telegram" in each]) == count


@specifications.NEEDED
def test_the_emoji_that_telegram_takes_are_those_of_its_documentation() -> None:
    """The list of Bot API 10.1: that of 10.3 has lost them."""
    types = specifications.load("telegram-bot-api.json")["types"]
    (field,) = (each for each in types["ReactionTypeEmoji"]["fields"] if each["name"] == "emoji")

    assert PLATFORMS["telegram"].reactions == set(re.findall(r'"([^"]+)"', field["description"]))
