"""`turngate help`: the same text as --help."""

from typing import Annotated

import typer


def show_help(
    command: Annotated[
        list[str] | None, typer.Argument(help="A command, such as sessions show.")
    ] = None,
) -> None:
    """Show what a command does, or list all commands."""
    # The app imports this module.
    from turngate.gateway.cli import app

    app([*(command or ()), "--help"], prog_name="turngate")
