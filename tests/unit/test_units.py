"""
The units of systemd as they are rendered: what systemd says of them, and that they fit what the
daemon does.
"""

from __future__ import annotations

import getpass
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tests.commands import ROOT, turngate
from turngate.gateway.cli.exits import Exit
from turngate.gateway.cli.systemd_units import (
    AGENTS,
    Flavour,
    Unit,
    install,
    is_strict,
    uninstall,
)
from turngate.gateway.domain.errors import Refused

DRAIN = timedelta(minutes=3)
EVERY_FLAVOUR = pytest.mark.parametrize("flavour", list(Flavour))
PROGRAM = "agents:\n  main:\n    kind: command\n    argv: [cat]\n"


def unit(flavour: Flavour = Flavour.SYSTEM, *, run_as: str | None = None) -> Unit:
    return Unit(
        flavour=flavour, drain=DRAIN, config=Path("/etc/turngate/turngate.yaml"), run_as=run_as
    )


def settings(text: str) -> dict[str, str]:
    """Of a text in which later lines count more."""
    lines = [line.partition("=") for line in text.splitlines() if not line.startswith("#")]
    return {key: value for key, _, value in lines}


def analyze(*arguments: str, runtime: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What systemd says; of a user's units it speaks only to users with a folder for what runs."""
    return subprocess.run(
        ["systemd-analyze", *arguments],  # noqa: S607 - where it is depends on the distribution
        env={"PATH": "/usr/bin:/bin", "HOME": "/", "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def written(unit: Unit, folder: Path) -> str:
    """Where systemd-analyze can read it; a template needs the name of an instance."""
    path, *_ = install(unit, folder)
    return str(
        path.rename(path.with_name("turngate@one.service"))
        if unit.flavour is Flavour.INSTANCES
        else path
    )


@EVERY_FLAVOUR
@pytest.mark.parametrize("run_as", [None, getpass.getuser()])
def test_systemd_finds_nothing_wrong_with_it(
    flavour: Flavour, run_as: str | None, tmp_path: Path
) -> None:
    path = written(unit(flavour, run_as=run_as), tmp_path)
    found = analyze(
        "verify", *(["--user"] if flavour is Flavour.USER else []), path, runtime=tmp_path
    )

    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


@pytest.mark.parametrize("flavour", [Flavour.SYSTEM, Flavour.INSTANCES])
def test_the_strict_unit_exposes_next_to_nothing(flavour: Flavour, tmp_path: Path) -> None:
    found = analyze(
        "security", "--offline=true", "--threshold=12", written(unit(flavour), tmp_path)
    )

    assert found.returncode == 0, found.stdout


@EVERY_FLAVOUR
def test_it_waits_longer_than_the_drain_and_does_not_start_again_what_a_start_cannot_cure(
    flavour: Flavour,
) -> None:
    said = settings(unit(flavour).text())

    assert int(said["TimeoutStopSec"]) > DRAIN.total_seconds() + 5
    assert {int(code) for code in said["RestartPreventExitStatus"].split()} == {
        Exit.STATE_IN_USE,
        Exit.ACCOUNTS_REFUSED,
        Exit.WRONG_CONFIG,
    }
    assert (said["Type"], said["Restart"]) == ("notify", "on-failure")
    assert "-HUP" in said["ExecReload"]


def test_programs_get_executable_memory_and_homes_back_and_nothing_of_the_system() -> None:
    agents = unit(run_as="ann")
    strict, loose = settings(unit().text()), settings(agents.text() + (agents.drop_in() or ""))

    assert (strict["MemoryDenyWriteExecute"], strict["ProtectHome"]) == ("yes", "yes")
    assert (loose["MemoryDenyWriteExecute"], loose["ProtectHome"]) == ("no", "no")
    assert (loose["User"], loose["DynamicUser"]) == ("ann", "no")
    assert (loose["ProtectSystem"], loose["NoNewPrivileges"], loose["CapabilityBoundingSet"]) == (
        "strict",
        "yes",
        "",
    )


def test_paths_are_written_as_systemd_reads_them() -> None:
    odd = Unit(flavour=Flavour.USER, drain=DRAIN, config=Path('/srv/my bots/100% "$HOME".yaml'))

    assert settings(odd.text())["ExecStart"].endswith(
        r' --config "/srv/my bots/100%% \"$$HOME\".yaml"'
    )


def test_what_the_sandbox_hides_is_told() -> None:
    homely = Unit(flavour=Flavour.SYSTEM, drain=DRAIN, config=Path("/home/ann/turngate.yaml"))

    assert Path("/home/ann/turngate.yaml") in homely.hidden()
    assert (
        Unit(flavour=Flavour.USER, drain=DRAIN, config=Path("/home/ann/turngate.yaml")).hidden()
        == []
    )
    assert Path("/etc/turngate/turngate.yaml") not in unit().hidden()


def test_a_python_behind_links_into_a_home_is_told(tmp_path: Path) -> None:
    """As in a virtual environment of uv or pyenv; the test's own is as good as any."""
    linked = tmp_path / "python"
    linked.symlink_to("/home/ann/.local/bin/python3")

    assert Path("/home/ann/.local/bin/python3") in unit().hidden(python=linked)


def test_instances_share_no_state_folder() -> None:
    several = Unit(flavour=Flavour.INSTANCES, drain=DRAIN, state_dir=Path("/srv/bots"))

    assert settings(several.text())["ExecStart"].endswith(
        " --config /etc/turngate/%i.yaml --state-dir /srv/bots/%i"
    )
    assert settings(several.text())["ReadWritePaths"] == "/srv/bots"


def test_the_state_folder_of_an_instance_is_not_inside_of_anothers() -> None:
    """
    systemd keeps folders of dynamic users behind links, and refuses to make one inside of such a
    link.
    """
    alone, several = (
        settings(unit(each).text())["StateDirectory"]
        for each in (Flavour.SYSTEM, Flavour.INSTANCES)
    )

    assert Path(alone) not in Path(several).parents
    assert "%i" in several


@pytest.mark.parametrize("flavour", [Flavour.SYSTEM, Flavour.USER])
def test_the_unit_loads_the_credentials_that_the_config_names(
    flavour: Flavour, tmp_path: Path
) -> None:
    secrets = {"token": Path("/etc/turngate/token"), "key": Path("/etc/100%/key")}
    wanting = Unit(flavour=flavour, drain=DRAIN, credentials=secrets)
    lines = [line for line in wanting.text().splitlines() if "LoadCredential" in line]
    path = written(wanting, tmp_path)
    found = analyze(
        "verify", *(["--user"] if flavour is Flavour.USER else []), path, runtime=tmp_path
    )

    assert lines == [
        "LoadCredential=token:/etc/turngate/token",
        "LoadCredential=key:/etc/100%%/key",
    ]
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    assert "\n#LoadCredential=" in unit(flavour).text()


def test_a_unit_of_somebody_else_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    path = tmp_path / "turngate.service"
    path.write_text("[Service]\nExecStart=/bin/true\n")

    with pytest.raises(Refused, match="was not written by"):
        install(unit(), tmp_path)
    assert uninstall(Flavour.SYSTEM, tmp_path) == []
    assert path.exists()


def test_what_was_installed_is_removed_with_the_links_of_those_who_enabled_it(
    tmp_path: Path,
) -> None:
    wants = tmp_path / "multi-user.target.wants"
    wants.mkdir()
    install(unit(run_as="ann"), tmp_path)
    (wants / "turngate.service").symlink_to(tmp_path / "turngate.service")

    assert len(uninstall(Flavour.SYSTEM, tmp_path)) == 3
    assert list(tmp_path.rglob("turngate*")) == []


def test_the_drop_in_goes_when_no_agent_needs_it_any_more(tmp_path: Path) -> None:
    install(unit(run_as="ann"), tmp_path)
    assert (tmp_path / "turngate.service.d" / AGENTS).exists()
    assert not is_strict(Path("/etc/turngate/turngate.yaml"), tmp_path)

    install(unit(), tmp_path)
    assert not (tmp_path / "turngate.service.d" / AGENTS).exists()
    assert is_strict(Path("/etc/turngate/turngate.yaml"), tmp_path)
    assert not is_strict(Path("/etc/turngate/other.yaml"), tmp_path)


def test_the_command_prints_installs_and_uninstalls_without_any_systemd(tmp_path: Path) -> None:
    state, units = tmp_path / "state", tmp_path / "units"
    printed = turngate(state, "service", "print", "--system")
    installed = turngate(state, "service", "install", "--user", "--into", str(units))
    removed = turngate(state, "service", "uninstall", "--user", "--into", str(units))

    assert settings(printed.stdout)["ExecStart"].endswith(f"turngate run --state-dir {state}")
    assert f"\nReadWritePaths={state}\n" in printed.stdout
    assert "systemctl --user enable --now turngate" in installed.stdout
    assert f"Removed {units / 'turngate.service'}." in removed.stdout
    assert (printed.returncode, installed.returncode, removed.returncode) == (0, 0, 0)


def test_installing_says_where_the_secrets_of_the_config_belong(tmp_path: Path) -> None:
    (tmp_path / "turngate.yaml").write_text(
        'platforms: {telegram: [{token: "${credential:telegram_token}"}]}\n'
    )
    units = tmp_path / "units"
    installed = turngate(tmp_path / "state", "service", "install", "--system", "--into", str(units))

    secret = tmp_path / "telegram_token"
    assert f"LoadCredential=telegram_token:{secret}\n" in (units / "turngate.service").read_text()
    assert f"put the secret telegram_token, and nothing else, into {secret}," in installed.stdout
    assert "--state-dir: the service has its own user" in installed.stderr


def test_an_agent_that_is_a_program_needs_a_user_and_gets_the_drop_in(tmp_path: Path) -> None:
    file = tmp_path / "turngate.yaml"
    file.write_text(PROGRAM + 'platforms: {telegram: [{token: "${credential:telegram_token}"}]}\n')
    nobody = turngate(tmp_path / "state", "service", "print", "--system")
    ann = turngate(tmp_path / "state", "service", "print", "--system", "--run-as", "ann")

    assert (nobody.returncode, "--run-as" in nobody.stderr) == (2, True)
    assert settings(ann.stdout)["User"] == "ann"


def test_check_says_which_agents_do_not_fit_the_strict_unit(tmp_path: Path) -> None:
    (tmp_path / "turngate.yaml").write_text(PROGRAM)
    strict = turngate(tmp_path / "state", "check", TURNGATE_UNIT="strict")
    loose = turngate(tmp_path / "state", "check", TURNGATE_UNIT="agents")

    assert "warning: agents.main: under the strict unit" in strict.stderr
    assert "strict unit" not in loose.stderr
    assert (strict.returncode, loose.returncode) == (0, 0)


def test_commands_that_need_no_secret_do_not_ask_for_one(tmp_path: Path) -> None:
    (tmp_path / "turngate.yaml").write_text(
        'platforms: {telegram: [{token: "${credential:telegram_token}"}]}\n'
    )

    assert turngate(tmp_path / "state", "status").returncode == Exit.NOT_RUNNING
    assert turngate(tmp_path / "state", "check").returncode == Exit.WRONG_CONFIG


def test_the_units_are_where_people_look_for_them() -> None:
    assert (ROOT / "systemd" / "turngate.service").samefile(
        ROOT / "gateway" / "daemon" / "units" / "turngate.service"
    )
