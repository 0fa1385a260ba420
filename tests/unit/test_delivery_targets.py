"""The grammar of delivery targets."""

from __future__ import annotations

import pytest

from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import SessionSource
from turngate.gateway.rules.context_prompt import HomeChannel
from turngate.gateway.rules.delivery_targets import Target, read_target

HERE = SessionSource(platform="telegram", chat_id="7", user_id="7")
HOMES = (
    HomeChannel(platform="telegram", chat_id="-100"),
    HomeChannel(platform="telegram", account="support", chat_id="-200"),
)


def target(
    platform: str, account: str, chat: str, thread: str | None = None, *, is_home: bool = False
) -> Target:
    return Target(platform=platform, account=account, chat=chat, thread=thread, is_home=is_home)


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("origin", HERE),
        ("local", SessionSource.terminal()),
        ("telegram", target("telegram", "main", "-100", is_home=True)),
        ("telegram/support", target("telegram", "support", "-200", is_home=True)),
        ("telegram:-100", target("telegram", "main", "-100", is_home=True)),
        ("telegram:42", target("telegram", "main", "42")),
        ("slack:C01:1700000000.0001", target("slack", "main", "C01", "1700000000.0001")),
        ("telegram/support:42", target("telegram", "support", "42")),
    ],
)
def test_a_target_is_a_place(written: str, place: Target | SessionSource) -> None:
    assert read_target(written, HERE, HOMES) == place


@pytest.mark.parametrize(
    "written", ["", "Telegram:1", "telegram:", "telegram:1:2:3", "telegram:1 2", "/etc/passwd"]
)
def test_what_is_no_target_is_refused_with_the_cure(written: str) -> None:
    with pytest.raises(Refused, match="this is no target; write origin"):
        read_target(written, HERE, HOMES)


def test_a_platform_without_a_home_says_so() -> None:
    with pytest.raises(Refused, match="discord has no home; set home:"):
        read_target("discord", HERE, HOMES)
