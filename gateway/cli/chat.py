"""`turngate chat`: talk to the agent from this terminal, or from a script."""

import sys
from typing import Annotated

import typer

from turngate.gateway.cli.exits import Exit
from turngate.gateway.cli.options import ConfigFile, StateDir
from turngate.gateway.cli.printable import printable_line

_LONGEST_NAME = 64


def _session_name(name: str | None) -> str | None:
    if name is None:
        return None
    # The name becomes a thread id, and thread 0 means no thread: the main conversation.
    if not name or printable_line(name) != name or len(name) > _LONGEST_NAME or name == "0":
        raise typer.BadParameter(
            f"this cannot be a name; use a word of at most {_LONGEST_NAME} characters, and not 0"
        )
    return name


def chat(
    session: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_session_name,
            help="A conversation of its own under this name.",
        ),
    ] = None,
    config: ConfigFile = None,
    state_dir: StateDir = None,
) -> None:
    """
    Talk to the agent. Ctrl-C stops an answer, Ctrl-D leaves.

    Without a terminal, all of standard input is one message, and the answer alone goes to standard
    output; a line that is a command (/new) stands for itself. Everything else goes to standard
    error, and the exit status is 1 if there is no whole answer.
    """
    from turngate.config.load import load
    from turngate.gateway.cli.chat_connection import open_chat
    from turngate.gateway.cli.chat_piped import read_piped, send_piped
    from turngate.gateway.cli.chat_terminal import run_chat

    # Secrets are read only if a gateway has to be started here.
    folder = load(config, state_dir, secrets=False).config.state_dir
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    # Read before connecting: unusable input is refused without starting a gateway.
    piped = "" if is_terminal else read_piped(sys.stdin.buffer)

    with open_chat(folder, lambda: load(config, state_dir).config, session) as line:
        if is_terminal:
            run_chat(line, folder)
        else:
            is_answered = send_piped(line, piped)

    # After the connection was closed in order.
    if not is_terminal and not is_answered:
        raise typer.Exit(Exit.FAILED)
