"""`turngate check`: is the config right?"""

from typing import TYPE_CHECKING

import typer

from gateway.cli.options import ConfigFile, StateDir

if TYPE_CHECKING:
    from config.schema import Access


def check(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """Validate the config: every mistake at once, each with its place and its cure."""
    from config.load import load

    loaded = load(config, state_dir)
    for warning in loaded.warnings:
        typer.echo(warning, err=True)
    if loaded.file is None:
        typer.echo("There is no config file, and none is needed: the defaults are in effect.")
    else:
        typer.echo(f"{loaded.file} is valid.")
    typer.echo(_who_may_talk(loaded.config.access))


def _who_may_talk(access: "Access") -> str:
    """The door in a sentence: what it is set to matters more than any other key."""
    direct = {
        "pairing": "strangers who write directly get a pairing code",
        "listed": "strangers who write directly hear nothing",
        "open-dangerously": "EVERYBODY may write directly",
    }
    answered = {"mention": "what is addressed to the bot", "all": "everything", "off": "nothing"}
    named = f"{len(access.allow)} allowed, {len(access.admins)} admins"
    return f"Who may talk: {named}; {direct[access.direct]}; in allowed chats {answered[access.groups]} is answered."
