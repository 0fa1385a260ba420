"""Text output of `pair`."""

from __future__ import annotations

import typer

from turngate.gateway.cli.printable import printable_line
from turngate.gateway.cli.tables import (
    age,
    line,
    local_time,
    table,
    terminal,
)
from turngate.gateway.domain.serialization import Json


def print_people(found: Json) -> None:
    """Print one line per user, or that there are none."""
    approved = _rows(found, "approved")
    pending = _rows(found, "pending")
    if not approved and not pending:
        typer.echo("No paired users and no pending requests.")
        return

    shown = table("WHO", "STATE", "SINCE", "BY", flexible="BY")
    for row in approved:
        shown.add_row(line(row["who"], "bold"), "approved", age(row["at"]), line(row["by"]))

    for row in pending:
        until = f"code valid until {local_time(row['until'])}"
        shown.add_row(line(row["who"], "bold"), "pending", age(row["asked_at"]), until)

    terminal().print(shown)
    for row in _rows(found, "exhausted"):
        account = printable_line(f"{row['platform']}/{row['account']}")
        typer.echo(
            f"\n{account}: all {row['codes']} codes are in use, so nobody else gets one before "
            f"{local_time(row['until'])}. `turngate pair revoke WHO` frees the code of somebody "
            "you do not know; `access.pairing_codes` in the config allows more at once."
        )


def print_approved(found: Json) -> None:
    typer.echo(f"{_who(found)} may now talk to the bot in direct messages, and is notified.")


def print_revoked(found: Json) -> None:
    names = ", ".join(map(_who, _rows(found, "revoked")))
    typer.echo(f"Access revoked: {names}.")


def _who(found: Json) -> str:
    return printable_line(str(found["who"])) if isinstance(found, dict) else ""


def _rows(found: Json, name: str) -> list[dict[str, Json]]:
    rows = found.get(name) if isinstance(found, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
