"""Text output of `backup` and `restore`."""

from __future__ import annotations

from pathlib import Path

import typer

from turngate.gateway.cli.sessions_text import print_document
from turngate.gateway.cli.tables import age, counted
from turngate.gateway.daemon.state_dir import StateDir
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.serialization import Json
from turngate.gateway.stores.sqlite.restore import Restored
from turngate.gateway.stores.sqlite.verify import Contents


def refuse_target(file: Path, state: Path, *, force: bool) -> None:
    """
    Reject a backup target in the state folder, which holds the database and the keys, and existing
    files.
    """
    # Resolve the parent only: `file` itself may be a link, which is rejected below.
    if file.absolute().parent.resolve() == state.resolve():
        raise Refused(f"{file} is in the state folder; choose another folder")
    if not file.exists() and not file.is_symlink():
        return
    # A link could lead into the state folder.
    if not file.is_file() or file.is_symlink():
        raise Refused(f"{file} exists and is not a regular file; choose another name")
    if not force:
        raise Refused(f"{file} already exists; choose another name, or pass --force to replace it")


def print_backup(file: Path, contents: Contents, state: StateDir, *, as_json: bool) -> None:
    """Print what was written and what was left out."""
    left_out = [str(path) for path in (state.privacy_key, state.web_key, state.files)]
    if as_json:
        print_document(
            {
                "file": str(file),
                **_json(contents),
                "left_out": [*left_out, "the config and its secrets"],
            }
        )
        return

    checked = (
        "verified"
        if contents.rows_checked
        else "of an older schema: its rows are verified when it is restored"
    )
    typer.echo(f"Wrote {file}: {_words(contents)}, {checked}.")
    typer.echo(
        "It contains the database only. Left out: privacy.key, web.key, the config with its "
        "secrets, and the folder of files that users sent. With another privacy.key, agents see "
        "other pseudonyms; keep a copy of it apart from the backups: both together reveal who "
        "is who."
    )


def print_restored(
    file: Path, restored: Restored, state: StateDir, *, moved: bool, as_json: bool
) -> None:
    """
    Print what was restored, where the old database is, and what may have changed since the backup.
    """
    contents = restored.contents
    aside = restored.aside
    if as_json:
        replaced = None if aside is None else str(aside)
        print_document({"file": str(file), **_json(contents), "replaced": replaced, "moved": moved})
        return

    typer.echo(
        f"Restored {file}: {_words(contents)}, verified; last used {age(_moment(contents))}."
    )
    if aside is not None:
        typer.echo(
            f"The previous database is kept as {aside}; delete it when you no longer need it."
        )

    if contents.open_work and not moved:
        typer.echo(
            f"Open when it was made: {counted(contents.open_work, 'message')}. They may have "
            "been answered since, so they are not processed: `turngate queue list` shows them, "
            "`turngate queue retry` retries one."
        )

    typer.echo(
        "Pairings (`turngate pair list`) are again as they were in the backup."
        f" Start the daemon with `turngate run --state-dir {state.path}` or as a service."
    )


def _words(contents: Contents) -> str:
    sessions = counted(contents.sessions, "session")
    entries = counted(contents.entries, "entry", "entries")
    return f"{sessions}, {entries}, {contents.size / 1_000_000:,.1f} MB"


def _json(contents: Contents) -> dict[str, Json]:
    return {
        "schema": contents.schema,
        "bytes": contents.size,
        "sessions": contents.sessions,
        "entries": contents.entries,
        "open_work": contents.open_work,
        "last_used_at": _moment(contents),
    }


def _moment(contents: Contents) -> str | None:
    return None if contents.newest is None else contents.newest.isoformat()
