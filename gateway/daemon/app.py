"""
The composition root: from a config to objects that know each other, all at work until the block is left.

The order of opening is the order of trust: the lock, the store, the way in, and only then the doors. Closing goes the
other way round: intake first, then what runs is finished, then the doors, then the store.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType

from turngate.adapters.screens import Screens
from turngate.config.access import AccessEntry, Whom
from turngate.config.schema import Access as AccessConfig
from turngate.config.schema import Config
from turngate.gateway import __version__
from turngate.gateway.commands import COMMANDS
from turngate.gateway.daemon.account_supervisor import AccountState, Supervisor
from turngate.gateway.daemon.agent_pool import AgentPool
from turngate.gateway.daemon.backups import Backups
from turngate.gateway.daemon.catch_up_chats import places_of
from turngate.gateway.daemon.control.chat import chat_requests
from turngate.gateway.daemon.control.chat_events import ChatCommand
from turngate.gateway.daemon.control.pair import pair_requests
from turngate.gateway.daemon.control.queue import queue_requests
from turngate.gateway.daemon.control.requests import Args, Line
from turngate.gateway.daemon.control.server import ControlServer
from turngate.gateway.daemon.control.sessions import session_requests
from turngate.gateway.daemon.control.status import status_requests
from turngate.gateway.daemon.control.usage import usage_requests
from turngate.gateway.daemon.health import Health
from turngate.gateway.daemon.metrics_snapshot import MetricsSnapshot
from turngate.gateway.daemon.platforms import (
    AccountName,
    accounts_called_each_time,
    connected,
    homes_of,
    platforms_of,
)
from turngate.gateway.daemon.reload import (
    Reload,
    backup_rules,
    delivery_rules,
    file_rules,
    lane_rules,
)
from turngate.gateway.daemon.session_end_notices import SessionEndNotices
from turngate.gateway.daemon.shutdown import CUT_OFF, say_that_it_goes_on
from turngate.gateway.daemon.state_dir import Lock, read_or_make_key
from turngate.gateway.daemon.sweep import Sweep, is_busy
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.crashpoints import crashpoint
from turngate.gateway.domain.errors import Refused
from turngate.gateway.domain.messages import (
    LOCAL_PLATFORM,
    MAIN_ACCOUNT,
    WEB_PLATFORM,
    Part,
    SessionSource,
)
from turngate.gateway.domain.ports.adapter import Adapter
from turngate.gateway.domain.ports.store import SessionFilter
from turngate.gateway.domain.serialization import Json
from turngate.gateway.observability.metrics import METRICS_TYPE
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.delivery import Delivery
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules import outcomes as replies
from turngate.gateway.rules.authorization import Access, Allowed, Direct, Groups
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.routing import Route
from turngate.gateway.stores.session_files import Files
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.turns.attachments import Attachments
from turngate.gateway.web import WebDependencies, WebServer

_CONCERNED_FOR = timedelta(days=7)
_FOR_LAST_WORDS = timedelta(seconds=2)


@dataclass(slots=True, kw_only=True)
class Gateway:
    """Everything that is open."""

    store: SqliteStore
    pipeline: Pipeline
    observer: Observer
    clock: SystemClock
    health: Health
    scraping: MetricsSnapshot
    reloading: Reload
    hurry: asyncio.Event
    delivery: Delivery
    lives: list[asyncio.Task[None]] = field(default_factory=list)
    web: WebServer | None = None

    async def tell_of_gap(self, platform: str, account: str, since: datetime) -> None:
        """One honest sentence to the conversations of an account that may have missed something."""
        text = f"I was away, and what was written here since {since:%Y-%m-%d %H:%M} UTC may not have reached me."
        lately = SessionFilter(current_only=True, active_within=_CONCERNED_FOR)
        told = set[
            tuple[str | None, str | None]
        ]()  # in a group everybody may have a session of his own
        for session in await self.store.sessions(lately):
            origin = session.origin
            chat = origin.chat_id, origin.thread_id
            if (origin.platform, origin.account) != (platform, account) or chat in told:
                continue
            told.add(chat)
            entries = (replies.notice(text, self.clock.now()),)
            parts = (Part(target=origin, text=text),)
            await self.delivery.deliver(
                await self.store.tell(session.id, entries=entries, parts=parts)
            )

    async def link(self, args: Args, line: Line) -> Json:
        """For the control socket: a fresh one-time link."""
        if self.web is None:
            raise Refused(
                "the web door is closed: web.listen is null in the config; set it and restart the daemon"
            )
        return {"url": self.web.link()}

    async def until_refused(self) -> None:
        """Returns when no platform takes our credentials and nobody could come in otherwise; else never."""
        if self.lives:
            await asyncio.wait(self.lives)
        refused = [
            supervisor.report.state is AccountState.REFUSED
            for supervisor in self.health.supervisors
        ]
        if self.web is not None or not refused or not all(refused):
            await asyncio.Event().wait()

    @property
    def drain(self) -> timedelta:
        """How long a stop waits for what runs."""
        return self.reloading.config.turns.drain

    async def finish_what_runs(self) -> None:
        """
        Short turns end and are delivered. What takes longer than the drain is cut off, and goes on next time.

        What must not run again ends here, with what it had said. Whoever still waits for an answer is told so, unless
        nobody has time for that.
        """
        self.observer.stopping()
        crashpoint("drain")
        await self._unless_hurried(self.pipeline.lanes.close(), self.drain)
        if not self.hurry.is_set():
            await self._unless_hurried(
                self.pipeline.lanes.end_what_runs_once(CUT_OFF), _FOR_LAST_WORDS
            )
        unanswered = self.pipeline.lanes.unanswered()
        if unanswered:
            self.observer.cut_off(len(unanswered))
            await self._unless_hurried(
                say_that_it_goes_on(unanswered, self.pipeline), _FOR_LAST_WORDS
            )

    async def _unless_hurried(self, work: Coroutine[None, None, None], longest: timedelta) -> None:
        working, hurried = asyncio.ensure_future(work), asyncio.ensure_future(self.hurry.wait())
        await asyncio.wait(
            {working, hurried}, timeout=longest.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
        hurried.cancel()
        working.cancel()
        await asyncio.wait({working})
        if not working.cancelled() and (error := working.exception()) is not None:
            self.observer.bug(error)  # whatever it is, it must not keep us from closing


@asynccontextmanager
async def running(
    config: Config,
    lock: Lock,
    *,
    doors: bool,
    accounts: Mapping[tuple[str, str], Adapter] = MappingProxyType({}),
) -> AsyncIterator[Gateway]:
    """
    The gateway at work. With `doors` it lets in everybody the config allows; without, only this terminal.

    Ready when the block is entered; leaving it finishes what runs. `accounts` are adapters beside those of the config,
    by platform and name.
    """
    clock, observer, state = SystemClock(), Observer(), lock.state
    async with AsyncExitStack() as opened:
        store = await SqliteStore.connect(
            state.database, clock, backups=backup_rules(config).folder
        )
        opened.push_async_callback(store.close)
        staff = AgentPool(observer)
        opened.push_async_callback(staff.close)
        policy = _policy(lock, config, await staff.employ(config))
        if doors:
            connecting = connected(config, clock, partial(places_of, store, policy))
            accounts = {**await opened.enter_async_context(connecting), **accounts}
        tasks = await opened.enter_async_context(working())
        delivery = Delivery(delivery_rules(config), store, clock, observer, tasks)
        files = Files(state.files, file_rules(config))
        pipeline = Pipeline(
            policy=policy,
            fitting=Splitter(
                delivery=delivery,
                files=files,
                observer=observer,
                most_parts=config.delivery.max_parts,
            ),
            lane_rules=lane_rules(config),
            store=store,
            delivery=delivery,
            attachments=Attachments(
                files=files, policy=policy, store=store, delivery=delivery, observer=observer
            ),
            observer=observer,
            clock=clock,
            tasks=tasks,
        )
        sweep = Sweep(
            policy=policy,
            store=store,
            files=files,
            clock=clock,
            observer=observer,
            is_busy=partial(is_busy, pipeline),
            rules=config.clean_up_rules(),
        )
        endings = SessionEndNotices(
            policy=policy, store=store, files=files, clock=clock, observer=observer
        )
        backups = Backups(backup_rules(config), store.back_up, clock, observer)
        health = Health(
            store=store,
            lanes=pipeline.lanes,
            backups=backups,
            observer=observer,
            clock=clock,
            since=clock.now(),
        )
        store.when_committed(observer.metrics.committed)
        gateway = Gateway(
            store=store,
            pipeline=pipeline,
            observer=observer,
            clock=clock,
            health=health,
            scraping=MetricsSnapshot(health=health),
            reloading=Reload(
                config=config,
                staff=staff,
                decide=partial(_policy, lock),
                pipeline=pipeline,
                sweep=sweep,
                backups=backups,
                observer=observer,
                tasks=tasks,
            ),
            hurry=asyncio.Event(),
            delivery=delivery,
        )
        gateway.health.supervisors = [
            Supervisor(
                adapter,
                name,
                store=store,
                clock=clock,
                observer=observer,
                tell_of_gap=gateway.tell_of_gap,
            )
            for (_, name), adapter in accounts.items()
        ]
        local = Screens(LOCAL_PLATFORM, _terminal, clock)
        browser = Screens(WEB_PLATFORM, SessionSource.browser, clock)
        delivery.connect(
            {(screens.platform, MAIN_ACCOUNT): screens for screens in (local, browser)}
        )
        delivery.connect(accounts)
        if doors and config.web.listen is not None:
            gateway.web = _web_door(
                gateway, policy, browser, config.web.listen.host, config.web.listen.port, lock
            )
            await gateway.web.start()
            opened.push_async_callback(gateway.web.stop)
        requests = {
            **session_requests(store, pipeline.lanes.stop, files.forget, sweep.clean_up_as),
            **status_requests(store, gateway.health.status),
            **usage_requests(store),
            **pair_requests(pipeline.door.pairing),
            **queue_requests(
                store, clock, pipeline.take_up, delivery.take_up, pipeline.lanes.let_go
            ),
            **chat_requests(local, _chat_commands()),
            "web.link": gateway.link,
        }
        await pipeline.door.pairing.open()
        await pipeline.questions.load()
        await pipeline.desk.till.open()
        await opened.enter_async_context(ControlServer(state.control_socket, requests))
        await delivery.recover()
        await pipeline.recover()
        opened.push_async_callback(gateway.finish_what_runs)
        runs = (
            local.run,
            browser.run,
            *(supervisor.run for supervisor in gateway.health.supervisors),
        )
        listening = [tasks.create_task(run(pipeline.receive), name="intake") for run in runs]
        gateway.lives = listening[2:]
        for each in listening:
            opened.callback(each.cancel)
        tasks.create_task(sweep.run(), name="sweep")
        tasks.create_task(endings.run(), name="endings")
        tasks.create_task(backups.run(), name="backups")
        tasks.create_task(gateway.health.watch(), name="watch")
        await asyncio.sleep(0)  # let them begin to listen
        if policy.access.direct is Direct.OPEN and (doors or accounts):
            observer.open_to_everybody()
        address = gateway.web.address if gateway.web else None
        observer.started(address=address, version=__version__, pid=os.getpid())
        yield gateway
    observer.stopped()


class _Over(Exception):
    """Not an error: the work is over, so whatever still runs is cancelled."""


@asynccontextmanager
async def working() -> AsyncIterator[asyncio.TaskGroup]:
    """All tasks of the gateway. One that fails brings the others down; an error comes out as itself, not as a group."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
            raise _Over
    except BaseExceptionGroup as group:
        _, errors = group.split(_Over)
        if errors is not None:
            raise errors.exceptions[0] from None


def _policy(lock: Lock, config: Config, agents: Mapping[str, ConfiguredAgent]) -> Policy:
    return Policy(
        agents=agents,
        access=_access(
            config.access, called_each_time=frozenset(accounts_called_each_time(config))
        ),
        routes=[
            Route(agent=route.agent, choices=route.choices, **route.match.model_dump())
            for route in config.routes
        ],
        per_user_in_groups=config.sessions.per_user_in_groups,
        per_user_in_threads=config.sessions.per_user_in_threads,
        resets=config.reset_policies(),
        history=config.history_rules(),
        compacts=config.sessions.history.compact,
        summariser=config.sessions.history.summariser,
        idle_timeout=config.turns.idle_timeout,
        answer_within=config.turns.answer_within,
        budgets=config.budget_rules(),
        privacy_key=read_or_make_key(lock.state.privacy_key) if config.privacy.redact else None,
        pairing_key=read_or_make_key(lock.state.privacy_key),
        redact_emails=config.privacy.redact_emails,
        connected=(LOCAL_PLATFORM, WEB_PLATFORM, *platforms_of(config)),
        homes=tuple(homes_of(config)),
    )


def _access(written: AccessConfig, *, called_each_time: frozenset[AccountName]) -> Access:
    return Access(
        allow=tuple(map(_allowed, written.allow)),
        admins=tuple(map(_allowed, written.admins)),
        bots=tuple(map(_allowed, written.bots)),
        direct=Direct(written.direct),
        groups=Groups(written.groups),
        modes=tuple((_allowed(entry), Groups(mode)) for entry, mode in written.group_modes.items()),
        wake_words=written.wake_words,
        background=written.background,
        called_each_time=called_each_time,
    )


def _allowed(entry: AccessEntry) -> Allowed:
    return Allowed(
        platform=entry.platform,
        account=entry.account,
        person=entry.id if entry.whom is Whom.USER else None,
        chat=entry.id if entry.whom is Whom.CHAT else None,
        scope=entry.id if entry.whom in (Whom.GUILD, Whom.TEAM) else None,
    )


def _terminal(session: str) -> SessionSource:
    return SessionSource.terminal(session or None)


def _chat_commands() -> list[ChatCommand]:
    """By every name they have."""
    return [
        ChatCommand(name=name, summary=command.summary)
        for command in COMMANDS.commands
        for name in (command.name, *command.aliases)
    ]


def _web_door(
    gateway: Gateway, policy: Policy, screens: Screens, host: str, port: int, lock: Lock
) -> WebServer:
    commands = [(command.name, command.argument, command.summary) for command in COMMANDS.commands]
    needs = WebDependencies(
        store=gateway.store,
        screens=screens,
        key_of=policy.key_of,
        waiting=gateway.pipeline.lanes.waiting,
        commands=commands,
        readiness=gateway.health.readiness,
        metrics=gateway.scraping.text,
        metrics_type=METRICS_TYPE,
        clock=gateway.clock,
        cookie_key=read_or_make_key(lock.state.web_key),
        forget=gateway.pipeline.attachments.files.forget,
    )
    return WebServer(host, port, needs)
