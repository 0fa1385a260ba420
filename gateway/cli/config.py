"""`turngate config`: show the effective config and the schema."""

import typer

from turngate.gateway.cli.options import (
    ConfigFile,
    Json,
    StateDir,
)

app = typer.Typer(
    name="config", no_args_is_help=True, help="Show the config, or the schema it follows."
)


@app.command()
def show(config: ConfigFile = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Print the effective config, with secrets masked."""
    from turngate.config.load import load
    from turngate.config.show import as_json, as_yaml

    loaded = load(config, state_dir)
    if json:
        typer.echo(as_json(loaded.config))
        return
    typer.echo(f"# {loaded.file or 'the defaults: there is no config file'}")
    typer.echo(as_yaml(loaded.config), nl=False)


@app.command()
def schema(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """Print the JSON Schema of the config, for editors. It is the same whatever the file says."""
    from json import dumps

    from turngate.config.show import json_schema

    typer.echo(dumps(json_schema(), indent=2))
