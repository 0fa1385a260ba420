"""
`check` and `config`, as an operator meets them: the real command, its output and its exit status.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import zygote

CANARY = "canary-9e07"
CLOSED = (
    "Access: 0 allowed, 0 admins; unknown users who write directly get a pairing code; "
    "in allowed chats what is addressed to the bot is answered.\n"
)
TURNGATE = str(Path(sys.executable).with_name("turngate"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home folder, to stand in."""
    return tmp_path


def run(
    home: Path, *arguments: str, command: tuple[str, ...] = (TURNGATE,), **env: str
) -> subprocess.CompletedProcess[str]:
    """In an empty home, with an environment of its own."""
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TZ": "Asia/Tokyo", "COLUMNS": "200"} | env
    return zygote.run([*command, *arguments], cwd=home, env=env, timeout=60)


def write(home: Path, text: str) -> Path:
    file = home / "turngate.yaml"
    file.write_text(text)
    return file


def test_without_a_file_everything_is_fine(home: Path) -> None:
    result = run(home, "check")

    assert result.returncode == 0
    assert (
        result.stdout
        == f"There is no config file, and none is needed: the defaults are in effect.\n{CLOSED}"
    )
    assert result.stderr == ""


def test_a_valid_file_is_named(home: Path) -> None:
    write(home, "log: {level: debug}\n")

    result = run(home, "check")

    assert (result.returncode, result.stdout, result.stderr) == (
        0,
        f"turngate.yaml is valid.\n{CLOSED}",
        "",
    )


def test_a_valid_file_may_earn_warnings(home: Path) -> None:
    write(home, f"agents: {{main: {{api_key: {CANARY}}}}}\n")

    result = run(home, "check")

    assert result.returncode == 0
    assert result.stdout == f"turngate.yaml is valid.\n{CLOSED}"
    assert (
        "turngate.yaml:1:26: warning: agents.main.api_key: a secret in the file itself"
        in result.stderr
    )
    assert CANARY not in result.stdout + result.stderr


def test_a_door_that_is_open_to_everybody_is_told_of_in_capitals(home: Path) -> None:
    write(
        home,
        "access: {direct: open-dangerously, groups: all, allow: [telegram:1], admins: "
        "[telegram:2]}\n",
    )

    result = run(home, "check")

    assert "turngate.yaml:1:18: warning: access.direct: DANGER: anyone who finds" in result.stderr
    assert result.stdout.splitlines()[1] == (
        "Access: 1 allowed, 1 admins; EVERYONE may write directly; in allowed chats "
        "everything is answered."
    )


def test_a_state_folder_that_others_can_write_is_told_of(home: Path) -> None:
    """Finding R25."""
    (home / "state").mkdir()
    (home / "state").chmod(0o775)
    write(home, f"state_dir: {home / 'state'}\n")

    result = run(home, "check")

    assert (
        f"warning: the state folder {home / 'state'} can be written by its group" in result.stderr
    )


@pytest.mark.parametrize("command", [("check",), ("config", "show"), ("config", "show", "--json")])
def test_a_wrong_file_exits_78_with_every_mistake_on_stderr(
    home: Path, command: tuple[str, ...]
) -> None:
    file = write(home, "sesions: {}\nlog: {level: loud}\nstorage: {url: postgresql://h/db}\n")

    result = run(home, *command, "--config", str(file))

    assert result.returncode == 78
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f'{file}:1:1: unknown key "sesions"; did you mean sessions?',
        f'{file}:2:14: log.level: "loud" is not a choice; write one of debug, info, warning, error',
        f"{file}:3:16: storage.url postgres is not available in this version; remove it",
    ]


def test_a_file_that_is_not_there_exits_78(home: Path) -> None:
    result = run(home, "check", "--config", "other.yaml")

    assert result.returncode == 78
    assert result.stderr == "other.yaml: there is no such file; correct --config\n"


@pytest.mark.parametrize(
    "arguments",
    [("chek",), ("check", "--nonsense"), ("check", "extra"), ("config", "sho"), ("config",)],
)
def test_wrong_usage_exits_2(home: Path, arguments: tuple[str, ...]) -> None:
    result = run(home, *arguments)

    assert result.returncode == 2
    assert result.stdout + result.stderr


def test_the_effective_config_is_shown_with_secrets_masked(home: Path) -> None:
    write(home, "agents: {main: {api_key: '${KEY}'}}\nsessions: {reset: {idle: 24h}}\n")

    result = run(home, "config", "show", "--state-dir", "/srv/turngate", KEY=CANARY)

    assert result.returncode == 0
    assert result.stdout.startswith("# turngate.yaml\n")
    shown = yaml.safe_load(result.stdout)
    assert shown["agents"]["main"]["api_key"] == "**********"
    assert shown["sessions"]["reset"] == {"idle": "24h", "daily_at": None}
    assert shown["state_dir"] == "/srv/turngate"
    assert shown["timezone"] == "Asia/Tokyo"
    assert CANARY not in result.stdout + result.stderr


def test_json_is_one_document_and_nothing_else(home: Path) -> None:
    result = run(home, "config", "show", "--json")

    assert result.stderr == ""
    assert json.loads(result.stdout)["web"] == {"listen": "127.0.0.1:8765"}


def test_the_schema_is_one_document_whatever_the_file_says(home: Path) -> None:
    write(home, "sesions: {}\n")

    result = run(home, "config", "schema")

    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["properties"].keys() >= {"agents", "sessions", "web"}


def test_what_is_shown_is_a_valid_file(home: Path) -> None:
    (home / "shown.yaml").write_text(run(home, "config", "show").stdout)

    assert run(home, "check", "--config", "shown.yaml").returncode == 0


def test_the_module_does_the_same_as_the_command(home: Path) -> None:
    result = run(home, "check", command=(sys.executable, "-m", "turngate"))

    assert result.returncode == 0
    assert result.stdout == run(home, "check").stdout


def test_help_lists_what_is_built_and_nothing_else(home: Path) -> None:
    result = run(home, "--help")

    assert result.returncode == 0
    assert "check" in result.stdout
    assert "config" in result.stdout
    assert [
        name for name in ("doctor", "audit", "schedule", "--online") if f" {name} " in result.stdout
    ] == []


LISTED = """
import sys
from turngate.gateway.__main__ import main
try:
    main()
finally:
    packages = {name.removeprefix("turngate.").partition(".")[0] for name in sys.modules}
    print(*sorted(packages), file=sys.stderr)
"""
HEAVY = {
    "aiogram",
    "aiohttp",
    "aiosqlite",
    "asyncio",
    "config",
    "discord",
    "pydantic",
    "slack_bolt",
    "sqlite3",
    "yaml",
}


def test_help_imports_no_sdk_no_driver_and_no_config(home: Path) -> None:
    helped = run(home, "--help", command=(sys.executable, "-c", LISTED))
    checked = run(home, "check", command=(sys.executable, "-c", LISTED))

    assert set(helped.stderr.split()) & HEAVY == set()
    assert {"config", "pydantic", "yaml"} <= set(
        checked.stderr.split()
    )  # so the list above is one of modules


NAMED = LISTED.replace('.removeprefix("turngate.").partition(".")[0]', "")


def test_help_imports_nothing_of_ours_but_the_commands_themselves(home: Path) -> None:
    helped = run(home, "--help", command=(sys.executable, "-c", NAMED))
    listed = run(home, "sessions", "list", "--help", command=(sys.executable, "-c", NAMED))

    for result in (helped, listed):
        ours = {
            name
            for name in result.stderr.split()
            if name.startswith(("turngate.gateway.", "turngate.adapters", "turngate.config"))
        }
        assert {name for name in ours if not name.startswith("turngate.gateway.cli")} == {
            "turngate.gateway.__main__",
            "turngate.gateway.daemon",
            "turngate.gateway.daemon.process_access",
            "turngate.gateway.daemon.state_dir",
            "turngate.gateway.domain",
            "turngate.gateway.domain.errors",
            "turngate.gateway.observability",
            "turngate.gateway.observability.error_text",
        }
        assert (
            ours
            & {
                "turngate.gateway.cli.state_access",
                "turngate.gateway.cli.tables",
                "turngate.gateway.cli.chat_connection",
            }
            == set()
        )
        assert {"rich.live", "rich.status", "readline", "structlog"} & set(
            result.stderr.split()
        ) == set()


def test_check_imports_no_sdk_and_no_driver(home: Path) -> None:
    checked = run(home, "check", command=(sys.executable, "-c", LISTED))

    needed = {"asyncio", "config", "pydantic", "yaml"}
    assert set(checked.stderr.split()) & (HEAVY - needed) == set()


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("{kind: python, object: 'nonesuch_module:x'}", "there is no module nonesuch_module"),
        ("{kind: python, object: nonesuch}", "nonesuch is not package.module:factory"),
        ("{kind: http, url: 'http://[::1'}", "is not an address"),
    ],
)
def test_what_shows_only_when_an_agent_is_made_is_told_with_its_place(
    home: Path, command: str, agent: str, why: str
) -> None:
    write(home, f"agents:\n  main: {{kind: echo}}\n  mine: {agent}\n")

    result = run(home, command)

    assert result.returncode == 78
    assert result.stderr.startswith("turngate.yaml:3:9: agents.mine: ")
    assert why in result.stderr
    assert "Traceback" not in result.stderr
