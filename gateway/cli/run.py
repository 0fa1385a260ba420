"""`turngate run`: the daemon, in the foreground."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Never

import typer

from turngate.gateway.cli.exits import exit_of
from turngate.gateway.cli.options import ConfigFile, StateDir
from turngate.gateway.cli.printable import printable
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.domain.errors import ConfigError, TurngateError

if TYPE_CHECKING:
    from turngate.config.load import Loaded, Service

_PATIENCE = 2.0  # a short command may be at work in the state folder


def run(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """Run the gateway until Ctrl-C or SIGTERM. Without a config: the echo agent, and a web chat on this machine."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _leave)
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGHUP}
    )  # the daemon hears of it when it can do something

    from turngate.config.load import load, service
    from turngate.gateway.daemon.sd_notify import is_journal

    surroundings = service()
    to_journal = is_journal(sys.stderr.fileno(), surroundings.journal)
    try:
        _run(partial(load, config, state_dir), surroundings, to_journal=to_journal)
    except TurngateError as exc:
        if not to_journal:
            raise
        _tell_journal(str(exc), priority=3)
        raise typer.Exit(exit_of(exc)) from exc


def _run(load: Callable[[], Loaded], service: Service, *, to_journal: bool) -> None:
    loaded = load()
    for warning in loaded.warnings:
        if to_journal:
            _tell_journal(warning, priority=4)
        else:
            typer.echo(warning, err=True)
    # What comes next takes a second to load. Whoever is not the first need not wait for it.
    with take_lock(loaded.config.state_dir, patience=_PATIENCE) as lock:
        import asyncio

        from turngate.gateway.daemon.process import Daemon

        daemon = Daemon(loaded, load, lock, service)
        try:
            asyncio.run(daemon.run())
        except ConfigError as exc:
            raise loaded.located(exc) from exc
        finally:
            daemon.log_to_the_end()


def _tell_journal(text: str, *, priority: int) -> None:
    """Others read it, too: where the mistakes are, and not what the file says there, which `turngate check` shows."""
    from turngate.config.problems import without_values

    for line in without_values(text).splitlines():
        typer.echo(f"<{priority}>{printable(line)}", err=True)


def _leave(number: int, frame: FrameType | None) -> Never:
    """As long as nothing is open there is nothing to finish. At once: an exception can get lost where it is raised."""
    os._exit(0)
