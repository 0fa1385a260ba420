"""`turngate run`: the daemon, in the foreground."""

import signal
import sys
from typing import TYPE_CHECKING

import typer

from gateway.cli.options import ConfigFile, StateDir
from gateway.errors import Unauthorized
from gateway.state_dir import Lock, take_lock

if TYPE_CHECKING:
    import asyncio

    from config.schema import Config
    from gateway.app import Gateway

_PATIENCE = 2.0  # a short command may be at work in the state folder


def run(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """Run the gateway until Ctrl-C or SIGTERM. Without a config: the echo agent, and a web chat on this machine."""
    import asyncio

    from config.load import load

    loaded = load(config, state_dir)
    for warning in loaded.warnings:
        typer.echo(warning, err=True)
    with take_lock(loaded.config.state_dir, patience=_PATIENCE) as lock:
        asyncio.run(_serve(loaded.config, lock))


async def _serve(config: "Config", lock: Lock) -> None:
    import asyncio

    from gateway.app import running
    from gateway.observe import configure_logging

    configure_logging(config.log.level, sys.stderr)
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopping.set)
    async with running(config, lock, doors=True) as gateway:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, lambda: gateway.hurry.set() if stopping.is_set() else stopping.set())
        if gateway.web is not None:
            typer.echo(f"Open {gateway.web.link()} in a browser on this machine.")
            typer.echo("The link works once; `turngate web link` makes another. Ctrl-C stops the gateway.")
        else:
            typer.echo("The gateway runs without a web door. `turngate chat` talks to it; Ctrl-C stops it.")
        await _until_over(gateway, stopping)


async def _until_over(gateway: "Gateway", stopping: "asyncio.Event") -> None:
    """Until it is asked to stop. Raises Unauthorized if there is nobody left who could be heard."""
    import asyncio

    asked = asyncio.ensure_future(stopping.wait())
    refused = asyncio.ensure_future(gateway.until_refused())
    await asyncio.wait({asked, refused}, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    refused.cancel()
    if not stopping.is_set():
        raise Unauthorized(
            "every account was refused and there is no web door; `turngate check --online` says what is wrong"
        )
