"""What the rest of the gateway is handed."""

from __future__ import annotations

from datetime import time, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.configs import config_of
from tests.fakes import dm
from turngate.config.access import AccessEntry, Whom
from turngate.config.fields import (
    ListenAddress,
    exact_size,
    written_duration,
)
from turngate.config.schema import Config, Log
from turngate.gateway.domain.messages import ChatType
from turngate.gateway.domain.session import ResetPolicy
from turngate.gateway.rules.budgets import Budget, Budgets
from turngate.gateway.rules.history_window import HistoryRules


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "---\n", "{}", "log: {}", "null", "%YAML 1.1\n---\n{}"]
)
def test_a_file_that_says_nothing_means_the_defaults(text: str) -> None:
    assert config_of(text) == Config(timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("600ms", timedelta(milliseconds=600)),
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("0s", timedelta()),
        ('"20s"', timedelta(seconds=20)),
    ],
)
def test_a_duration_is_read_and_written_alike(written: str, length: timedelta) -> None:
    config = config_of(f"turns: {{drain: {written}}}")

    assert config.turns.drain == length
    assert written_duration(length) == written.strip('"')


@pytest.mark.parametrize(
    ("written", "size"),
    [("500kB", 500_000), ("20MB", 20_000_000), ("2GB", 2_000_000_000), ('"1MB"', 1_000_000)],
)
def test_a_size_is_read_and_written_alike(written: str, size: int) -> None:
    config = config_of(f"files: {{largest: {written}}}")

    assert config.files.largest == size
    assert exact_size(size) == written.strip('"')


@pytest.mark.parametrize(
    ("written", "flag"), [("true", True), ("no", False), ("Off", False), ("yes", True)]
)
def test_a_switch_takes_the_words_that_yaml_takes(written: str, flag: bool) -> None:
    assert config_of(f"privacy: {{redact: {written}}}").privacy.redact is flag


def test_a_bare_off_is_the_choice_that_it_says() -> None:
    assert config_of("access: {groups: off}", not_built=()).access.groups == "off"


@pytest.mark.parametrize("written", ["-100123", '"-100123"'])
def test_an_id_may_be_a_number_or_text(written: str) -> None:
    assert (
        config_of(f"routes: [{{match: {{chat: {written}}}, agent: main}}]").routes[0].match.chat
        == "-100123"
    )


def test_reset_policies_are_made_in_the_zone_of_the_installation() -> None:
    config = config_of(
        "timezone: Asia/Tokyo\n"
        'sessions: {reset: {idle: 24h, daily_at: "04:00"}, reset_by_chat_type: {group: {idle: 2h}},'
        " reset_by_platform: {slack: {}}}"
    )

    policies = config.reset_policies()

    assert policies.default == ResetPolicy(
        idle_after=timedelta(hours=24), daily_at=time(4), zone="Asia/Tokyo"
    )
    assert policies.by_chat_type == {
        ChatType.GROUP: ResetPolicy(idle_after=timedelta(hours=2), zone="Asia/Tokyo")
    }
    assert policies.for_source(dm(platform="slack")) == ResetPolicy(zone="Asia/Tokyo")


def test_no_reset_is_the_default() -> None:
    assert config_of("").reset_policies().for_source(dm()) == ResetPolicy(zone="Europe/Berlin")


def test_history_rules_follow_the_config() -> None:
    rules = config_of("sessions: {history: {messages: 0, tokens: 900}}").history_rules()

    assert rules == HistoryRules(messages=0, tokens=900, zone="Europe/Berlin")


def test_a_threshold_may_be_written_as_a_whole_number() -> None:
    written = "sessions: {history: {threshold: 1, keep_recent: 0, headroom: 0.5}}"
    rules = config_of(written).history_rules()

    assert (rules.threshold, rules.keep_recent, rules.headroom) == (1.0, 0, 0.5)


def test_the_defaults_are_those_of_the_rules() -> None:
    assert Config().history_rules() == HistoryRules()
    assert Config().budget_rules() == Budgets()


def test_budgets_are_for_the_days_of_the_installation() -> None:
    rules = config_of(
        "budgets: {user: {usd_per_day: 1, tokens_per_day: 0}, total: {usd_per_day: 0.5}}"
    ).budget_rules()

    assert rules == Budgets(
        user=Budget(usd_per_day=1.0, tokens_per_day=0),
        total=Budget(usd_per_day=0.5),
        zone="Europe/Berlin",
    )


@pytest.mark.parametrize(
    ("written", "entry"),
    [
        ("telegram:12345", AccessEntry(platform="telegram", id="12345")),
        ("telegram/support:12345", AccessEntry(platform="telegram", account="support", id="12345")),
        ("telegram:chat:-100123", AccessEntry(platform="telegram", whom=Whom.CHAT, id="-100123")),
        ("discord:guild:9", AccessEntry(platform="discord", whom=Whom.GUILD, id="9")),
        ("slack:U2.T9", AccessEntry(platform="slack", id="U2.T9")),
        ("slack:B9", AccessEntry(platform="slack", id="B9")),
        ("slack:team:T1", AccessEntry(platform="slack", whom=Whom.TEAM, id="T1")),
        (
            "slack/work:chat:C9",
            AccessEntry(platform="slack", account="work", whom=Whom.CHAT, id="C9"),
        ),
    ],
)
def test_an_entry_of_the_allow_list_is_taken_apart_and_put_together(
    written: str, entry: AccessEntry
) -> None:
    assert config_of(f'access: {{allow: ["{written}"]}}').access.allow == (entry,)
    assert str(entry) == written


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        ("localhost:80", ListenAddress("localhost", 80)),
        ('"[::1]:8765"', ListenAddress("::1", 8765)),
        ("null", None),
    ],
)
def test_the_web_listens_on_this_machine_or_not_at_all(
    written: str, address: ListenAddress | None
) -> None:
    config = config_of(f"web: {{listen: {written}}}")

    assert config.web.listen == address
    assert config_of(f"web: {{listen: '{address}'}}" if address else "web: {listen: ~}") == config


@pytest.mark.parametrize(
    ("written", "folder"),
    [("~/x", "/home/ann/x"), ("/var/x", "/var/x"), ("x", "/etc/turngate/x"), ("'~'", "/home/ann")],
)
def test_a_folder_starts_at_home_or_beside_the_file(written: str, folder: str) -> None:
    assert config_of(f"state_dir: {written}").state_dir == Path(folder)


def test_a_platform_s_accounts_are_read_once_it_is_built() -> None:
    text = (
        "platforms:\n  telegram:\n    - token: ${T}\n      home: -100\n    - account: other\n    "
        "  token: ${T}\n"
        "      receive: {webhook: {url: https://x.org/hook, listen: 127.0.0.1:8443, secret: "
        "'${T}'}}\n"
        "  slack: [{bot_token: '${T}', app_token: '${T}'}]\naccess: {allow: ['slack:U2']}\n"
    )

    telegram = config_of(text, not_built=(), T="canary").platforms.telegram

    assert [
        (account.account, account.home, account.receive == "polling") for account in telegram
    ] == [
        ("main", "-100", True),
        ("other", None, False),
    ]


def test_a_config_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Config().log = Log(level="debug")  # type: ignore[misc]
