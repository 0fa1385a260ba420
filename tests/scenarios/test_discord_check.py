"""
What `check --online` finds out about a Discord bot, asked of a server that answers as Discord does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.configs import config_of
from tests.simulators.common import Simulator
from tests.simulators.discord import CHANNEL, GUILD, TOKENS, Discord
from tests.simulators.discord.permissions import BITS
from tests.simulators.running import Remote, in_process
from turngate.adapters.discord.account import Account, Timeouts
from turngate.adapters.discord.check import examine
from turngate.adapters.discord.permissions import (
    allowed_in,
    invitation,
    lacking,
)
from turngate.gateway.daemon import platforms
from turngate.gateway.domain.ports.adapter import Finding

SOON = Timeouts(answer=2.0)
WRONG = "somebody-else"


@pytest.fixture
async def discord() -> AsyncIterator[Remote]:
    async with in_process(Simulator(Discord())) as remote:
        yield remote


async def examined(
    discord: Remote, *, token: str = TOKENS["main"], threads: bool = False
) -> list[Finding]:
    return await examine(
        Account(token=token, api_url=f"{discord.url}/api/v10", threads=threads), SOON
    )


def errors(findings: list[Finding]) -> list[str]:
    return [finding.words for finding in findings if finding.is_error]


def words(findings: list[Finding]) -> str:
    return "\n".join(finding.words for finding in findings)


async def test_a_bot_that_has_all_it_needs_has_no_errors(discord: Remote) -> None:
    findings = await examined(discord, threads=True)

    assert errors(findings) == []
    assert "the token is right" in words(findings)
    assert "sees 1 of 1 channels" in words(findings)
    assert "lacks" not in words(findings)
    assert await discord.violations() == []


async def test_a_wrong_token_is_said_with_the_page_to_open(discord: Remote) -> None:
    found = errors(await examined(discord, token=WRONG))

    assert len(found) == 1
    assert "refuses the token" in found[0]
    assert "https://discord.com/developers/applications" in found[0]
    assert WRONG not in found[0]


async def test_a_bot_that_may_not_read_messages_is_told_where_to_switch_that_on(
    discord: Remote,
) -> None:
    await discord.do("bot", intents=[])

    found = errors(await examined(discord))

    assert len(found) == 1
    assert "Message Content Intent" in found[0]
    assert "/bot" in found[0]


async def test_a_bot_in_no_server_is_invited_by_a_link(discord: Remote) -> None:
    await discord.do("kick", guild=str(GUILD))

    findings = await examined(discord)

    assert errors(findings) == []
    assert "in no server yet; invite it: https://discord.com/oauth2/authorize?client_id=" in words(
        findings
    )


async def test_what_is_not_allowed_in_a_channel_is_said_in_the_words_of_the_settings(
    discord: Remote,
) -> None:
    await discord.do(
        "permissions", chat=str(CHANNEL), deny=["attach_files", "read_message_history"]
    )

    findings = await examined(discord)

    assert "lacks Read Message History, Attach Files" in words(findings)
    assert errors(findings) == []


async def test_channels_that_lack_the_same_are_named_together(discord: Remote) -> None:
    for number in range(8):
        await discord.do("open", chat=f"80{number}", guild=str(GUILD), name=f"room-{number}")
    await discord.do("permissions", guild=str(GUILD), deny=["send_messages"])

    lines = [each.words for each in await examined(discord) if "lacks Send Messages;" in each.words]

    assert len(lines) == 1
    assert "and 4 more" in lines[0]


async def test_a_channel_that_the_bot_does_not_see_is_counted_and_lacks_nothing(
    discord: Remote,
) -> None:
    await discord.do("permissions", chat=str(CHANNEL), deny=["view_channel"])

    findings = await examined(discord)

    assert "sees 0 of 1 channels" in words(findings)
    assert "lacks" not in words(findings)


async def test_threads_need_one_thing_more(discord: Remote) -> None:
    await discord.do("permissions", guild=str(GUILD), deny=["create_public_threads"])

    assert "lacks" not in words(await examined(discord))
    assert "lacks Create Public Threads" in words(await examined(discord, threads=True))


async def test_too_many_starts_are_an_error_before_discord_takes_the_token_away(
    discord: Remote,
) -> None:
    await discord.do("bot", starts_left=7)
    few = await examined(discord)
    await discord.do("bot", starts_left=0)
    none = await examined(discord)

    assert "only 7 of 1000 connections are left" in words(few)
    assert errors(few) == []
    assert "only 0 of 1000 connections are left" in errors(none)[0]


async def test_a_question_that_came_too_soon_is_asked_again(discord: Remote) -> None:
    await discord.fault("429", method="get_own_application", retry_after=0.01)

    assert errors(await examined(discord)) == []


@pytest.mark.parametrize(
    "fault", ["500", "502 html", "html", "garbage", "truncated", "wrong types", "reset"]
)
async def test_a_discord_that_does_not_answer_is_an_error_after_what_was_found(
    discord: Remote, fault: str
) -> None:
    await discord.fault(fault, times=None, method="get_own_application", after=False)

    findings = await examined(discord)

    assert len(errors(findings)) == 1
    assert "the token is right" in findings[0].words


async def test_every_account_of_the_config_is_examined(discord: Remote) -> None:
    await discord.do("bot", account="support", intents=[])
    bots = (
        f'[{{token: "${{MAIN}}", api_url: "{discord.url}/api/v10", threads: true}},'
        f' {{account: support, token: "${{OTHER}}", api_url: "{discord.url}/api/v10"}}]'
    )
    config = config_of(
        f"platforms: {{discord: {bots}}}", MAIN=TOKENS["main"], OTHER=TOKENS["support"]
    )

    found = {account: findings async for account, findings in platforms.examined(config)}

    assert list(found) == [("discord", "main"), ("discord", "support")]
    assert not any(finding.is_error for finding in found["discord", "main"])
    assert [finding.is_error for finding in found["discord", "support"]].count(True) == 1


async def test_an_address_where_nobody_listens_is_an_error() -> None:
    findings = await examine(Account(token=WRONG, api_url="http://127.0.0.1:9/api/v10"), SOON)

    assert len(errors(findings)) == 1


def test_the_invitation_asks_for_exactly_what_is_needed() -> None:
    asked = parse_qs(urlsplit(invitation("123", threads=True)).query)

    granted = int(asked["permissions"][0])
    assert asked["client_id"] == ["123"]
    assert asked["scope"] == ["bot applications.commands"]
    assert lacking(granted, threads=True) == []
    assert sorted(name for name, bit in BITS.items() if granted >> bit & 1) == [
        "add_reactions",
        "attach_files",
        "create_public_threads",
        "embed_links",
        "read_message_history",
        "send_messages",
        "send_messages_in_threads",
        "view_channel",
    ]


SERVER = {
    "id": "9",
    "owner_id": "1",
    "roles": [
        {"id": "9", "permissions": str(1 << 10 | 1 << 11)},
        {"id": "20", "permissions": str(1 << 15)},
        {"id": "21", "permissions": str(1 << 3)},
    ],
}


def said_of(id_: str, kind: int, allow: int = 0, deny: int = 0) -> dict[str, object]:
    return {"id": id_, "type": kind, "allow": str(allow), "deny": str(deny)}


@pytest.mark.parametrize(
    ("roles", "overwrites", "user", "bits"),
    [
        ([], [], "7", 1 << 10 | 1 << 11),
        (["20"], [], "7", 1 << 10 | 1 << 11 | 1 << 15),
        ([], [said_of("9", 0, deny=1 << 11)], "7", 1 << 10),
        (
            ["20"],
            [said_of("9", 0, deny=1 << 11), said_of("20", 0, allow=1 << 11)],
            "7",
            1 << 10 | 1 << 11 | 1 << 15,
        ),
        (
            ["20"],
            [said_of("20", 0, allow=1 << 16), said_of("7", 1, deny=1 << 16)],
            "7",
            1 << 10 | 1 << 11 | 1 << 15,
        ),
        (
            [],
            [said_of("8", 1, deny=1 << 10), said_of("20", 0, deny=1 << 10)],
            "7",
            1 << 10 | 1 << 11,
        ),
        ([], [said_of("9", 0, deny=1 << 10)], "7", 0),
    ],
    ids=[
        "everybody",
        "role",
        "channel",
        "role-in-channel",
        "person-last",
        "of-others",
        "unseen-is-nothing",
    ],
)
def test_what_is_said_of_a_channel_counts_more_than_roles(
    roles: list[str], overwrites: list[dict[str, object]], user: str, bits: int
) -> None:
    assert allowed_in({"permission_overwrites": overwrites}, SERVER, {"roles": roles}, user) == bits


@pytest.mark.parametrize(
    ("roles", "user"), [(["21"], "7"), ([], "1")], ids=["administrator", "owner"]
)
def test_administrators_and_owners_lack_nothing(roles: list[str], user: str) -> None:
    channel = {"permission_overwrites": [said_of("9", 0, deny=1 << 10)]}

    assert lacking(allowed_in(channel, SERVER, {"roles": roles}, user), threads=True) == []
