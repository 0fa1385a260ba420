"""Text output of `status`."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from turngate.gateway.cli.printable import printable_line
from turngate.gateway.cli.tables import (
    age,
    counted,
    line,
    table,
    terminal,
)
from turngate.gateway.domain.serialization import Json


def print_status(found: dict[str, Json], folder: Path) -> None:
    """Print the state first, then the numbers behind it."""
    console = terminal()

    for words in (_headline(found, folder), *_store_lines(found)):
        console.print(words, soft_wrap=True)
        console.print()

    numbers = table("WORK", "", "", flexible="")
    for name, first, second in (
        ("lanes", "busy", "waiting"),
        ("inbox", "waiting", "dead"),
        ("outbox", "waiting", "dead"),
    ):
        counts = found.get(name)
        if isinstance(counts, dict):
            numbers.add_row(name, _count(counts, first), _count(counts, second))

    console.print(numbers)
    accounts = found.get("accounts")
    if isinstance(accounts, list) and accounts:
        console.print()
        console.print(_accounts(accounts))

    _print_backup(found.get("backup"))


def print_store_unusable(folder: Path) -> None:
    """Print the headline; the error itself is printed to stderr like any other."""
    terminal().print(
        f"No daemon runs for {printable_line(str(folder))}, and none can start with this store:"
    )


def _headline(status: dict[str, Json], folder: Path) -> str:
    if status.get("pid") is None:
        return f"No daemon runs for {printable_line(str(folder))}; start it with `turngate run`."
    state = "ready" if status.get("ready") else "not ready"
    return f"The daemon is {state} (pid {status['pid']}, started {age(status.get('since'))})."


def _accounts(accounts: list[Json]) -> Table:
    shown = table("ACCOUNT", "STATE", "PROGRESS", "REASON", flexible="REASON")
    for account in accounts:
        if isinstance(account, dict):
            name = f"{account.get('platform')}/{account.get('account')}"
            progress = age(account.get("last_progress_at"))
            shown.add_row(
                line(name),
                line(account.get("state")),
                progress,
                Text(printable_line(str(account.get("reason") or ""))),
            )

    return shown


def _print_backup(backup: Json) -> None:
    if not isinstance(backup, dict):
        return
    last = f"Last backup {age(backup['last_at'])}" if backup.get("last_at") else "No backup yet"
    typer.echo(f"\n{last}, in {printable_line(str(backup.get('folder')))}.")
    if backup.get("reason"):
        typer.echo(f"The last attempt failed: {printable_line(str(backup['reason']))}", err=True)


def _count(counts: dict[str, Json], what: str) -> str:
    # None: the store could not be read.
    number = counts.get(what)
    return f"{'?' if number is None else number} {what}"


def _store_error(status: dict[str, Json]) -> str | None:
    store = status.get("store")
    return (
        printable_line(str(store.get("reason")))
        if isinstance(store, dict) and not store.get("ok")
        else None
    )


def _store_warnings(status: dict[str, Json]) -> list[str]:
    """Return what an operator should look at although everything works."""
    store = status.get("store")
    found = store if isinstance(store, dict) else {}
    lines = []
    damaged = found.get("damaged_rows")
    if isinstance(damaged, int) and damaged:
        rows = counted(damaged, "damaged row is", "damaged rows are")
        lines.append(f"{rows} set aside; `turngate repair` tells more.")

    size = found.get("log_bytes")
    if found.get("no_checkpoint_since") is not None and isinstance(size, int):
        lines.append(
            f"The database's log has {size / 1e6:,.0f} MB and grows: the last checkpoint that came "
            f"through was {age(found['no_checkpoint_since'])}, because another process keeps "
            "reading the database. End it."
        )
    return lines


def _store_lines(status: dict[str, Json]) -> list[str]:
    """Return what is wrong with the store, and that no message is lost by it."""
    error = _store_error(status)
    if error is None:
        return _store_warnings(status)

    lines = [f"THE STORE TAKES NO WRITES: {error}"]
    if status.get("pid") is not None:
        lines.append(
            "New messages are not acknowledged: the platforms keep them and deliver them again."
        )

    return lines
