"""`turngate queue`: inbound and outbound work, and dead letters."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.options import ConfigFile, Json, StateDir

if TYPE_CHECKING:
    from turngate.gateway.domain.serialization import Json as Document

app = typer.Typer(
    name="queue",
    no_args_is_help=True,
    help="See work that waits or was given up; retry or drop it.",
)

Row = Annotated[str, typer.Argument(metavar="ID", help="As `queue list` calls it: in12 or out7.")]


@app.command("list")
def list_(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Everything that is on its way, failed, was refused or has died."""
    from turngate.gateway.cli.queue_text import print_queue

    _print("queue.list", print_queue, config, state_dir, json)


@app.command()
def show(
    row: Row, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """One of them, with its words and what happened to it."""
    from turngate.gateway.cli.queue_text import print_row

    _print("queue.show", print_row, config, state_dir, json, row)


@app.command()
def retry(
    row: Row, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """Take something that failed, died or was refused back to work."""
    from turngate.gateway.cli.queue_text import print_retried

    _print("queue.retry", print_retried, config, state_dir, json, row)


@app.command()
def drop(
    row: Row, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """Give something up for good. A message loses its words."""
    from turngate.gateway.cli.queue_text import print_dropped

    _print("queue.drop", print_dropped, config, state_dir, json, row)


def trace(
    message: Annotated[
        str, typer.Argument(metavar="ID", help="in12, or the platform's own id of the message.")
    ],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Tell one message's life, step by step, with times."""
    from turngate.gateway.cli.queue_text import print_trace

    _print("trace", print_trace, config, state_dir, json, message)


def _print(
    verb: str,
    show_people: "Callable[[Document], None]",
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
        show_people(found)
