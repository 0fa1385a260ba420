"""Options that every command takes, and shared value types."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="The config file.", show_default="the first that exists"
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="Where state is kept.",
        show_default="what the config says",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def duration(written: str) -> timedelta:
    """Parse a duration as in the config: 90s, 30m, 24h, 7d."""
    from turngate.config.fields import duration_of

    try:
        return duration_of(written)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from None
