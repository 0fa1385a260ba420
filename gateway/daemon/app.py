"""
The composition root: builds every object from the config and runs them until the block is left.

Opening follows the order of trust: the lock, the store, the pipeline, and only then the platforms
and sockets. Closing goes the other way round: intake first, then running turns, then connections,
then the store.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType

from turngate.adapters.http_server import ConnectionLimits, serving
from turngate.adapters.screens import BrowserScreens, Screens
from turngate.config.fields import ListenAddress
from turngate.config.schema import Config
from turngate.gateway import __version__
from turngate.gateway.commands import COMMANDS
from turngate.gateway.commands.dispatch import CommandDispatch
from turngate.gateway.daemon.agent_pool import AgentPool
from turngate.gateway.daemon.backups import Backups
from turngate.gateway.daemon.catch_up_chats import chats_to_catch_up
from turngate.gateway.daemon.control.chat import chat_requests
from turngate.gateway.daemon.control.chat_events import ChatCommand
from turngate.gateway.daemon.control.pair import pair_requests
from turngate.gateway.daemon.control.queue import queue_requests
from turngate.gateway.daemon.control.repair import repair_requests
from turngate.gateway.daemon.control.requests import Verb
from turngate.gateway.daemon.control.server import ControlServer
from turngate.gateway.daemon.control.sessions import session_requests
from turngate.gateway.daemon.control.status import status_requests
from turngate.gateway.daemon.control.usage import usage_requests
from turngate.gateway.daemon.gateway import Gateway
from turngate.gateway.daemon.health import Health
from turngate.gateway.daemon.metrics_snapshot import MetricsSnapshot
from turngate.gateway.daemon.platforms import connected
from turngate.gateway.daemon.reload import Reload
from turngate.gateway.daemon.run_record import RunRecord
from turngate.gateway.daemon.session_end_notices import SessionEndNotices
from turngate.gateway.daemon.settings import (
    backup_rules,
    delivery_rules,
    file_rules,
    lane_rules,
    policy_of,
)
from turngate.gateway.daemon.state_dir import Lock, read_or_make_key
from turngate.gateway.daemon.sweep import Sweep, is_busy
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.messages import (
    LOCAL_PLATFORM,
    MAIN_ACCOUNT,
    WEB_PLATFORM,
    SessionSource,
)
from turngate.gateway.domain.ports.adapter import Adapter
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.inbound.admission import Admission
from turngate.gateway.inbound.background_messages import BackgroundMessages
from turngate.gateway.inbound.edits import Edits
from turngate.gateway.inbound.pairing import MOST_PENDING, Pairing
from turngate.gateway.observability.metrics import METRICS_TYPE
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery, DeliveryRules
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules.authorization import Direct
from turngate.gateway.rules.policy import Policy
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.stores.waiting_store import WaitingStore
from turngate.gateway.turns.attachments import Attachments
from turngate.gateway.turns.billing import Billing
from turngate.gateway.turns.compaction import Compaction
from turngate.gateway.turns.cross_chat import CrossChatSender
from turngate.gateway.turns.lanes import LaneRules, Lanes, amend_queued
from turngate.gateway.turns.quarantine import Quarantine
from turngate.gateway.turns.questions import Questions
from turngate.gateway.turns.recorder import TurnRecorder
from turngate.gateway.web import WebDependencies, WebServer
from turngate.gateway.web.chat import MOST_TABS

# Less than the five seconds that the whole shutdown has after the drain.
_WEB_SHUTDOWN_TIMEOUT = 2.0
_WEB_LIMITS = ConnectionLimits(connections=MOST_TABS + 128)


def build_pipeline(
    *,
    policy: Policy,
    store: Store,
    accounts: ConnectedAccounts,
    files: SessionFiles,
    observer: Observer,
    clock: Clock,
    tasks: asyncio.TaskGroup,
    lane_rules: LaneRules,
    delivery_rules: DeliveryRules,
    max_parts: int = 20,
    pairing_codes: int = MOST_PENDING,
) -> Pipeline:
    """Build every object that takes part in the life of a message."""
    # Turns and deliveries wait while the store is unavailable. Sweep, health and control verbs get
    # the plain store, and fail at once.
    store = WaitingStore(store, observer)
    delivery = Delivery(delivery_rules, accounts, store, clock, observer, tasks)
    splitter = Splitter(accounts=accounts, files=files, observer=observer, most_parts=max_parts)
    pairing = Pairing(store, policy.pairing_key, delivery.enqueue, most_pending=pairing_codes)
    billing = Billing(policy, store, observer, clock)
    compaction = Compaction(policy, store, observer, clock, billing, tasks)

    # Lanes and questions call the pipeline back, which is built last.
    quarantine = Quarantine(store.end_alone, tasks)
    lanes = Lanes(
        lane_rules,
        lambda key, batch: pipeline.run_batch(key, batch),
        quarantine,
        tasks,
        # Read at each call, for the same reason as below.
        agent_of=lambda source: policy.routed_agent(source),
    )
    questions = Questions(
        policy=policy,
        store=store,
        observer=observer,
        clock=clock,
        accounts=accounts,
        splitter=splitter,
        delivery=delivery,
        tasks=tasks,
        rerun=lambda item: pipeline.resume(item),
    )
    pipeline = Pipeline(
        policy=policy,
        store=store,
        accounts=accounts,
        admission=Admission(
            policy=policy,
            store=store,
            observer=observer,
            clock=clock,
            pairing=pairing,
            # Read at each call: a reload replaces the contents of the policy.
            background=BackgroundMessages(lambda: policy.access.background),
        ),
        edits=Edits(
            policy=policy,
            store=store,
            observer=observer,
            amend_queued=partial(amend_queued, lanes),
            enqueue=delivery.enqueue,
        ),
        lanes=lanes,
        questions=questions,
        commands=CommandDispatch(
            policy=policy,
            store=store,
            observer=observer,
            clock=clock,
            lanes=lanes,
            pairing=pairing,
            splitter=splitter,
            standing=billing.standing,
            compact=compaction.on_request,
        ),
        attachments=Attachments(
            files=files, policy=policy, store=store, accounts=accounts, observer=observer
        ),
        recorder=TurnRecorder(policy=policy, store=store, billing=billing, compaction=compaction),
        cross_chat=CrossChatSender(
            policy=policy,
            store=store,
            clock=clock,
            accounts=accounts,
            delivery=delivery,
            splitter=splitter,
            approved=lambda: pairing.approved,
        ),
        splitter=splitter,
        delivery=delivery,
        observer=observer,
        clock=clock,
    )
    return pipeline


async def load_state(pipeline: Pipeline) -> None:
    """Read what the pipeline keeps in memory. Call it before the first message."""
    await pipeline.admission.pairing.open()
    await pipeline.questions.load()
    await pipeline.recorder.billing.open()


@asynccontextmanager
async def running(
    config: Config,
    lock: Lock,
    *,
    doors: bool,
    accounts: Mapping[tuple[str, str], Adapter] = MappingProxyType({}),
) -> AsyncIterator[Gateway]:
    """
    Run the gateway. With `doors` it accepts everyone the config allows; without, only this
    terminal.

    Ready when the block is entered; leaving it drains running turns. `accounts` are adapters
    besides those of the config, by platform and name.
    """
    clock = SystemClock()
    observer = Observer()
    state = lock.state
    async with AsyncExitStack() as opened:
        # Opened first, so closed last: turns that end during the drain still write.
        store = await SqliteStore.connect(
            state.database, clock, backups=backup_rules(config).folder
        )
        opened.push_async_callback(store.close)
        # Called on the store's writer thread.
        store.when_committed(observer.metrics.committed)
        store.when_set_aside(observer.row_damaged)

        pool = AgentPool(observer)
        opened.push_async_callback(pool.close)
        policy = policy_of(lock, config, await pool.load(config))

        if doors:
            connecting = connected(config, clock, partial(chats_to_catch_up, store, policy))
            accounts = {**await opened.enter_async_context(connecting), **accounts}

        # Entered after the adapters: all tasks have ended before a connection is closed.
        tasks = await opened.enter_async_context(working())
        local = Screens(LOCAL_PLATFORM, _terminal, clock)
        browser = BrowserScreens(WEB_PLATFORM, SessionSource.browser, clock)
        own_screens = {(screens.platform, MAIN_ACCOUNT): screens for screens in (local, browser)}
        pipeline = build_pipeline(
            policy=policy,
            store=store,
            accounts=ConnectedAccounts({**own_screens, **accounts}),
            files=SessionFiles(state.files, file_rules(config)),
            observer=observer,
            clock=clock,
            tasks=tasks,
            lane_rules=lane_rules(config),
            delivery_rules=delivery_rules(config),
            max_parts=config.delivery.max_parts,
            pairing_codes=config.access.pairing_codes,
        )
        gateway = _build_gateway(config, lock, store, pool, pipeline, tasks)
        gateway.supervise(accounts)

        if doors and config.web.listen is not None:
            gateway.web = _web_server(gateway, browser, config.web.listen, lock)
            # It responds from here on, and refuses messages until `start_tasks` runs the screens.
            await gateway.web.start()
            opened.push_async_callback(gateway.web.stop)

        await load_state(pipeline)
        requests = _control_requests(gateway, local)
        await opened.enter_async_context(ControlServer(state.control_socket, requests))

        crashes = await gateway.begin_run()
        # Before intake starts, so that work of an earlier run is ahead of new messages in its lane.
        await pipeline.delivery.recover()
        await pipeline.recover(crashes=crashes)

        # From here on leaving the block drains: intake ends first, then running turns. The control
        # socket and the web server were opened earlier, so they stay open during the drain.
        opened.push_async_callback(gateway.finish_what_runs)
        opened.push(gateway.end_run)
        for intake in gateway.start_tasks(tasks, (local, browser)):
            opened.callback(intake.cancel)
        # One step of the loop: the screens accept messages before the start is reported.
        await asyncio.sleep(0)

        if policy.access.direct is Direct.OPEN and (doors or accounts):
            observer.open_to_everybody()
        address = gateway.web.address if gateway.web else None
        observer.started(address=address, version=__version__, pid=os.getpid())
        yield gateway

    observer.stopped()


def _build_gateway(
    config: Config,
    lock: Lock,
    store: SqliteStore,
    pool: AgentPool,
    pipeline: Pipeline,
    tasks: asyncio.TaskGroup,
) -> Gateway:
    """Build what runs beside the pipeline: sweep, notices, backups, health and reload."""
    policy = pipeline.policy
    files = pipeline.attachments.files
    clock = pipeline.clock
    observer = pipeline.observer

    sweep = Sweep(
        policy=policy,
        store=store,
        files=files,
        clock=clock,
        observer=observer,
        is_busy=partial(is_busy, pipeline),
        rules=config.clean_up_rules(),
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
    return Gateway(
        store=store,
        pipeline=pipeline,
        observer=observer,
        clock=clock,
        health=health,
        metrics_snapshot=MetricsSnapshot(health=health),
        sweep=sweep,
        session_end_notices=SessionEndNotices(
            policy=policy, store=store, files=files, clock=clock, observer=observer
        ),
        backups=backups,
        reload=Reload(
            config=config,
            pool=pool,
            decide=partial(policy_of, lock),
            pipeline=pipeline,
            sweep=sweep,
            backups=backups,
            observer=observer,
            tasks=tasks,
        ),
        hurry=asyncio.Event(),
        run_record=RunRecord(lock.state.run_record, lock.state.exit_status, clock),
    )


def _control_requests(gateway: Gateway, local: Screens) -> dict[str, Verb]:
    """Return what the control socket answers, by the name of the request."""
    store = gateway.store
    pipeline = gateway.pipeline
    return {
        **session_requests(
            store,
            pipeline.lanes.stop,
            pipeline.attachments.files.forget,
            gateway.sweep.clean_up_as,
        ),
        **status_requests(store, gateway.health.status),
        **usage_requests(store),
        **repair_requests(store),
        **pair_requests(pipeline.admission.pairing),
        **queue_requests(
            store,
            gateway.clock,
            pipeline.resume,
            pipeline.delivery.enqueue,
            pipeline.lanes.remove,
            pipeline.read_again,
        ),
        **chat_requests(local, _chat_commands()),
        "web.link": gateway.link,
    }


class _Over(Exception):
    """The exception that cancels the remaining tasks at a normal end; not an error."""


@asynccontextmanager
async def working() -> AsyncIterator[asyncio.TaskGroup]:
    """
    Yield the task group of the gateway. A task that fails ends the others; its error is raised by
    itself, not as a group.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
            # A task group waits for its tasks, and most of these never end. An exception in its
            # body cancels them.
            raise _Over
    except BaseExceptionGroup as group:
        # Callers catch our errors by type. The first one is the cause; it cancelled the others.
        _, errors = group.split(_Over)
        if errors is not None:
            raise errors.exceptions[0] from None


def _terminal(session: str) -> SessionSource:
    return SessionSource.terminal(session or None)


def _chat_commands() -> list[ChatCommand]:
    """Return the commands under each of their names."""
    return [
        ChatCommand(name=name, summary=command.summary)
        for command in COMMANDS.commands
        for name in (command.name, *command.aliases)
    ]


def _web_server(gateway: Gateway, screens: Screens, listen: ListenAddress, lock: Lock) -> WebServer:
    commands = [(command.name, command.argument, command.summary) for command in COMMANDS.commands]
    pipeline = gateway.pipeline
    dependencies = WebDependencies(
        store=gateway.store,
        screens=screens,
        key_of=pipeline.policy.key_of,
        waiting=pipeline.lanes.waiting,
        questions=pipeline.questions.asked_in,
        commands=commands,
        readiness=gateway.health.readiness,
        metrics=gateway.metrics_snapshot.text,
        metrics_type=METRICS_TYPE,
        clock=gateway.clock,
        cookie_key=read_or_make_key(lock.state.web_key),
        forget=pipeline.attachments.files.forget,
        serve=partial(serving, shutdown_timeout=_WEB_SHUTDOWN_TIMEOUT, limits=_WEB_LIMITS),
    )
    return WebServer(listen.host, listen.port, dependencies)
