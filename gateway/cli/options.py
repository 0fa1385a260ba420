"""The options that every command takes."""

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The config file.", show_default="the first that exists"),
]
StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", help="Where state is kept.", show_default="what the config says"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
