"""The command line's front door. Imports no SDK, no driver and no config, so that `--help` costs nothing."""

import sys

import typer

from gateway.cli import app
from gateway.cli.exits import exit_of
from gateway.cli.printable import printable
from gateway.errors import TurngateError


def main() -> None:
    """`turngate`, and the same as `python -m gateway`."""
    try:
        app(prog_name="turngate")
    except TurngateError as exc:
        typer.echo(printable(str(exc)), err=True)
        sys.exit(exit_of(exc))


if __name__ == "__main__":
    main()
