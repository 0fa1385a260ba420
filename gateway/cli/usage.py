"""`turngate usage`: tokens and cost."""

from typing import Annotated, Literal

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
)


def usage(
    by: Annotated[
        Literal["user", "chat", "agent", "day"], typer.Option(help="What to group by.")
    ] = "day",
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DAY", help="Only since that day (2026-05-04).", show_default="the beginning"
        ),
    ] = None,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Show how many tokens were used, and what they cost."""
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of
    from turngate.gateway.cli.usage_text import print_usage

    found = state_of(config, state_dir).ask("usage", {"by": by, "since": since})
    if json:
        print_document(found)
    else:
        print_usage(found)
