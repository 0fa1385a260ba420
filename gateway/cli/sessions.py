"""`turngate sessions`: list, read, search, change and export sessions."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
    duration,
)

if TYPE_CHECKING:
    from turngate.gateway.domain.serialization import Json as JsonValue

app = typer.Typer(
    name="sessions", no_args_is_help=True, help="List, read, search and manage sessions."
)

_DEFAULT_LIMIT = 50

Id = Annotated[
    str, typer.Argument(metavar="ID", help="The session's id, or a unique prefix of it.")
]

Entry = Annotated[
    str, typer.Argument(metavar="ENTRY", help="The message's id, as `sessions show --json` has it.")
]


@app.command("list")
def list_(
    active_within: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            help="Only sessions with a message in that time (90s, 24h, 7d).",
        ),
    ] = None,
    archived: Annotated[
        bool | None,
        typer.Option(help="Only archived sessions, or only the others.", show_default="both"),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Only sessions of this key.")] = None,
    owner: Annotated[
        str | None, typer.Option(help="Only sessions of this user (PLATFORM:ID).")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most N.", show_default="50; all with --json"),
    ] = None,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """List sessions, the one used last first."""
    from turngate.gateway.cli.sessions_text import print_document, print_sessions
    from turngate.gateway.cli.state_access import state_of

    # One more than shown tells whether there are more.
    most = limit or (None if json else _DEFAULT_LIMIT + 1)
    wanted = {
        "active_within": active_within,
        "archived": archived,
        "key": key,
        "owner": owner,
        "limit": most,
    }
    found = state_of(config, state_dir).items("sessions.list", wanted)

    if json:
        print_document({"sessions": found})
    else:
        print_sessions(
            found[: limit or _DEFAULT_LIMIT], more=limit is None and len(found) > _DEFAULT_LIMIT
        )


@app.command()
def show(
    session: Id,
    last: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only the last N entries.")
    ] = None,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Print one session."""
    from turngate.gateway.cli.sessions_text import print_conversation, print_document
    from turngate.gateway.cli.state_access import state_of

    entries: list[JsonValue] = []
    shown = state_of(config, state_dir).ask(
        "sessions.show", {"id": session, "last": last}, entries.append
    )
    assert isinstance(shown, dict)  # noqa: S101 - narrows the type for mypy

    if json:
        print_document(shown | {"entries": entries})
    else:
        print_conversation(shown, entries)


@app.command()
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help="Words that the message must contain.")
    ],
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most N.")] = 20,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Find messages, the newest first."""
    from turngate.gateway.cli.sessions_text import print_document, print_hits
    from turngate.gateway.cli.state_access import state_of

    hits = state_of(config, state_dir).items(
        "sessions.search", {"words": " ".join(words), "limit": limit}
    )
    if json:
        print_document({"hits": hits})
    else:
        print_hits(hits)


@app.command()
def export(
    session: Id,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write.",
            show_default="standard output",
        ),
    ] = None,
    config: ConfigFile = None,
    state_dir: StateDir = None,
) -> None:
    """Write one session as JSON lines: the session itself, then each entry, then a closing line."""
    from turngate.gateway.cli.export_file import exported_to
    from turngate.gateway.cli.state_access import state_of

    # The spinner and the printed lines would overwrite each other on a terminal.
    prints_items = output is None and sys.stdout.isatty()
    with exported_to(output) as write:
        state_of(config, state_dir).ask(
            "sessions.export", {"id": session}, write, prints_items=prints_items
        )


@app.command()
def rename(
    session: Id,
    title: Annotated[str, typer.Argument(metavar="TITLE", help='The new title; "" removes it.')],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Give a session a title."""
    _do("sessions.rename", "Renamed", config, state_dir, json, id=session, title=title)


@app.command()
def archive(
    session: Id,
    undo: Annotated[bool, typer.Option("--undo", help="Unarchive it.")] = False,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Archive a session. It stays readable and searchable."""
    _do(
        "sessions.archive",
        "Unarchived" if undo else "Archived",
        config,
        state_dir,
        json,
        id=session,
        undo=undo,
    )


@app.command()
def goal(
    session: Id,
    text: Annotated[str, typer.Argument(metavar="GOAL", help='What to aim at; "" removes it.')],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Give a session a goal, which its agent is told with every message."""
    _do("sessions.goal", "Set the goal", config, state_dir, json, id=session, goal=text)


@app.command()
def important(
    session: Id,
    undo: Annotated[bool, typer.Option("--undo", help="It is not important any more.")] = False,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Mark a session as important: no clean-up deletes or archives it."""
    done = "Not important any more" if undo else "Marked as important"
    _do("sessions.important", done, config, state_dir, json, id=session, undo=undo)


@app.command()
def edit(
    session: Id,
    entry: Entry,
    text: Annotated[str, typer.Argument(metavar="TEXT", help='The new text; "-": from stdin.')],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Replace the text of one message in the transcript. The platform's copy stays as it is."""
    words = sys.stdin.read() if text == "-" else text
    _do("sessions.edit", "Edited", config, state_dir, json, id=session, entry=entry, text=words)


@app.command("delete-entry")
def delete_entry(
    session: Id,
    entry: Entry,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Delete one message of the transcript. The platform's copy stays. This cannot be undone."""
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to confirm on; pass --yes to delete")

    if not yes:
        typer.confirm(f"Delete message {entry} of {session} permanently?", abort=True, err=True)

    done = f"Deleted {entry}"
    _do("sessions.delete-entry", done, config, state_dir, json, id=session, entry=entry)


@app.command()
def reset(
    session: Id, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """Reset this session: the next message starts a new one. Messages are kept."""
    _do("sessions.reset", "Reset", config, state_dir, json, id=session)


@app.command()
def resume(
    session: Id, config: ConfigFile = None, state_dir: StateDir = None, json: Json = False
) -> None:
    """Resume this session: the next message in its chat continues it."""
    _do("sessions.resume", "Resumed", config, state_dir, json, id=session)


@app.command()
def delete(
    session: Id,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Delete a session with all its messages. This cannot be undone."""
    from turngate.gateway.cli.sessions_text import described
    from turngate.gateway.cli.state_access import state_of

    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to confirm on; pass --yes to delete")

    if not yes:
        found = state_of(config, state_dir).ask("sessions.show", {"id": session, "last": 0})
        # Show which session the prefix means before anything is deleted.
        typer.confirm(f"Delete {described(found)} permanently?", abort=True, err=True)
        # Delete by the whole id: since the question, the prefix may have become ambiguous.
        session = (
            found["id"] if isinstance(found, dict) and isinstance(found["id"], str) else session
        )

    _do("sessions.delete", "Deleted", config, state_dir, json, id=session)


@app.command()
def prune(
    empty_after: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration, metavar="DURATION", help="Delete sessions without messages after this."
        ),
    ] = None,
    archive_after: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration, metavar="DURATION", help="Archive sessions unused for this long."
        ),
    ] = None,
    forget_after: Annotated[
        timedelta | None,
        typer.Option(
            parser=duration, metavar="DURATION", help="Delete records of settled work after this."
        ),
    ] = None,
    keep: Annotated[
        timedelta | None,
        typer.Option(parser=duration, metavar="DURATION", help="Delete messages older than this."),
    ] = None,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """
    Clean up now, as the hourly sweep does: delete empty sessions and expired messages, archive old
    sessions, delete records of settled work. Important sessions are kept. Ages that are not given
    come from the config.
    """
    from turngate.gateway.cli.sessions_text import print_document, print_pruned
    from turngate.gateway.cli.state_access import state_of

    ages = {
        "empty_after": empty_after,
        "archive_after": archive_after,
        "forget_after": forget_after,
        "keep": keep,
    }
    pruned = state_of(config, state_dir).ask("sessions.prune", ages)
    if json:
        print_document(pruned)
    else:
        print_pruned(pruned)


def _do(
    verb: str,
    done: str,
    config: Path | None,
    state_dir: Path | None,
    json: bool,
    **args: str | bool | None,
) -> None:
    """Change one session and print it."""
    from turngate.gateway.cli.sessions_text import described, print_document
    from turngate.gateway.cli.state_access import state_of

    changed = state_of(config, state_dir).ask(verb, args)
    if json:
        print_document(changed)
    else:
        typer.echo(f"{done}: {described(changed)}.")
