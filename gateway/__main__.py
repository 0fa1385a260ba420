"""
Entry point of the command line. Imports no SDK, no driver and no config, so that `--help` is fast.
"""

import os
import sys

import typer

from turngate.gateway import __version__
from turngate.gateway.cli import app
from turngate.gateway.cli.exits import Exit, exit_of
from turngate.gateway.cli.printable import printable
from turngate.gateway.domain.errors import TurngateError
from turngate.gateway.observability.error_text import code_location, whole_reason


def main() -> None:
    """Run a command and exit with its code: `turngate`, or `python -m turngate`."""
    _open_standard_streams()
    try:
        app(prog_name="turngate")
    except TurngateError as exc:
        typer.echo(printable(whole_reason(exc)), err=True)
        sys.exit(exit_of(exc))
    # The text of an unexpected error may quote a user's message, so only its type and location are
    # printed.
    except Exception as exc:  # noqa: BLE001 - a bug in a command, whatever it is
        bug = (
            f"turngate {__version__} failed ({type(exc).__name__} at {code_location(exc)}); please "
            "report this as a bug"
        )
        typer.echo(bug, err=True)
        sys.exit(Exit.FAILED)


def _open_standard_streams() -> None:
    """
    Open /dev/null for each standard stream that the caller closed. Otherwise the next file opened,
    such as the database, would get its descriptor, and output would be written into it.
    """
    # os.open returns the lowest free descriptor, so the loop ends when 0 to 2 are all taken.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    # Python sets a stream to None if its descriptor was closed at start.
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


if __name__ == "__main__":
    main()
