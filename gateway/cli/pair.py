"""`turngate pair`: who may talk to the bot."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.options import ConfigFile, Json, StateDir

if TYPE_CHECKING:
    from turngate.gateway.domain.serialization import Json as Document

app = typer.Typer(
    name="pair", no_args_is_help=True, help="See who asks to talk to the bot; let people in or out."
)


@app.command("list")
def list_(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Everybody who was let in by a pairing code, and everybody who waits for it."""
    from turngate.gateway.cli.pair_text import print_people

    _print("pair.list", {}, print_people, config, state_dir, json)


@app.command()
def approve(
    code: Annotated[
        str, typer.Argument(metavar="CODE", help="The code that the person was given.")
    ],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Let in whoever was given this code. Five wrong ones lock this command for an hour."""
    from turngate.gateway.cli.pair_text import print_approved

    _print("pair.approve", {"code": code}, print_approved, config, state_dir, json)


@app.command()
def revoke(
    who: Annotated[
        str, typer.Argument(metavar="WHO", help="As `pair list` says it: telegram:12345.")
    ],
    config: ConfigFile = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Let somebody in no longer. Who is in the config stays allowed by it."""
    from turngate.gateway.cli.pair_text import print_revoked

    _print("pair.revoke", {"who": who}, print_revoked, config, state_dir, json)


def _print(
    verb: str,
    args: dict[str, str],
    show_people: "Callable[[Document], None]",
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
        show_people(found)
