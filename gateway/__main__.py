"""
The command line's front door. Imports no SDK, no driver and no config, so that `--help` costs
nothing.
"""

import os
import sys

import typer

from turngate.gateway.cli import app
from turngate.gateway.cli.exits import Exit, exit_of
from turngate.gateway.cli.printable import printable
from turngate.gateway.domain.errors import TurngateError
from turngate.gateway.observability.error_text import code_location, whole_reason


def main() -> None:
    """`turngate`, and the same as `python -m gateway`."""
    _open_standard_streams()
    try:
        app(prog_name="turngate")
    except TurngateError as exc:
        typer.echo(printable(whole_reason(exc)), err=True)
        sys.exit(exit_of(exc))
    except Exception as exc:  # noqa: BLE001 - a bug; what it says may be somebody's words, and where it is helps more
        bug = (
            f"turngate broke down ({type(exc).__name__} at {code_location(exc)}); please "
            "report this as a bug"
        )
        typer.echo(bug, err=True)
        sys.exit(Exit.FAILED)


def _open_standard_streams() -> None:
    """
    What the caller closed leads nowhere. Otherwise the next file opened, say the database, would be
    in its place.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


if __name__ == "__main__":
    main()
