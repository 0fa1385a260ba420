"""
CLI commands, one file per family: parse, call, print. A command imports what it needs when it runs.
"""

import typer

from turngate.gateway.cli import (
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

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # A plain traceback shows no variables, which may contain secrets.
    pretty_exceptions_enable=False,
    help="A messaging gateway daemon: people write to a bot, any AI agent answers, no message is "
    "lost.",
)


@app.callback()
def turngate() -> None:
    """Root callback: without it, typer would make a single command the program itself."""


app.command()(run.run)
app.command()(chat.chat)
app.command()(status.status)
app.add_typer(sessions.app)
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
