"""`turngate queue`: inbound and outbound work, and dead letters."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
)

if TYPE_CHECKING:
    from turngate.gateway.domain.serialization import Json as Document

app = typer.Typer(
    name="queue",
    no_args_is_help=True,
    help="List waiting work and dead letters; retry or drop them.",
)

Row = Annotated[str, typer.Argument(metavar="ID", help="As `queue list` calls it: in12 or out7.")]


@app.command("list")
def list_(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """List everything that is waiting, failed, refused or dead."""
    from turngate.gateway.cli.queue_text import print_queue

    _print("queue.list", print_queue, config, state_dir, json)


@app.command()
def show(
    row: Row, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """Show one of them, with its text and its steps."""
    from turngate.gateway.cli.queue_text import print_row

    _print("queue.show", print_row, config, state_dir, json, row)


@app.command()
def retry(
    row: Row, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """Retry something that failed, is dead or was refused."""
    from turngate.gateway.cli.queue_text import print_retried

    _print("queue.retry", print_retried, config, state_dir, json, row)


@app.command()
def drop(
    row: Row, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """Drop something for good. The text of a message is deleted."""
    from turngate.gateway.cli.queue_text import print_dropped

    _print("queue.drop", print_dropped, config, state_dir, json, row)


def trace(
    message: Annotated[
        str, typer.Argument(metavar="ID", help="in12, or the platform's message id.")
    ],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Show the steps of one message, with times."""
    from turngate.gateway.cli.queue_text import print_trace

    _print("trace", print_trace, config, state_dir, json, message)


def _print(
    verb: str,
    print_text: "Callable[[Document], None]",
    config: Path | None,
    state_dir: Path | None,
    json: bool,
    row: str | None = None,
) -> None:
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of

    found = state_of(config, state_dir).ask(verb, {} if row is None else {"id": row})
    if json:
        print_document(found)
    else:
        print_text(found)
