"""`turngate web`: the way into the web chat."""

import typer

from turngate.gateway.cli.options import ConfigFile, Json, StateDir

app = typer.Typer(name="web", no_args_is_help=True, help="Open the web chat of the running daemon.")


@app.callback()
def web() -> None:
    """Keeps `link` a command of its own."""


@app.command()
def link(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Print a fresh link that lets one browser in, once."""
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of

    made = state_of(config, state_dir).ask_daemon("web.link")
    if json:
        print_document(made)
    else:
        typer.echo(made["url"] if isinstance(made, dict) else made)
