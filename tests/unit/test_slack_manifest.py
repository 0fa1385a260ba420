"""
The app's manifest asks for exactly what is used: each method and each event of the adapter is in
one table.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests import specifications
from tests.simulators.slack import Slack
from tests.unit.test_slack_normalise import GOLDEN, outcome, raw
from turngate.adapters.slack.app.manifest import Command, manifest
from turngate.adapters.slack.app.needs import (
    APP_METHODS,
    EVENTS,
    METHODS,
    SCOPES,
    reason_for,
)
from turngate.adapters.slack.app.slash import (
    TAKEN,
    command_of,
    slash_for,
)
from turngate.adapters.slack.lookup_keys import assistant_thread_in
from turngate.gateway.commands import COMMANDS

ADAPTER = Path(__file__).parents[2] / "adapters" / "slack"
OF_EARLIER_MANIFESTS = {
    "assistant_thread_context_changed",
    "assistant_thread_started",
    "reaction_added",
}
"""Apps that were made before still send them, and they are understood."""
SUBSCRIPTIONS = {
    "channel": "message.channels",
    "group": "message.groups",
    "im": "message.im",
    "mpim": "message.mpim",
}


def methods_called(source: str) -> Iterator[str]:
    """Every method of the Web API that is asked for by something called `client`."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value).rpartition(".")[2] == "client"
        ):
            is_method = "_" in node.attr.strip("_") and callable(
                getattr(AsyncWebClient, node.attr, None)
            )
            yield from [node.attr.replace("_", ".")] if is_method else []


def subscription_of(event: dict[str, str]) -> str:
    return SUBSCRIPTIONS.get(event.get("channel_type", ""), event["type"])


def test_calls_are_found_however_they_are_written() -> None:
    source = (
        "await self._api.client.chat_postMessage(x=1)\nask = "
        "client.files_info\nclient.proxy\nclient.not_a_method()"
    )

    assert {*methods_called(source)} == {"chat.postMessage", "files.info"}


def test_every_method_that_is_called_is_in_the_table_and_no_other() -> None:
    called = {
        method for path in ADAPTER.glob("*.py") for method in methods_called(path.read_text())
    }

    assert called == {*METHODS, *APP_METHODS}


def test_the_events_that_mean_something_are_subscribed_to_and_no_other() -> None:
    events = [
        (case, case["body"]["event"])
        for case in map(raw, GOLDEN)
        if "event" in case.get("body", {})
    ]
    meaningful = [
        event
        for case, event in events
        if outcome(case) or assistant_thread_in(case["body"]) or event["type"] == "app_home_opened"
    ]

    assert {subscription_of(event) for event in meaningful} == {*EVENTS, *OF_EARLIER_MANIFESTS}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_s_scopes_are_those_that_the_simulator_wants(method: str) -> None:
    wanted = Slack()._asked[method].scopes

    assert not wanted or set(wanted) & set(METHODS[method])


def test_every_scope_has_a_reason() -> None:
    assert [scope for scope in SCOPES if not reason_for(scope)] == []
    assert reason_for("commands") == "slash commands"


def test_the_manifest_has_them_all() -> None:
    made = json.loads(json.dumps(manifest([Command(name="new", summary="begins", hint="[title]")])))

    assert made["oauth_config"]["scopes"] == {"bot": list(SCOPES)}
    assert made["settings"]["event_subscriptions"] == {"bot_events": list(EVENTS)}
    assert made["settings"]["socket_mode_enabled"] is True
    assert made["features"]["slash_commands"] == [
        {"command": "/new", "description": "begins", "should_escape": True, "usage_hint": "[title]"}
    ]


@pytest.mark.parametrize("url", [None, "https://example.org/slack/events"])
@specifications.NEEDED
def test_slack_s_own_schema_takes_the_manifest(url: str | None) -> None:
    """Finding H1."""
    commands = [
        Command(name=command.name, summary=command.summary, hint=command.argument)
        for command in COMMANDS.commands
    ]
    made = json.loads(json.dumps(manifest(commands, url=url)))

    jsonschema.validate(made, specifications.load("slack-manifest-schema-2.json"))


def test_the_app_is_an_agent_of_the_messages_tab() -> None:
    """Finding H1: new apps get agent_view only."""
    made = json.loads(json.dumps(manifest([])))
    features = made["features"]

    assert "assistant_view" not in features
    assert 0 < len(features["agent_view"]["agent_description"]) <= 300
    assert 0 < len(features["agent_view"]["suggested_prompts"]) <= 4
    assert features["app_home"]["messages_tab_enabled"]
    assert "app_home_opened" in made["settings"]["event_subscriptions"]["bot_events"]
    assert "assistant_thread_started" not in json.dumps(made)


def test_nothing_is_subscribed_to_or_allowed_that_is_not_used() -> None:
    """Finding A3: reactions of people mean nothing to the gateway yet."""
    made = json.dumps(manifest([]))

    assert "reaction_added" not in made
    assert "reactions:read" not in made


def test_with_an_address_everything_goes_there() -> None:
    made = json.dumps(
        manifest([Command(name="new", summary="begins")], url="https://example.org/slack/events")
    )

    assert json.loads(made)["settings"]["socket_mode_enabled"] is False
    assert made.count('"https://example.org/slack/events"') == 3


def test_no_command_has_a_name_that_slack_refuses() -> None:
    """One of them, and Slack refuses the whole manifest."""
    names = [slash_for(command.name) for command in COMMANDS.commands]

    assert not {name.removeprefix("/") for name in names} & TAKEN
    assert len(set(names)) == len(names) <= 50
    assert max(map(len, names)) <= 32
    assert [command_of(name) for name in names] == [command.name for command in COMMANDS.commands]


def test_the_command_prints_it_without_slack_s_library() -> None:
    look = (
        "import sys, runpy; sys.argv = ['turngate', 'slack', 'manifest', '--name', 'Ann']\n"
        "try: runpy.run_module('gateway', run_name='__main__')\n"
        "finally: print(sorted({'slack_bolt', 'slack_sdk', 'aiohttp'} & set(sys.modules)), "
        "file=sys.stderr)"
    )

    result = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True
    )

    assert result.stderr == "[]\n"
    assert json.loads(result.stdout)["display_information"]["name"] == "Ann"


@pytest.mark.parametrize(
    "wrong", [["--url", "http://example.org/"], ["--name", " "], ["--name", "N" * 36]]
)
def test_what_slack_would_refuse_is_refused_at_once(wrong: list[str]) -> None:
    asked = [sys.executable, "-m", "gateway", "slack", "manifest", *wrong]

    assert subprocess.run(asked, capture_output=True, check=False).returncode == 2
