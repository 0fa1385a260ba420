"""
Run the daemon process: handle signals, notify the service manager.

SIGTERM and SIGINT stop it in order, a second one immediately; SIGHUP reloads the config. Imported
by `run` once the state folder is locked, because its imports take time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import typer

from turngate.config.load import (
    Loaded,
    Service,
    wants_colours,
)
from turngate.config.problems import without_values
from turngate.gateway.daemon.account_supervisor import AccountState
from turngate.gateway.daemon.app import running, working
from turngate.gateway.daemon.control.status import DaemonStatus, StoreStatus
from turngate.gateway.daemon.gateway import Gateway
from turngate.gateway.daemon.sd_notify import Systemd
from turngate.gateway.daemon.state_dir import Lock
from turngate.gateway.domain.errors import (
    ConfigError,
    TurngateError,
    Unauthorized,
)
from turngate.gateway.observability.log_writer import LogWriter
from turngate.gateway.observability.logs import (
    Log,
    form_of,
    lost_lines,
    tell_crashes,
)
from turngate.gateway.observability.loop_watchdog import StallProbe

TO_CLOSE = timedelta(seconds=4.5)
"""For everything that comes after the drain."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HURRIED = timedelta(seconds=1)
_LONGEST_SILENCE = 1.0
_LOOKS_FOR_REPEATS = 5.0
_TO_READ_THE_LOG = 1.0


class Daemon:
    """One run of the daemon. `load` reads the config again."""

    def __init__(
        self, loaded: Loaded, load: Callable[[], Loaded], lock: Lock, service: Service
    ) -> None:
        self._loaded = loaded
        self._load = load
        self._lock = lock
        self._systemd = Systemd(service.notify_socket)
        # systemd kills a daemon that is silent for the watchdog's timeout: send three in that time.
        self._silence = min(
            _LONGEST_SILENCE, service.watchdog.total_seconds() / 3 if service.watchdog else 1.0
        )
        self._gateway: Gateway | None = None
        self._asked_to_stop = asyncio.Event()
        self._asked_to_reload = asyncio.Event()
        # Once the terminal is closed, stdin is no tty any more: `_hang_up` compares the two.
        self._has_terminal = sys.stdin.isatty()
        descriptor = sys.stderr.fileno()
        self._sink = LogWriter(descriptor, lost_lines)
        form = form_of(descriptor, journal=service.journal, colours=wants_colours())

        self._log = Log(self._sink.write, form)

    def log_to_the_end(self) -> None:
        """Give the log writer a moment to finish before the process ends."""
        self._sink.flush(_TO_READ_THE_LOG)

    async def run(self) -> None:
        """Run until asked to stop. Raises Unauthorized if no account and no web server is left."""
        self._configure_log(self._loaded)
        tell_crashes()
        self._listen(asyncio.current_task())

        try:
            # `beside` is the outer block: watchdog signals and log lines go on during the drain.
            async with (
                working() as beside,
                running(self._loaded.config, self._lock, doors=True) as gateway,
            ):
                self._gateway = gateway
                gateway.metrics_snapshot.lines_lost = lambda: self._sink.lost
                for chore in (
                    self._report(gateway),
                    self._tell_repeats(),
                    self._reload_when_asked(gateway),
                    StallProbe(gateway.observer).run(),
                ):
                    beside.create_task(chore, name="chore")
                _welcome(gateway)
                self._systemd.ready()
                await self._until_over(gateway)
        except asyncio.CancelledError:
            # A signal during the start cancels this task; that is a normal end.
            if not self._asked_to_stop.is_set():
                raise
        finally:
            # Everything is closed, and a handler would call into a loop that is closed as well.
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_IGN)

    def _listen(self, starting: asyncio.Task[None] | None) -> None:
        """
        Install signal handlers. The event loop's own would be reset to the default, which kills,
        when the loop closes before the process ends.
        """
        loop = asyncio.get_running_loop()
        reactions = (self._stop, self._stop, self._hang_up)
        # Handlers run between any two bytecodes of the main thread, and a sleeping loop does not
        # notice them: the reaction is passed to the loop, which this call also wakes.
        for each, react in zip(_SIGNALS, reactions, strict=True):
            signal.signal(each, lambda *_, react=react: loop.call_soon_threadsafe(react, starting))
        # `run` has blocked it since the start; one that came during the imports is delivered now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def _stop(self, starting: asyncio.Task[None] | None) -> None:
        """
        Stop in order. During the start there is nothing to drain, and a second signal stops
        immediately.
        """
        is_second = self._asked_to_stop.is_set()
        self._asked_to_stop.set()

        if self._gateway is not None:
            # However long the stop takes, and even if it is cut short, it is no crash.
            self._gateway.run_record.stopped()

        if self._gateway is None:
            if starting is not None:
                starting.cancel()
            self._leave_after(TO_CLOSE)
        elif is_second:
            self._gateway.hurry.set()
            self._leave_after(_HURRIED)
        else:
            longest = self._gateway.drain + TO_CLOSE
            # `turns.drain` may be longer than the unit's TimeoutStopSec: ask for the time.
            self._systemd.stopping(longest)
            self._leave_after(longest)

    def _leave_after(self, longest: timedelta) -> None:
        """
        End the process after this time, whatever is still open. Nothing is lost: what was
        acknowledged is on disk.

        Uses a thread, because the event loop may be what hangs.
        """

        def leave() -> None:
            if self._gateway is not None:
                self._gateway.observer.closing_takes_too_long()
            # Bounded, because a blocked reader of the log must not keep the process.
            self._sink.flush(_HURRIED.total_seconds() / 4)
            # `sys.exit` would end this thread only. Status 0: nothing is lost, so it is no failure.
            os._exit(0)

        timer = threading.Timer(longest.total_seconds(), leave)
        # Otherwise the interpreter would wait for the timer after an end in time.
        timer.daemon = True
        timer.start()

    def _hang_up(self, starting: asyncio.Task[None] | None) -> None:
        """Handle SIGHUP: a reload, or, if the terminal was closed, a stop."""
        if self._has_terminal and not sys.stdin.isatty():
            self._stop(starting)
        else:
            self._asked_to_reload.set()

    async def _until_over(self, gateway: Gateway) -> None:
        asked = asyncio.ensure_future(self._asked_to_stop.wait())
        refused = asyncio.ensure_future(gateway.until_refused())
        await asyncio.wait({asked, refused}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        refused.cancel()
        if not self._asked_to_stop.is_set():
            raise Unauthorized(
                "every account was refused and there is no web server; `turngate check --online` "
                "says what is wrong"
            )

    async def _report(self, gateway: Gateway) -> None:
        """
        Send the watchdog signal and the status line to systemd. A blocked event loop sends nothing.
        """
        while self._systemd.listens:
            self._systemd.alive()
            is_stopping = self._asked_to_stop.is_set()
            self._systemd.status(
                "Finishing what runs." if is_stopping else status_line(gateway.health.last_known())
            )
            await asyncio.sleep(self._silence)

    async def _reload_when_asked(self, gateway: Gateway) -> None:
        while True:
            await self._asked_to_reload.wait()
            # Cleared before the reload: a signal that arrives during it causes another.
            self._asked_to_reload.clear()
            self._systemd.reloading()

            try:
                await self._reload(gateway)
            except TurngateError as exc:
                # Without config values: other users may be able to read the journal.
                gateway.observer.not_reloaded(
                    [without_values(line) for line in str(exc).splitlines()]
                )
            # The operator's own code may be an agent: its bug ends no daemon.
            except Exception as exc:  # noqa: BLE001
                gateway.observer.bug(exc)

            # Also after a failure, or systemd would see a reload that never ends.
            self._systemd.ready()

    async def _reload(self, gateway: Gateway) -> None:
        loaded = await asyncio.to_thread(self._load)
        gateway.observer.doubted([without_values(warning) for warning in loaded.warnings])
        try:
            await gateway.reload.take(loaded.config)
        except ConfigError as exc:
            raise loaded.located(exc) from exc
        self._configure_log(loaded)

    def _configure_log(self, loaded: Loaded) -> None:
        self._log.configure(loaded.config.log.level, quote=loaded.config.log.quote)

    async def _tell_repeats(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS_FOR_REPEATS)
            self._log.tell_repeats()


def status_line(status: DaemonStatus) -> str:
    """Return what receives and what does not, for `systemctl status`."""
    receiving = [
        f"{each.platform}/{each.account}"
        for each in status.accounts
        if each.state == AccountState.RECEIVING
    ]
    others = [f"{each.platform}/{each.account} is {each.state}" for each in status.accounts]
    deaf = [
        words
        for words, each in zip(others, status.accounts, strict=True)
        if each.state != AccountState.RECEIVING
    ]
    heard = (
        f"Receiving from {', '.join(receiving)}"
        if receiving
        else "Receiving from this machine alone"
    )

    return "; ".join((*_store_line(status.store), heard, *deaf)) + "."


def _store_line(store: StoreStatus) -> list[str]:
    """Return the store's fault in short; what to do does not fit into this line."""
    if store.reason is None:
        return []
    words = (
        "The store is damaged"
        if store.damaged
        else f"The store takes no writes: {store.reason.partition(';')[0]}"
    )
    return [f"{words} (`turngate status` says what to do)"]


def _welcome(gateway: Gateway) -> None:
    """
    Say how to open the chat. The login link itself goes to a terminal only: standard output may
    also be a file, a container's log or a journal, which others can read.
    """
    if gateway.web is None:
        typer.echo(
            "The gateway runs without a web server. `turngate chat` talks to it; Ctrl-C stops it."
        )
    elif sys.stdout.isatty():
        typer.echo(f"Open {gateway.web.link()} in a browser on this machine.")
        typer.echo(
            "The link works once; `turngate web link` makes another. Ctrl-C stops the gateway."
        )
    else:
        typer.echo(
            f"The gateway runs at {gateway.web.address}. `turngate web link` makes a link for a "
            "browser on this machine."
        )
