"""`turngate pair`: who may talk to the bot."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
)

if TYPE_CHECKING:
    from turngate.gateway.domain.serialization import Json as Document

app = typer.Typer(
    name="pair", no_args_is_help=True, help="List pairing requests; approve or revoke users."
)


@app.command("list")
def list_(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """List the users approved by pairing, and the pending requests."""
    from turngate.gateway.cli.pair_text import print_people

    _print("pair.list", {}, print_people, config, state_dir, json)


@app.command()
def approve(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code that the user was given.")],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Approve the user who was given this code. Five wrong codes lock this command for an hour."""
    from turngate.gateway.cli.pair_text import print_approved

    _print("pair.approve", {"code": code}, print_approved, config, state_dir, json)


@app.command()
def revoke(
    who: Annotated[
        str, typer.Argument(metavar="WHO", help="As `pair list` shows it: PLATFORM:ID.")
    ],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Revoke a pairing. Users allowed by the config stay allowed."""
    from turngate.gateway.cli.pair_text import print_revoked

    _print("pair.revoke", {"who": who}, print_revoked, config, state_dir, json)


def _print(
    verb: str,
    args: dict[str, str],
    print_text: "Callable[[Document], None]",
    config: Path | None,
    state_dir: Path | None,
    json: bool,
) -> None:
    from turngate.gateway.cli.sessions_text import print_document
    from turngate.gateway.cli.state_access import state_of

    found = state_of(config, state_dir).ask(verb, args)
    if json:
        print_document(found)
    else:
        print_text(found)
