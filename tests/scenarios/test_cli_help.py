"""What the command line says about itself: its version, its help, and what a shell completes."""

from __future__ import annotations

import subprocess

import pytest

from tests.commands import TURNGATE
from turngate.gateway import __version__


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TURNGATE, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", **env},
        check=False,
    )


def test_the_version_is_told_without_a_config() -> None:
    result = run("--version")

    assert (result.returncode, result.stdout) == (0, f"turngate {__version__}\n")


@pytest.mark.parametrize("command", [[], ["sessions"], ["sessions", "show"]])
def test_help_is_a_command_too(command: list[str]) -> None:
    assert run("help", *command).stdout == run(*command, "--help").stdout != ""


def test_help_about_what_does_not_exist_is_wrong_usage() -> None:
    result = run("help", "nothing")

    assert result.returncode == 2
    assert "No such command 'nothing'" in result.stderr


def test_a_shell_completes_commands() -> None:
    result = run(_TURNGATE_COMPLETE="complete_bash", COMP_WORDS="turngate ses", COMP_CWORD="1")

    assert result.stdout.split() == ["sessions"]
