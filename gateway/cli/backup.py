"""`turngate backup` and `turngate restore`: copy the database into one file, and back."""

from pathlib import Path
from typing import Annotated

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
)

_MOVED = (
    "No daemon has run since the backup was made: continue its open work, and catch up on "
    "messages since then."
)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """
    Copy the database into one file, verified, while the daemon works or without it. Holds no keys,
    no secrets.
    """
    from turngate.gateway.cli.backup_text import print_backup, refuse_target
    from turngate.gateway.cli.progress import Progress
    from turngate.gateway.cli.state_access import state_of
    from turngate.gateway.daemon.state_dir import StateDir as Folder
    from turngate.gateway.stores.sqlite.backup import back_up

    state = Folder(state_of(config, state_dir).folder.absolute())
    refuse_target(file, state.path, force=force)
    # Copied through a read-only connection of our own: the daemon is not involved.
    with Progress() as progress:
        contents = back_up(state.database, file, progress)

    print_backup(file, contents, state, as_json=json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    moved: Annotated[bool, typer.Option("--moved", help=_MOVED)] = False,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """
    Put a backup in the place of the database once it is verified; what was there is kept. Stop the
    daemon first.
    """
    from turngate.gateway.cli.backup_text import print_restored
    from turngate.gateway.cli.progress import Progress
    from turngate.gateway.cli.state_access import state_of
    from turngate.gateway.daemon.state_dir import take_lock
    from turngate.gateway.daemon.system_clock import SystemClock
    from turngate.gateway.stores.sqlite.restore import restore as put_back

    folder = state_of(config, state_dir).folder
    with take_lock(folder, timeout=1.0, command=True) as lock, Progress() as progress:
        restored = put_back(
            file, lock.state.database, SystemClock().now(), moved=moved, tell=progress
        )

    print_restored(file, restored, lock.state, moved=moved, as_json=json)
