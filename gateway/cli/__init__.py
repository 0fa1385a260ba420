"""
CLI commands, one file per family: parse, call, print. A command imports what it needs when it runs.
"""

from typing import Annotated

import typer

from turngate.gateway import __version__
from turngate.gateway.cli import (
    agents,
    backup,
    chat,
    check,
    config,
    pair,
    queue,
    repair,
    run,
    service,
    sessions,
    slack,
    status,
    usage,
    web,
)
from turngate.gateway.cli import help as help_command

app = typer.Typer(
    no_args_is_help=True,
    # A plain traceback shows no variables, which may contain secrets.
    pretty_exceptions_enable=False,
    help="A messaging gateway daemon: people write to a bot, any AI agent answers, no message is "
    "lost.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"turngate {__version__}")
        raise typer.Exit


@app.callback()
def turngate(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Hold the options that come before a command."""


app.command("help")(help_command.show_help)
app.command()(run.run)
app.command()(chat.chat)
app.command()(status.status)
app.add_typer(sessions.app)
app.add_typer(agents.app)
app.add_typer(queue.app)
app.command()(queue.trace)
app.add_typer(pair.app)
app.command()(usage.usage)
app.command()(backup.backup)
app.command()(backup.restore)
app.command()(repair.repair)
app.add_typer(slack.app)
app.add_typer(web.app)
app.command()(check.check)
app.add_typer(service.app)
app.add_typer(config.app)
