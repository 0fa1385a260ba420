"""`turngate run`: the daemon, in the foreground."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Never

import typer

from turngate.gateway.cli.exits import exit_of
from turngate.gateway.cli.options import ConfigFile, StateDir
from turngate.gateway.cli.printable import printable
from turngate.gateway.daemon.state_dir import access_warnings, wait_for_lock
from turngate.gateway.domain.errors import CommandRuns, ConfigError, TurngateError

if TYPE_CHECKING:
    from turngate.config.load import Loaded, Service
    from turngate.gateway.daemon.sd_notify import Systemd

# More than the time between two calls of `_WaitingNotice`.
_STARTS_WITHIN = timedelta(minutes=1)


def run(config: ConfigFile = None, state_dir: StateDir = None) -> None:
    """
    Run the gateway until Ctrl-C or SIGTERM. Without a config: the echo agent, and a web chat on
    this machine.
    """
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
    from turngate.gateway.daemon.sd_notify import Systemd

    warn = partial(_write_to_journal, priority=4) if to_journal else partial(typer.echo, err=True)
    loaded = load()
    for warning in (*loaded.warnings, *access_warnings(loaded.config.state_dir)):
        warn(warning)

    # Take the lock before the slow imports, so that a second daemon fails at once.
    waiting = _WaitingNotice(Systemd(service.notify_socket), warn)
    with wait_for_lock(loaded.config.state_dir, waiting.tell) as lock:
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


class _WaitingNotice:
    """Tells the operator and the service manager what the start is waiting for."""

    def __init__(self, systemd: Systemd, warn: Callable[[str], object]) -> None:
        self._systemd = systemd
        self._warn = warn
        self._told: set[int | None] = set()

    def tell(self, runs: CommandRuns) -> None:
        """Report that a command holds the state folder; in the log once for each command."""
        if runs.pid not in self._told:
            self._told.add(runs.pid)
            self._warn(f"waiting: {runs}")
        self._systemd.starting(_STARTS_WITHIN)
        self._systemd.status(f"Waiting for process {runs.pid}, a command, to end.")


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
