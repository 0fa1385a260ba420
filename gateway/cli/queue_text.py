"""Text output of `queue` and `trace`."""

from __future__ import annotations

from datetime import datetime

import typer
from rich.console import Console
from rich.text import Text

from turngate.gateway.cli.printable import printable
from turngate.gateway.cli.tables import (
    chat_of,
    line,
    table,
    terminal,
)
from turngate.gateway.domain.serialization import Json

_STYLES = {
    "dead": "bold red",
    "failed": "red",
    "refused": "yellow",
    "sent": "green",
    "done": "green",
}


def print_queue(queue: Json) -> None:
    """Print both directions, or that the queue is empty."""
    found = _fields(queue)
    rows = [_fields(row) for name in ("inbox", "outbox") for row in _rows(found.get(name))]
    if not rows:
        typer.echo("No waiting work and no dead letters.")
        return

    shown = table("ID", "STATE", "WHERE", "AGE", "TRIES", "REASON", flexible="REASON")
    for row in rows:
        state = str(row["state"])
        shown.add_row(
            line(row["id"], "bold"),
            Text(state, style=_STYLES.get(state, "")),
            line(chat_of(row["key"]) if row["key"] else "-"),
            _age(row["age_s"]),
            str(row["attempts"]),
            line(row["reason"] or ""),
        )

    terminal().print(shown)


def print_row(row: Json) -> None:
    """Print its fields, its text and its steps."""
    found = _fields(row)
    console = terminal()

    for name in ("id", "state", "key", "attempts", "reason"):
        if found.get(name) is not None:
            console.print(Text.assemble((f"{name:<9}", "dim"), line(found[name])), soft_wrap=True)

    if found.get("text"):
        console.print()
        console.print(Text(printable(str(found["text"]))), soft_wrap=True)

    if found.get("raw"):
        console.print()
        console.print(Text(printable(str(found["raw"]))), soft_wrap=True)

    if found.get("steps"):
        console.print()
        _print_steps(console, found["steps"])


def print_retried(row: Json) -> None:
    found = _fields(row)
    if found.get("state") == "refused":
        typer.echo(f"{found.get('id')} was read and is not answered: {found.get('reason')}.")
    else:
        typer.echo(f"{found.get('id')} is queued again ({found.get('state')}).")


def print_dropped(row: Json) -> None:
    typer.echo(f"{_fields(row).get('id')} was dropped.")


def print_trace(trace: Json) -> None:
    """Print the message in one line, then its steps."""
    found = _fields(trace)
    console = terminal()
    message = _fields(found.get("message"))
    session = f", session {message.get('session')}" if message.get("session") else ""
    head = f"{message.get('id')} ({message.get('message_id')}) is {message.get('state')}{session}"
    console.print(line(head, "bold"))
    _print_steps(console, found.get("steps"))


def _print_steps(console: Console, steps: Json) -> None:
    """Print each step with its time and the time since the previous one."""
    before: datetime | None = None

    for step in map(_fields, _rows(steps)):
        at = datetime.fromisoformat(str(step["at"]))
        # The gap shows where a message spent its time.
        later = "" if before is None else f"+{(at - before).total_seconds():.3f} s"
        word = str(step["step"])

        console.print(
            Text.assemble(
                (f"{at.astimezone():%Y-%m-%d %H:%M:%S.%f}  ", "dim"),
                (f"{later:>12}  ", "dim"),
                (f"{word:<14}", _STYLES.get(word, "")),
                line(step.get("detail") or ""),
            ),
            soft_wrap=True,
        )
        before = at


def _age(seconds: Json) -> str:
    value = float(seconds) if isinstance(seconds, int | float) else 0.0
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if value >= size:
            return f"{int(value // size)}{unit}"
    return f"{int(value)}s"


def _fields(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _rows(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
