"""The command line's front door. Imports no SDK, no driver and no config, so that `--help` costs nothing."""

import sys

import typer

from gateway.cli import app
from gateway.cli.exits import Exit
from gateway.errors import ConfigError


def main() -> None:
    """`turngate`, and the same as `python -m gateway`."""
    try:
        app(prog_name="turngate")
    except ConfigError as exc:
        typer.echo(str(exc), err=True)
        sys.exit(Exit.WRONG_CONFIG)


if __name__ == "__main__":
    main()
