"""`turngate status`: how the daemon is, and what waits."""

from gateway.cli.options import ConfigFile, Json, StateDir


def status(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Show the daemon, its accounts, what is being worked on and what waits."""
    from gateway.cli.asking import state_of
    from gateway.cli.sessions_text import print_document
    from gateway.cli.status_text import print_status

    state = state_of(config, state_dir)
    found = state.ask("status")
    if json:
        print_document(found)
    else:
        print_status(found, state.folder)
