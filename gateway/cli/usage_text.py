"""Text output of `usage`."""

from __future__ import annotations

import typer
from rich.text import Text

from turngate.gateway.cli.tables import (
    counted,
    line,
    table,
    terminal,
)
from turngate.gateway.domain.serialization import Json
from turngate.gateway.rules.budgets import money

_MOST_SHOWN = 50


def print_usage(found: Json) -> None:
    """Print one line each, the latest day or the largest sum first, and the total."""
    answer = _fields(found)
    by = str(answer.get("by"))
    listed = answer.get("usage")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    if not rows:
        typer.echo("No usage recorded.")
        return

    rows.sort(key=lambda row: str(row["day"]) if by == "day" else _size(row), reverse=True)
    total = _fields(answer.get("total"))
    shown = table(
        by.upper(), "TURNS", "INPUT", "OUTPUT", "CACHED", "TOKENS", "COST", flexible=by.upper()
    )

    for row in rows[:_MOST_SHOWN]:
        shown.add_row(line(row[by] or "(unknown)", "bold"), *map(_right, _cells(row)))

    if len(rows) > 1:
        shown.add_row(Text("all", style="dim"), *map(_right, _cells(total)))

    terminal().print(shown)
    _print_remarks(len(rows), total)


def _print_remarks(count: int, total: dict[str, Json]) -> None:
    if count > _MOST_SHOWN:
        typer.echo(
            f"Showing the first {_MOST_SHOWN} of {count:,}; --json shows all.",
            err=True,
        )

    if estimated := _number(total.get("estimated_turns")):
        typer.echo(
            f"~ {counted(estimated, 'turn')} reported no tokens; theirs are estimated from the "
            "text.",
            err=True,
        )

    if unpriced := _number(total.get("unpriced_turns")):
        cure = "agents.NAME.price in the config says what an agent costs"
        typer.echo(f"+ {counted(unpriced, 'turn')} had no known price; {cure}.", err=True)


def _cells(row: dict[str, Json]) -> list[str]:
    tokens = _fields(row["tokens"])
    cached = _number(tokens["cache_read"]) + _number(tokens["cache_write"])
    counts = [_number(row["turns"]), _number(tokens["input"]), _number(tokens["output"]), cached]
    # Marks sums that contain estimates.
    about = "~" if row["estimated_turns"] else ""
    return [*(f"{count:,}" for count in counts), f"{about}{_number(tokens['total']):,}", _cost(row)]


def _cost(row: dict[str, Json]) -> str:
    usd = row["cost_usd"]
    if not isinstance(usd, int | float):
        return "?"
    return money(usd) + ("+" if row["unpriced_turns"] else "")


def _size(row: dict[str, Json]) -> tuple[float, int]:
    usd = row["cost_usd"]
    return (usd if isinstance(usd, int | float) else 0.0), _number(_fields(row["tokens"])["total"])


def _right(cell: str) -> Text:
    return Text(cell, justify="right")


def _fields(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
