"""`turngate run`: the daemon, in the foreground."""

import signal
import sys
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

    surroundings = service()
    try:
        loaded = load(config, state_dir)
    except ConfigError as exc:
        raise ConfigError(_told(str(exc), surroundings.journal)) from exc
    for warning in loaded.warnings:
        typer.echo(_told(warning, surroundings.journal), err=True)
    # What comes next takes a second to load. Whoever is not the first need not wait for it.
    with take_lock(loaded.config.state_dir, patience=_PATIENCE) as lock:
        import asyncio

        from gateway.cli.daemon import Daemon

        daemon = Daemon(loaded, partial(load, config, state_dir), lock, surroundings)
        try:
            asyncio.run(daemon.run())
        except ConfigError as exc:
            raise loaded.located(exc) from exc
        finally:
            daemon.log_to_the_end()


def _told(mistakes: str, journal: str | None) -> str:
    """In full to whoever started us; to a journal that others read, without what the file says."""
    from config.mistakes import without_values
    from gateway.logs import Form, form_of

    leads_to = form_of(sys.stderr.fileno(), journal=journal, colours=False)
    return without_values(mistakes) if leads_to is Form.JOURNAL else mistakes


def _leave(number: int, frame: FrameType | None) -> Never:
    """As long as nothing is open there is nothing to finish."""
    sys.exit(0)
