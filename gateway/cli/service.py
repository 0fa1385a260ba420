"""`turngate service`: the gateway under systemd."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.options import ConfigFile, StateDir

if TYPE_CHECKING:
    from turngate.gateway.cli.systemd_units import Flavour, Unit

app = typer.Typer(name="service", no_args_is_help=True, help="Run the gateway under systemd.")

User = Annotated[
    bool | None,
    typer.Option(
        "--user/--system",
        help="A service of the user or of the machine.",
        show_default="of the machine for root",
    ),
]
Instances = Annotated[
    bool,
    typer.Option("--instances", help="turngate@.service, for several gateways on one machine."),
]
RunAs = Annotated[
    str | None,
    typer.Option(
        "--run-as",
        metavar="USER",
        help="The user whose logins program agents (command, acp, python) use.",
    ),
]
Into = Annotated[
    Path | None,
    typer.Option(
        "--into",
        metavar="DIR",
        help="Where the units are.",
        show_default="where systemd looks for them",
    ),
]


@app.command("print")
def print_(
    config: ConfigFile = None,
    state_dir: StateDir = None,
    user: User = None,
    instances: Instances = False,
    run_as: RunAs = None,
) -> None:
    """Print the unit, with the paths of this installation and what its agents need."""
    unit = _unit(config, state_dir, _flavour(user, instances=instances), run_as)
    typer.echo(unit.text() + (f"\n{extra}" if (extra := unit.drop_in()) else ""), nl=False)


@app.command()
def install(
    config: ConfigFile = None,
    state_dir: StateDir = None,
    user: User = None,
    instances: Instances = False,
    run_as: RunAs = None,
    into: Into = None,
) -> None:
    """Write the unit where systemd finds it, and print the next steps."""
    from turngate.gateway.cli import systemd_units

    flavour = _flavour(user, instances=instances)
    unit = _unit(config, state_dir, flavour, run_as)
    for path in systemd_units.install(unit, into or _folder(flavour)):
        typer.echo(f"Wrote {path}.")

    name = flavour.file_name.replace("@.service", "@NAME").removesuffix(".service")
    control = "systemctl --user" if _is_user(flavour) else "sudo systemctl"
    log = "journalctl --user" if _is_user(flavour) else "journalctl"
    typer.echo("Next:")

    for name_of_secret, path in unit.credentials.items():
        typer.echo(
            f"  put the secret {name_of_secret}, and nothing else, into {path}, readable by its "
            "owner alone"
        )

    typer.echo(f"  {control} daemon-reload")
    typer.echo(f"  {control} enable --now {name}")
    typer.echo(f"  {log} -u {name} -f")

    if _is_user(flavour):
        typer.echo("  loginctl enable-linger      # to keep running when you log out")


@app.command()
def uninstall(
    config: ConfigFile = None,
    state_dir: StateDir = None,
    user: User = None,
    instances: Instances = False,
    into: Into = None,
) -> None:
    """Remove what `install` wrote. The config and the state folder stay, wherever they are."""
    from turngate.gateway.cli import systemd_units

    flavour = _flavour(user, instances=instances)
    removed = systemd_units.uninstall(flavour, into or _folder(flavour))
    for path in removed:
        typer.echo(f"Removed {path}.")

    if not removed:
        typer.echo("Nothing to remove: no unit was written by `turngate service install`.")
        return

    control = "systemctl --user" if _is_user(flavour) else "sudo systemctl"
    name = flavour.file_name.replace("@.service", "@NAME").removesuffix(".service")
    typer.echo("Next:")
    typer.echo(f"  {control} stop {name}")
    typer.echo(f"  {control} daemon-reload")


def _unit(
    config: Path | None, state_dir: Path | None, flavour: "Flavour", run_as: str | None
) -> "Unit":
    from turngate.config.load import load
    from turngate.gateway.cli.systemd_units import Flavour, Unit

    # Without secrets: those of a service may be readable by the service only.
    loaded = load(config, state_dir, secrets=False)
    # A system service has its own user, without the logins that such programs use.
    if loaded.config.programs() and not _is_user(flavour) and run_as is None:
        names = ", ".join(loaded.config.programs())
        raise typer.BadParameter(
            f"{names}: a program agent needs a user's logins; name the user", param_hint="--run-as"
        )

    # An instance reads /etc/turngate/NAME.yaml, so neither the path nor the credentials of the
    # config loaded here apply to it.
    folder = loaded.file.absolute().parent if loaded.file else Path()
    unit = Unit(
        flavour=flavour,
        config=loaded.file.absolute() if loaded.file and flavour is not Flavour.INSTANCES else None,
        state_dir=state_dir.absolute() if state_dir else None,
        drain=loaded.config.turns.drain,
        run_as=None if _is_user(flavour) else run_as,
        credentials={
            name: folder / name for name in loaded.credentials if flavour is not Flavour.INSTANCES
        },
    )
    for path in unit.hidden():
        typer.echo(
            f"warning: the service cannot see {path}: move it, say to /opt or /etc, or use --user",
            err=True,
        )

    if state_dir is not None and run_as is None and not _is_user(flavour):
        own = "the service has its own user, who must be able to write there"
        typer.echo(
            f"warning: --state-dir: {own}; without it systemd creates a folder for that user",
            err=True,
        )

    return unit


def _flavour(user: bool | None, *, instances: bool) -> "Flavour":
    import os

    from turngate.gateway.cli.systemd_units import Flavour

    if instances:
        return Flavour.INSTANCES
    is_user = os.geteuid() != 0 if user is None else user
    return Flavour.USER if is_user else Flavour.SYSTEM


def _is_user(flavour: "Flavour") -> bool:
    # Compared by value, because Flavour is imported only when a command runs.
    return flavour.value == "user.service"


def _folder(flavour: "Flavour") -> Path:
    from turngate.config.load import config_home
    from turngate.gateway.cli.systemd_units import SYSTEM_FOLDER

    return config_home() / "systemd" / "user" if _is_user(flavour) else SYSTEM_FOLDER
