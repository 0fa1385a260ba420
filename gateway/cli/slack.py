"""`turngate slack`: the app manifest for Slack."""

from typing import Annotated

import typer

from turngate.gateway.cli.options import ConfigFile, StateDir

app = typer.Typer(name="slack", no_args_is_help=True, help="Set up an app at Slack.")

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Where Slack reaches the gateway by HTTP, such as https://example.org/slack/events. "
        "Without: Socket Mode.",
    ),
]
Name = Annotated[
    str,
    typer.Option("--name", metavar="NAME", help="What the app and its bot are called at Slack."),
]


@app.callback()
def slack() -> None:
    """Group callback: without it, typer would make `manifest` the group itself."""


@app.command()
def manifest(
    config: ConfigFile = None, state_dir: StateDir = None, url: Url = None, name: Name = "Turngate"
) -> None:
    """
    Print the manifest that makes an app at https://api.slack.com/apps, with exactly the scopes and
    events in use.
    """
    import json

    from turngate.adapters.slack.app.manifest import LONGEST_NAME, Command
    from turngate.adapters.slack.app.manifest import manifest as made
    from turngate.gateway.commands import COMMANDS

    if url is not None and not url.startswith("https://"):
        raise typer.BadParameter("Slack sends to https:// only", param_hint="--url")
    if not 0 < len(name.strip()) <= LONGEST_NAME:
        raise typer.BadParameter(f"a name has 1 to {LONGEST_NAME} characters", param_hint="--name")
    commands = [
        Command(name=command.name, summary=command.summary, hint=command.argument)
        for command in COMMANDS.commands
        if command.is_listed
    ]
    typer.echo(json.dumps(made(commands, name=name.strip(), url=url), indent=2, ensure_ascii=False))
