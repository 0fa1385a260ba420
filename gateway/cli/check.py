"""`turngate check`: validate the config."""

from typing import TYPE_CHECKING, Annotated

import typer

from turngate.gateway.cli.exits import Exit
from turngate.gateway.cli.options import ConfigFile, StateDir
from turngate.gateway.cli.printable import printable
from turngate.gateway.domain.errors import ConfigError

if TYPE_CHECKING:
    from turngate.config.load import Loaded
    from turngate.config.schema import Access, Config

Online = Annotated[
    bool, typer.Option("--online", help="Also check each account with its platform.")
]


def check(config: ConfigFile = None, state_dir: StateDir = None, online: Online = False) -> None:
    """Validate the config: all errors at once, each with its position and a remedy."""
    from turngate.config.load import load

    loaded = load(config, state_dir)
    # Under the strict unit itself, `load` reports the same warnings: dedupe, keep the order.
    for warning in dict.fromkeys((*loaded.warnings, *_under_strict_unit(loaded))):
        typer.echo(warning, err=True)
    if loaded.agents:
        _make_agents(loaded)
    if loaded.file is None:
        typer.echo("There is no config file, and none is needed: the defaults are in effect.")
    else:
        typer.echo(f"{loaded.file} is valid.")
    typer.echo(_who_may_talk(loaded.config.access))
    if online and not _works(loaded.config):
        raise typer.Exit(Exit.FAILED)


def _under_strict_unit(loaded: "Loaded") -> tuple[str, ...]:
    from turngate.config.load import strict_unit_warnings
    from turngate.gateway.cli.systemd_units import is_strict

    return (
        strict_unit_warnings(loaded.config)
        if loaded.file and is_strict(loaded.file.absolute())
        else ()
    )


def _make_agents(loaded: "Loaded") -> None:
    """Create every agent, because some mistakes only show then. No agent is called."""
    import asyncio

    from turngate.gateway.daemon.agent_pool import AgentPool
    from turngate.gateway.observability.observer import Observer

    async def make() -> None:
        pool = AgentPool(Observer())
        await pool.load(loaded.config)
        await pool.close()

    try:
        asyncio.run(make())
    except ConfigError as exc:
        raise loaded.located(exc) from exc


def _works(config: "Config") -> bool:
    import asyncio

    return asyncio.run(_examine(config))


async def _examine(config: "Config") -> bool:
    """Whether every account would work."""
    from turngate.gateway.daemon.platforms import examined

    works, count = True, 0
    async for (platform, account), findings in examined(config):
        count += 1
        for finding in findings:
            works = works and not finding.is_error
            mark = "error: " if finding.is_error else ""
            typer.echo(printable(f"{platform}/{account}: {mark}{finding.words}"))
    if not count:
        typer.echo("No account of any platform is configured.")
    return works


def _who_may_talk(access: "Access") -> str:
    """Return who has access, in one sentence: the setting that matters most."""
    direct = {
        "pairing": "unknown users who write directly get a pairing code",
        "listed": "unknown users who write directly get no reply",
        "open-dangerously": "EVERYONE may write directly",
    }
    answered = {"mention": "what is addressed to the bot", "all": "everything", "off": "nothing"}
    named = f"{len(access.allow)} allowed, {len(access.admins)} admins"
    return (
        f"Access: {named}; {direct[access.direct]}; in allowed chats "
        f"{answered[access.groups]} is answered."
    )
