"""`turngate status`: the daemon's state, and what waits."""

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
)


def status(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """
    Show the daemon, its accounts, running and waiting work, and errors.

    Exit status: 0 if it is ready, 1 if it is not, 3 if none runs.
    """
    from turngate.gateway.cli.exits import Exit
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of
    from turngate.gateway.cli.status_text import print_status, print_store_unusable
    from turngate.gateway.daemon.control.status import (
        DaemonStatus,
        StoreStatus,
        status_json,
    )
    from turngate.gateway.domain.errors import StoreError

    state = state_of(config, state_dir)
    try:
        answer = state.ask("status")
        found = answer if isinstance(answer, dict) else {}
    except StoreError as exc:
        # No daemon runs, and the store cannot be opened: that is the status.
        if json:
            print_document(status_json(DaemonStatus(), None, StoreStatus(reason=str(exc))))
        else:
            print_store_unusable(state.folder)
        raise

    if json:
        print_document(found)
    else:
        print_status(found, state.folder)

    if found.get("pid") is None:
        raise typer.Exit(Exit.NOT_RUNNING)
    if not found.get("ready"):
        raise typer.Exit(Exit.FAILED)
