"""Text output of `sessions`."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.text import Text

from turngate.gateway.cli.printable import printable, printable_line
from turngate.gateway.cli.tables import (
    age,
    chat_of,
    counted,
    line,
    local_time,
    short_id,
    table,
    terminal,
)
from turngate.gateway.domain.serialization import Json

_NARROW = 70
_TITLE = 60
_STYLES = {"user": "bold cyan", "assistant": "bold green"}


def print_document(document: Json) -> None:
    """Print one JSON document, as ASCII: safe on any terminal and the same for every program."""
    typer.echo(json.dumps(document, indent=2))


def described(session: Json) -> str:
    """Describe a session in one line."""
    found = _fields(session)
    named = printable_line(str(found.get("title") or found.get("preview") or ""))[:_TITLE]
    words = f" “{named}”" if named else ""
    return f"{found.get('id')}{words} ({counted(_number(found.get('messages')), 'message')})"


def print_sessions(sessions: list[Json], *, more: bool) -> None:
    """Print a table that fits the terminal."""
    if not sessions:
        typer.echo("No sessions found.")
        return

    console = terminal()
    is_narrow = console.width < _NARROW
    columns = (
        ("ID", "TITLE", "USED") if is_narrow else ("ID", "TITLE", "WHERE", "MESSAGES", "USED", "")
    )
    shown = table(*columns, flexible="TITLE")

    for session in map(_fields, sessions):
        cells = [line(short_id(session["id"])), _title(session)]
        if not is_narrow:
            messages = Text(f"{_number(session['messages']):,}", justify="right")
            cells += [line(chat_of(session["key"])), messages]
        cells.append(Text(age(session["last_interaction_at"])))
        shown.add_row(*cells, *([] if is_narrow else [Text(_state(session), style="dim")]))

    console.print(shown)
    if more:
        typer.echo(f"There are more than {len(sessions)}; --limit shows them.", err=True)


def print_conversation(session: dict[str, Json], entries: list[Json]) -> None:
    """Print the session's fields, then its entries."""
    console = terminal()
    console.print(_title(session), style="bold", soft_wrap=True)

    facts = [
        ("id", session["id"]),
        ("key", session["key"]),
        (
            "started",
            f"{local_time(session['started_at'])}, used {age(session['last_interaction_at'])}",
        ),
        ("messages", f"{_number(session['messages']):,}"),
        ("tokens", f"{_number(_fields(session['tokens'])['total']):,}"),
        ("state", _state(session) or "current"),
        *([("goal", session["goal"])] if session.get("goal") else []),
    ]
    for name, value in facts:
        console.print(Text.assemble((f"{name:<9}", "dim"), line(value)), soft_wrap=True)

    for entry in map(_fields, entries):
        _print_entry(console, entry)

    damaged = session.get("damaged")
    if isinstance(damaged, list) and damaged:
        unreadable = counted(len(damaged), "entry cannot", "entries cannot")
        typer.echo(f"{unreadable} be read; restore from a backup.", err=True)


def print_hits(hits: list[Json]) -> None:
    """Print where each hit is, and its beginning."""
    if not hits:
        typer.echo("Nothing found. Each word must be the beginning of a word in the same message.")
        return

    console = terminal()
    for hit in map(_fields, hits):
        entry = _fields(hit["entry"])
        title = f"{hit['title']}  " if hit["title"] else ""
        head = Text.assemble(
            (short_id(hit["session"]), "bold"), "  ", (age(entry["at"]), "dim"), "  ", line(title)
        )
        console.print(head, no_wrap=True, overflow="ellipsis")
        words = Text.assemble(("  " + str(entry["role"]) + ": ", "dim"), line(_text(entry)))
        console.print(words, no_wrap=True, overflow="ellipsis")


def print_pruned(pruned: Json) -> None:
    """Print the counts."""
    found = {name: _number(number) for name, number in _fields(pruned).items()}
    typer.echo(
        f"Deleted {counted(found['deleted'], 'session')} and "
        f"{counted(found['entries'], 'message')}, "
        f"archived {counted(found['archived'], 'old session')}, "
        f"deleted {counted(found['forgotten'], 'record')} of settled work."
    )


def _print_entry(console: Console, entry: dict[str, Json]) -> None:
    role = str(entry["role"])
    who = role if not entry.get("sender") else f"{role} {printable_line(str(entry['sender']))}"
    about = (
        local_time(entry["at"])
        if entry["origin"] == "chat"
        else f"{local_time(entry['at'])}, {entry['origin']}"
    )
    console.print()
    console.print(Text.assemble((who, _STYLES.get(role, "bold")), (f"  {about}", "dim")))
    text = _text(entry)

    if text:
        console.print(Text(printable(text)), soft_wrap=True)


def _text(entry: dict[str, Json]) -> str:
    """Return the entry's text, files and tool calls."""
    blocks = entry["content"] if isinstance(entry["content"], list) else []
    lines = [_block(_fields(block)) for block in blocks]
    calls = entry.get("tool_calls")
    lines += [
        f"[calls {_fields(call).get('name')}]"
        for call in (calls if isinstance(calls, list) else [])
    ]
    return "\n".join(lines)


def _block(block: dict[str, Json]) -> str:
    if block.get("type") == "text":
        return str(block.get("text", ""))
    named = block.get("name") or block.get("path")
    return f"[{block.get('type')}: {named}]" if named else f"[{block.get('type')}]"


def _title(session: dict[str, Json]) -> Text:
    if session["title"]:
        return line(session["title"])
    return (
        line(session["preview"]) if session["preview"] else Text("(no messages yet)", style="dim")
    )


def _state(session: dict[str, Json]) -> str:
    words = [
        "important" if session["important"] else "",
        "archived" if session["archived"] else "",
        "" if session["current"] else "ended",
    ]
    return ", ".join(word for word in words if word)


def _fields(value: Json) -> dict[str, Json]:
    """Return the fields of an answer. It comes from our own daemon and has the contract's shape."""
    return value if isinstance(value, dict) else {}


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
