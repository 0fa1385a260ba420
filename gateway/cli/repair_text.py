"""Text output of `repair`."""

from __future__ import annotations

import typer

from turngate.gateway.cli.tables import line, table, terminal
from turngate.gateway.domain.serialization import Json


def print_repair(found: Json) -> None:
    """Print each damaged row with what was done about it, or that there is none."""
    document = found if isinstance(found, dict) else {}
    listed = document.get("damaged")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    if not rows:
        typer.echo("Every row is what was written.")
        return

    shown = table("WHERE", "ROW", "STATE", "WHAT TO DO", flexible="WHAT TO DO")
    for row in rows:
        shown.add_row(
            line(row["place"]), line(row["row"]), line(_state(row)), line(row.get("advice") or "")
        )
    terminal().print(shown)

    if not document.get("applied") and any(row.get("repairable") for row in rows):
        typer.echo("Nothing was changed; `turngate repair --apply` rebuilds what can be rebuilt.")


def _state(row: dict[str, Json]) -> str:
    if row.get("repaired"):
        return "rebuilt"
    return "can be rebuilt" if row.get("repairable") else "set aside"
