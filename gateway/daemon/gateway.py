"""The running gateway: what is open, what it answers on request, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType

from turngate.adapters.screens import Screens
from turngate.gateway.daemon.account_supervisor import AccountState, Supervisor
from turngate.gateway.daemon.backups import Backups
from turngate.gateway.daemon.control.requests import Args, Line
from turngate.gateway.daemon.health import Health
from turngate.gateway.daemon.metrics_snapshot import MetricsSnapshot
from turngate.gateway.daemon.reload import Reload
from turngate.gateway.daemon.run_record import RunRecord
from turngate.gateway.daemon.session_end_notices import SessionEndNotices
from turngate.gateway.daemon.shutdown import CUT_OFF, announce_restart
from turngate.gateway.daemon.sweep import Sweep
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import Refused, StoreUnavailable, TurngateError
from turngate.gateway.domain.messages import AccountKey
from turngate.gateway.domain.outbox import Part
from turngate.gateway.domain.ports.adapter import Adapter
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.serialization import Json
from turngate.gateway.domain.store_values import SessionFilter
from turngate.gateway.observability.observer import Observer
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules import outcomes
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.web import WebServer

_CONCERNED_FOR = timedelta(days=7)
_FOR_LAST_WORDS = timedelta(seconds=2)


@dataclass(slots=True, kw_only=True)
class Gateway:
    """Everything that is open while the gateway runs."""

    store: SqliteStore
    pipeline: Pipeline
    observer: Observer
    clock: Clock
    health: Health
    metrics_snapshot: MetricsSnapshot
    sweep: Sweep
    session_end_notices: SessionEndNotices
    backups: Backups
    reload: Reload
    hurry: asyncio.Event
    run_record: RunRecord
    account_tasks: list[asyncio.Task[None]] = field(default_factory=list)
    web: WebServer | None = None

    def supervise(self, accounts: Mapping[AccountKey, Adapter]) -> None:
        """Add a supervisor for each account. `start_tasks` starts them."""
        self.health.supervisors = [
            Supervisor(
                adapter,
                name,
                store=self.pipeline.store,
                clock=self.clock,
                observer=self.observer,
                tell_of_gap=self.tell_of_gap,
            )
            for (_, name), adapter in accounts.items()
        ]

    def start_tasks(
        self, tasks: asyncio.TaskGroup, screens: Sequence[Screens]
    ) -> list[asyncio.Task[None]]:
        """Start to receive and to do the periodic work. Returns the tasks that receive."""
        receive = self.pipeline.receive
        own = [tasks.create_task(each.run(receive), name="intake") for each in screens]
        self.account_tasks = [
            tasks.create_task(supervisor.run(receive), name="intake")
            for supervisor in self.health.supervisors
        ]
        tasks.create_task(self.sweep.run(), name="sweep")
        tasks.create_task(self.session_end_notices.run(), name="endings")
        tasks.create_task(self.backups.run(), name="backups")
        tasks.create_task(self.health.watch(), name="watch")
        return [*own, *self.account_tasks]

    async def begin_run(self) -> int:
        """Find out how the previous run ended. Returns how many runs in a row have crashed."""
        previous = self.run_record.previous()
        # A full disk must not keep the daemon from starting; the crash is then not counted.
        try:
            await self.store.count_crash(previous.run if previous.crashes else None)
        except StoreUnavailable as exc:
            self.observer.store_failed(exc)

        self.run_record.begin(self.store.run, previous.crashes)
        return previous.crashes

    def end_run(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Record a stop in order. Leaving the gateway with an unexpected error is a crash."""
        if exc is None or isinstance(exc, asyncio.CancelledError | TurngateError):
            self.run_record.stopped()

    async def tell_of_gap(self, platform: str, account: str, since: datetime) -> None:
        """Notify the recent conversations of an account that may have missed messages."""
        text = (
            f"I was away, and what was written here since {since:%Y-%m-%d %H:%M} UTC may not "
            "have reached me."
        )
        lately = SessionFilter(current_only=True, active_within=_CONCERNED_FOR)
        # By chat, not by session: in a group each user may have a session of their own.
        told = set[tuple[str | None, str | None]]()

        for session in await self.store.sessions(lately):
            origin = session.origin
            chat = origin.chat_id, origin.thread_id
            if origin.account_key != (platform, account) or chat in told:
                continue

            told.add(chat)
            entries = (outcomes.notice(text, self.clock.now()),)
            parts = (Part(target=origin, text=text),)
            await self.pipeline.delivery.deliver(
                await self.store.tell(session.id, entries=entries, parts=parts)
            )

    async def link(self, args: Args, line: Line) -> Json:
        """Handle the control request for a one-time login link of the web chat."""
        if self.web is None:
            raise Refused(
                "there is no web server: web.listen is null in the config; set it and restart "
                "the daemon"
            )
        return {"url": self.web.link()}

    async def until_refused(self) -> None:
        """
        Return when every platform has refused our credentials and there is no other way in; else
        never.
        """
        if self.account_tasks:
            await asyncio.wait(self.account_tasks)

        refused = [
            supervisor.report.state is AccountState.REFUSED
            for supervisor in self.health.supervisors
        ]
        # An account that stopped for another reason (a damaged store) keeps the daemon running, so
        # that `status` can report it.
        if self.web is not None or not refused or not all(refused):
            await asyncio.Event().wait()

    @property
    def drain(self) -> timedelta:
        """The longest time that a stop waits for running turns."""
        return self.reload.config.turns.drain

    async def finish_what_runs(self) -> None:
        """
        Drain: short turns end and are delivered; longer ones are cut off and resume after the
        restart.

        Turns that must not run again are ended with what they had said. Users who still wait are
        notified, unless a second signal asks for an immediate stop.
        """
        self.observer.stopping()
        crashpoint("drain")
        await self._unless_hurried(self.pipeline.lanes.close(), self.drain)
        # A later run may not repeat these turns, so their partial answers would be lost.
        if not self.hurry.is_set():
            await self._unless_hurried(
                self.pipeline.lanes.end_what_runs_once(CUT_OFF), _FOR_LAST_WORDS
            )

        unanswered = self.pipeline.lanes.unanswered()
        if unanswered:
            self.observer.cut_off(len(unanswered))
            await self._unless_hurried(announce_restart(unanswered, self.pipeline), _FOR_LAST_WORDS)

    async def _unless_hurried(self, work: Coroutine[None, None, None], longest: timedelta) -> None:
        working = asyncio.ensure_future(work)
        hurried = asyncio.ensure_future(self.hurry.wait())
        await asyncio.wait(
            {working, hurried}, timeout=longest.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
        hurried.cancel()
        working.cancel()
        # Cancelled work may still clean up: an unsent notice is taken back. The timer of the
        # process limits this wait.
        await asyncio.wait({working})
        # Logged and not raised: connections and the store are still to be closed.
        if not working.cancelled() and (error := working.exception()) is not None:
            self.observer.bug(error)
