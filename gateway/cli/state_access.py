"""Access of CLI commands to the state: through the daemon, or directly if none runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.status import Status

from turngate.config.load import load
from turngate.gateway.daemon.control.client import ControlClient
from turngate.gateway.daemon.control.connect import ask, reach
from turngate.gateway.daemon.control.pair import pair_requests
from turngate.gateway.daemon.control.queue import queue_requests
from turngate.gateway.daemon.control.repair import repair_requests
from turngate.gateway.daemon.control.requests import Requests
from turngate.gateway.daemon.control.sessions import Change, session_requests
from turngate.gateway.daemon.control.status import status_requests
from turngate.gateway.daemon.control.usage import usage_requests
from turngate.gateway.daemon.state_dir import StateDir, read_or_make_key
from turngate.gateway.daemon.sweep import clean_up
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.store_values import Pruned
from turngate.gateway.inbound.pairing import MOST_PENDING, Pairing
from turngate.gateway.observability.observer import Observer
from turngate.gateway.rules.retention import CleanUpRules
from turngate.gateway.stores.session_files import FileRules, SessionFiles
from turngate.gateway.stores.sqlite import SqliteStore

_SECONDS_BEFORE_SHOWN = 2.0

Arguments = Mapping[str, str | int | bool | timedelta | None]


@dataclass(frozen=True, slots=True)
class State:
    """The state folder of this installation."""

    folder: Path
    rules: CleanUpRules = CleanUpRules()
    keep_files: timedelta = FileRules().keep
    pairing_codes: int = MOST_PENDING

    def ask(
        self,
        do: str,
        args: Arguments | None = None,
        on_item: Callable[[Json], None] = lambda item: None,
        *,
        prints_items: bool = False,
    ) -> Json:
        """Return the result of one request. Shows a spinner after two seconds."""
        # Absent, not null: the request's own defaults apply.
        plain = {name: _plain(value) for name, value in (args or {}).items() if value is not None}
        with _spinner(prints_items=prints_items):
            return ask(self.folder, do, plain, alone=self._own_requests, on_item=on_item)

    @asynccontextmanager
    async def _own_requests(self, state: StateDir) -> AsyncIterator[Requests]:
        """Open the store and yield the requests that work without a daemon."""
        clock = SystemClock()
        store = await SqliteStore.connect(state.database, clock)
        files = SessionFiles(state.files, FileRules(keep=self.keep_files))
        clean = partial(self._clean, store, files, clock)
        sessions = session_requests(store, forget=files.forget, clean=clean)

        try:
            # Inside the try: a key file that cannot be read raises, and the store must be closed.
            key = read_or_make_key(state.privacy_key)
            pairing = Pairing(store, key, most_pending=self.pairing_codes)
            work = {**queue_requests(store, clock), **pair_requests(pairing)}
            asked = {**status_requests(store), **usage_requests(store), **repair_requests(store)}
            yield {**sessions, **asked, **work}
        finally:
            await store.close()

    async def _clean(
        self, store: SqliteStore, files: SessionFiles, clock: SystemClock, change: Change
    ) -> Pruned:
        return await clean_up(store, files, clock, Observer(), change(self.rules))

    def ask_daemon(self, do: str) -> Json:
        """Return the result of a request that only a running daemon can answer."""
        with reach(self.folder) as reached:
            if isinstance(reached, ControlClient):
                return reached.ask(do, {}, lambda item: None)
        raise Refused(f"no daemon runs for {self.folder}; start it with `turngate run`")

    def items(self, do: str, args: Arguments) -> list[Json]:
        """Return all items of one request."""
        found: list[Json] = []
        self.ask(do, args, found.append)
        return found


def state_of(config: Path | None, state_dir: Path | None) -> State:
    """Return the state folder given by the options and the config."""
    # Without secrets: those of a service may be readable by the service only.
    loaded = load(config, state_dir, secrets=False)
    for warning in loaded.warnings:
        typer.echo(warning, err=True)
    found = loaded.config
    return State(
        found.state_dir,
        found.clean_up_rules(),
        found.files.keep,
        found.access.pairing_codes,
    )


@contextmanager
def _spinner(*, prints_items: bool) -> Iterator[None]:
    """
    Show a spinner after two seconds, on a terminal only. Not needed if items are printed as they
    arrive.
    """
    if prints_items or not sys.stderr.isatty():
        yield
        return

    status = Status("working ...", console=Console(stderr=True))
    timer = threading.Timer(_SECONDS_BEFORE_SHOWN, status.start)
    timer.start()

    try:
        yield
    finally:
        timer.cancel()
        # The timer thread may be starting the spinner right now.
        timer.join()
        status.stop()


def _plain(value: str | int | bool | timedelta | None) -> Json:
    return value.total_seconds() if isinstance(value, timedelta) else value
