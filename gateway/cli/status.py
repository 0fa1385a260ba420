"""`turngate status`: how the daemon is, and what waits."""

from turngate.gateway.cli.options import ConfigFile, Json, StateDir


def status(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Show the daemon, its accounts, what is being worked on and what waits; and what is wrong, if something is."""
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of
    from turngate.gateway.cli.status_text import print_status, print_that_none_can_run
    from turngate.gateway.daemon.control.status import DaemonStatus, StoreStatus, status_json
    from turngate.gateway.domain.errors import StoreError

    state = state_of(config, state_dir)
    try:
        found = state.ask("status")
    except StoreError as exc:  # no daemon runs, and what is wrong with the store is the answer
        if json:
            print_document(status_json(DaemonStatus(), None, StoreStatus(reason=str(exc))))
        else:
            print_that_none_can_run(state.folder)
        raise
    if json:
        print_document(found)
    else:
        print_status(found, state.folder)
