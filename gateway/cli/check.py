"""`turngate check`: validate the config, and look at what it names."""

from typing import Annotated

import typer

from turngate.gateway.cli.exits import Exit
from turngate.gateway.cli.options import ConfigFile, Json, StateDir
from turngate.gateway.domain.errors import ConfigError

Online = Annotated[
    bool, typer.Option("--online", help="Also ask each platform and each agent's server.")
]


def check(
    config: ConfigFile = None,
    state_dir: StateDir = None,
    online: Online = False,
    json: Json = False,
) -> None:
    """Validate the config, and look for the libraries and programs that it needs."""
    import asyncio

    from turngate.config.load import load
    from turngate.gateway.cli.check_text import Report, look, print_report, under_strict_unit
    from turngate.gateway.daemon.state_dir import access_warnings

    report = Report(json)
    try:
        loaded = load(config, state_dir)
        # Under the strict unit itself, `load` reports the same warnings: dedupe, keep the order.
        found = (
            *loaded.warnings,
            *access_warnings(loaded.config.state_dir),
            *under_strict_unit(loaded),
        )
        warnings = tuple(dict.fromkeys(found))
        if not json:
            for warning in warnings:
                typer.echo(warning, err=True)
        asyncio.run(look(loaded, report, online=online))
    except ConfigError as exc:
        if json:
            print_report(None, (), report, str(exc).splitlines())
        raise

    if json:
        print_report(loaded.file, warnings, report, [])
    if not report.is_good:
        raise typer.Exit(Exit.FAILED)
