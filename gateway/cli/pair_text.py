"""People who were let in, and those who ask to be, for people to read."""

from __future__ import annotations

import typer

from turngate.gateway.cli.printable import printable_line
from turngate.gateway.cli.tables import age, line, local_time, table, terminal
from turngate.gateway.domain.serialization import Json


def print_people(found: Json) -> None:
    """One line each, or that there is nobody."""
    approved, pending = _rows(found, "approved"), _rows(found, "pending")
    if not approved and not pending:
        typer.echo("Nobody was paired, and nobody asks to be.")
        return
    shown = table("WHO", "STATE", "SINCE", "BY", yielding="BY")
    for row in approved:
        shown.add_row(line(row["who"], "bold"), "let in", age(row["at"]), line(row["by"]))
    for row in pending:
        until = f"asks for it, with a code that is good until {local_time(row['until'])}"
        shown.add_row(line(row["who"], "bold"), "waits", age(row["asked_at"]), until)
    terminal().print(shown)


def print_approved(found: Json) -> None:
    """Who it was."""
    typer.echo(f"{_who(found)} can talk to the bot now, in direct messages, and is told so.")


def print_revoked(found: Json) -> None:
    """Who it was."""
    names = ", ".join(map(_who, _rows(found, "revoked")))
    typer.echo(f"No longer let in: {names}.")


def _who(found: Json) -> str:
    return printable_line(str(found["who"])) if isinstance(found, dict) else ""


def _rows(found: Json, name: str) -> list[dict[str, Json]]:
    rows = found.get(name) if isinstance(found, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
