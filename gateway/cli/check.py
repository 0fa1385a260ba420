"""`turngate check`: is the config right?"""

import typer

from gateway.cli.options import ConfigFile, StateDir


def check(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """Validate the config: every mistake at once, each with its place and its cure."""
    from config.load import load

    loaded = load(config, state_dir)
    for warning in loaded.warnings:
        typer.echo(warning, err=True)
    if loaded.file is None:
        typer.echo("There is no config file, and none is needed: the defaults are in effect.")
    else:
        typer.echo(f"{loaded.file} is valid.")
