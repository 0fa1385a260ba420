"""`turngate web`: access to the web chat."""

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
)

app = typer.Typer(name="web", no_args_is_help=True, help="Open the web chat of the running daemon.")


@app.callback()
def web() -> None:
    """Group callback: without it, typer would make `link` the group itself."""


@app.command()
def link(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Print a new one-time link that gives one browser access."""
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of

    made = state_of(config, state_dir).ask_daemon("web.link")
    if json:
        print_document(made)
    else:
        typer.echo(made["url"] if isinstance(made, dict) else made)
