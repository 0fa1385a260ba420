"""`turngate run`: the daemon, in the foreground."""

import os
import signal
from functools import partial
from types import FrameType
from typing import Never

import typer

from gateway.cli.options import ConfigFile, StateDir
from gateway.errors import ConfigError
from gateway.state_dir import take_lock

_PATIENCE = 2.0  # a short command may be at work in the state folder


def run(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """Run the gateway until Ctrl-C or SIGTERM. Without a config: the echo agent, and a web chat on this machine."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _leave)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # the daemon hears of it when it can do something

    from config.load import load, service

    loaded = load(config, state_dir)
    for warning in loaded.warnings:
        typer.echo(warning, err=True)
    # What comes next takes a second to load. Whoever is not the first need not wait for it.
    with take_lock(loaded.config.state_dir, patience=_PATIENCE) as lock:
        import asyncio

        from gateway.cli.daemon import Daemon

        daemon = Daemon(loaded, partial(load, config, state_dir), lock, service())
        try:
            asyncio.run(daemon.run())
        except ConfigError as exc:
            raise loaded.located(exc) from exc


def _leave(number: int, frame: FrameType | None) -> Never:
    """As long as nothing is open there is nothing to finish. At once: an exception can get lost where it is raised."""
    os._exit(0)
