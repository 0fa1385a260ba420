"""`turngate repair`: show damaged rows, and rebuild what can be rebuilt."""

from typing import Annotated

import typer

from turngate.gateway.cli.options import ConfigFile, Json, StateDir


def repair(
    apply: Annotated[
        bool, typer.Option("--apply", help="Rebuild what can be rebuilt; without it only show.")
    ] = False,
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Read every row, show which are damaged, and rebuild what can be rebuilt of them."""
    from turngate.gateway.cli.repair_text import print_repair
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of

    found = state_of(config, state_dir).ask("repair", {"apply": apply})
    if json:
        print_document(found)
    else:
        print_repair(found)
