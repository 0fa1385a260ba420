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
from turngate.gateway.daemon.process_access import close_to_others
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.domain.errors import ConfigError, TurngateError

if TYPE_CHECKING:
    from turngate.config.load import Loaded, Service

# A short command may be using the state folder.
_LOCK_TIMEOUT = 2.0


def run(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """
    Run the gateway until Ctrl-C or SIGTERM. Without a config: the echo agent, and a web chat on
    this machine.
    """
    close_to_others()

    # Before the slow imports: a signal during them must end the process without a traceback.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _exit_now)

    # Blocked until the daemon can handle it; the default would end the process.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})

    from turngate.config.load import load, service
    from turngate.gateway.observability.journal import is_journal

    environment = service()
    to_journal = is_journal(sys.stderr.fileno(), environment.journal)

    try:
        _run(partial(load, config, state_dir), environment, to_journal=to_journal)
    except TurngateError as exc:
        if not to_journal:
            raise
        # Priorities of syslog: 3 is an error, 4 a warning.
        _write_to_journal(str(exc), priority=3)
        raise typer.Exit(exit_of(exc)) from exc


def _run(load: Callable[[], Loaded], service: Service, *, to_journal: bool) -> None:
    loaded = load()
    for warning in loaded.warnings:
        if to_journal:
            _write_to_journal(warning, priority=4)
        else:
            typer.echo(warning, err=True)

    # Take the lock before the slow imports, so that a second daemon fails at once.
    with take_lock(loaded.config.state_dir, timeout=_LOCK_TIMEOUT) as lock:
        import asyncio

        from turngate.gateway.daemon.process import Daemon

        daemon = Daemon(loaded, load, lock, service)
        try:
            asyncio.run(daemon.run())
        except ConfigError as exc:
            # Found while starting: add the position in the config file.
            raise loaded.located(exc) from exc
        finally:
            daemon.log_to_the_end()


def _write_to_journal(text: str, *, priority: int) -> None:
    """
    Write to the journal without config values: others can read it. `turngate check` shows the
    values.
    """
    from turngate.config.problems import without_values

    for line in without_values(text).splitlines():
        typer.echo(f"<{priority}>{printable(line)}", err=True)


def _exit_now(number: int, frame: FrameType | None) -> Never:
    """
    Exit on a signal before anything is open. At once, because an exception from a signal handler
    can be swallowed.
    """
    os._exit(0)
