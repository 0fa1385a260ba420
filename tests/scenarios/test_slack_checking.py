"""
`turngate check --online` for Slack: what is wrong with an app is said before anything depends on
it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.slack import Slack
from turngate.adapters.slack.account import (
    Account,
    Http,
    Timeouts,
)
from turngate.adapters.slack.app.needs import EVENTS, SCOPES
from turngate.adapters.slack.check import examine
from turngate.gateway.domain.ports.adapter import Finding

PATIENCE = Timeouts(connect=2.0, answer=2.0)
ABOUT_EVENTS = (
    "event subscriptions cannot be checked online; `turngate slack manifest` "
    "prints what the app needs"
)


@pytest.fixture
async def slack() -> AsyncIterator[Remote]:
    async with in_process(Simulator(Slack())) as sim:
        await sim.do("app", scopes=list(SCOPES), events=list(EVENTS))
        yield sim


async def found(slack: Remote, **account: object) -> list[Finding]:
    tokens = {"bot_token": "xoxb-main", "app_token": "xapp-main"}
    return await examine(Account(api_url=f"{slack.url}/api/", **{**tokens, **account}), PATIENCE)  # type: ignore[arg-type]


def errors(findings: list[Finding]) -> list[str]:
    return [finding.words for finding in findings if finding.is_error]


async def test_an_app_made_from_the_manifest_has_nothing_wrong(slack: Remote) -> None:
    findings = await found(slack)

    assert [finding.words for finding in findings] == [
        "the bot token is valid: this is @main, id U0BOTMAIN, in the workspace T0001",
        "the app token is valid, and events can be received by Socket Mode",
        ABOUT_EVENTS,
    ]
    assert errors(findings) == []


async def test_missing_scopes_are_named_with_what_needs_them(slack: Remote) -> None:
    await sim_scopes(slack, set(SCOPES) - {"im:history", "commands"})

    assert errors(await found(slack)) == [
        "the scope commands is missing, for slash commands; add it under OAuth & Permissions and "
        "install the app again",
        "the scope im:history is missing, for conversations.history, conversations.replies, "
        "message.im; "
        "add it under OAuth & Permissions and install the app again",
    ]


async def test_scopes_that_nobody_needs_are_named_too(slack: Remote) -> None:
    await sim_scopes(slack, {*SCOPES, "team:read", "channels:join"})

    findings = await found(slack)

    assert errors(findings) == []
    assert "unused scopes: channels:join, team:read" in [finding.words for finding in findings]


async def sim_scopes(slack: Remote, scopes: set[str]) -> None:
    await slack.do("app", scopes=sorted(scopes))


async def test_both_tokens_are_tried_whichever_is_wrong(slack: Remote) -> None:
    both = errors(await found(slack, bot_token="xoxb-nobody", app_token="xapp-nobody"))  # noqa: S106 - nobody's

    assert [words.partition(":")[0] for words in both] == ["bot_token", "app_token"]
    assert all("the token is not valid" in words for words in both)


async def test_tokens_in_each_other_s_place_are_told_apart(slack: Remote) -> None:
    swapped = errors(await found(slack, bot_token="xapp-main", app_token="xoxb-main"))  # noqa: S106 - the simulator's

    assert [words.partition(":")[0] for words in swapped] == ["bot_token", "app_token"]


async def test_tokens_of_two_apps_do_not_belong_together(slack: Remote) -> None:
    (mistake,) = errors(await found(slack, app_token="xapp-support"))  # noqa: S106 - the simulator's

    assert (
        mistake
        == "app_token: it belongs to another app than bot_token; copy both from one app's settings"
    )


async def test_socket_mode_that_is_switched_off_is_said(slack: Remote) -> None:
    await slack.do("app", socket_mode=False)

    (mistake,) = errors(await found(slack))

    assert mistake == (
        "app_token: Slack ends its connections (link_disabled); is Socket Mode switched on in "
        "the app's settings?"
    )


async def test_a_socket_that_says_nothing_is_not_waited_for_in_vain(slack: Remote) -> None:
    await slack.fault("half-open", does="receive", method="socket.hello", times=None)
    tokens = Account(bot_token="xoxb-main", app_token="xapp-main", api_url=f"{slack.url}/api/")  # noqa: S106 - as above

    (mistake,) = errors(await examine(tokens, Timeouts(connect=0.2, answer=2.0)))

    assert mistake == (
        "app_token: no connection to Slack could be opened; is Socket Mode switched on in the "
        "app's settings?"
    )


async def test_by_http_there_is_an_address_and_no_app_token(slack: Remote) -> None:
    http = Http(host="127.0.0.1", port=3000, signing_secret="s")  # noqa: S106 - nobody's

    findings = await found(slack, app_token=None, http=http)

    assert errors(findings) == []
    assert findings[1].words == (
        "Slack's requests are awaited at 127.0.0.1:3000/slack/events; whether they arrive "
        "cannot be checked from here"
    )


async def test_nothing_is_taken_from_a_running_gateway(slack: Remote) -> None:
    """What is sent to the checking connection is not acknowledged by it."""
    await found(slack)
    await slack.say("hello", chat="D1", user="U2")

    assert [update["acknowledged"] for update in await slack.updates()] == [False]


@pytest.mark.parametrize(
    "kind", ["reset", "429", "500", "502 html", "html", "garbage", "truncated", "wrong types"]
)
async def test_an_outage_is_said_and_blames_no_token(slack: Remote, kind: str) -> None:
    await slack.fault(kind, times=None)

    findings = await found(slack)

    assert [words.partition(":")[0] for words in errors(findings)] == ["bot_token", "app_token"]
    assert not any("token is not valid" in words for words in errors(findings))
