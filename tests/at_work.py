"""
The whole life of a message with everything real in it; only the agent and the adapter are played.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

from tests.fakes import NOON, RecordingAdapter
from turngate.gateway.daemon.app import build_pipeline, load_state
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.ports.adapter import Adapter
from turngate.gateway.domain.ports.agent import Agent
from turngate.gateway.domain.ports.clock import Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.domain.session import Session
from turngate.gateway.domain.transcript import Entry
from turngate.gateway.observability.metrics import Now
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import Delivery, DeliveryRules
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.turns.lanes import LaneRules

AT_ONCE = LaneRules(debounce=timedelta(0))


def at_desk(chat: str = "desk", user: str = "ann") -> SessionSource:
    """A place whose messages are let in."""
    return SessionSource(platform="web", chat_id=chat, user_id=user)


def policy_for(agent: Agent, **decisions: object) -> Policy:
    """One agent, and whatever else the operator decided."""
    return Policy(agents={"main": ConfiguredAgent(name="main", agent=agent)}, **decisions)  # type: ignore[arg-type]


def numbers(observer: Observer) -> bytes:
    """What Prometheus would be shown, of a gateway with nothing to do."""
    now = Now(busy=0, waiting=0, tasks=0, sessions_in_memory=0, store_ok=True, log_lines_lost=0)
    return observer.metrics.text(now)


@dataclass(slots=True, kw_only=True)
class AtWork:
    """A pipeline that runs, and short ways to talk to it."""

    pipeline: Pipeline
    delivery: Delivery
    store: Store
    adapter: RecordingAdapter
    observer: Observer
    tasks: asyncio.TaskGroup
    _numbers: count[int]

    async def say(
        self,
        text: str,
        *,
        source: SessionSource | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """Returns when it is stored."""
        await self.pipeline.receive(self.message(text, source=source, id=id))

    def message(
        self,
        text: str,
        *,
        source: SessionSource | None = None,
        id: str | None = None,  # noqa: A002
    ) -> InboundMessage:
        """With an id of its own."""
        id, source = id or f"m{next(self._numbers)}", source or at_desk()  # noqa: A001
        event = f"{source.chat_id}:{id}"
        return InboundMessage(id=id, event_ids=(event,), source=source, text=text, sent_at=NOON)

    async def session(self, source: SessionSource | None = None) -> Session:
        """The current one of a place."""
        found = await self.store.current(self.pipeline.policy.key_of(source or at_desk()))
        assert found is not None
        return found

    async def entries(self, source: SessionSource | None = None) -> tuple[Entry, ...]:
        """What its transcript holds."""
        return (await self.store.transcript((await self.session(source)).id)).entries

    async def texts(self, source: SessionSource | None = None) -> list[str]:
        """What its transcript says."""
        return [entry.text for entry in await self.entries(source)]


class _Over(Exception):
    """Leave everything as it is."""


@asynccontextmanager
async def at_work(
    policy: Policy,
    store: Store,
    clock: Clock,
    *,
    rules: LaneRules = AT_ONCE,
    adapter: RecordingAdapter | None = None,
    others: dict[tuple[str, str], Adapter] | None = None,
    retry_for: timedelta = timedelta(hours=24),
    files: SessionFiles | None = None,
) -> AsyncIterator[AtWork]:
    """Leaving the block cuts off whatever runs, as a crash would."""
    observer, adapter = Observer(), adapter or RecordingAdapter()
    try:
        async with asyncio.TaskGroup() as tasks:
            accounts = {(adapter.platform, "main"): adapter, **(others or {})}
            pipeline = build_pipeline(
                policy=policy,
                store=store,
                accounts=ConnectedAccounts(accounts),
                files=files or SessionFiles(Path("no-files-here")),
                observer=observer,
                clock=clock,
                tasks=tasks,
                lane_rules=rules,
                delivery_rules=DeliveryRules(retry_for=retry_for),
            )
            await load_state(pipeline)
            yield AtWork(
                pipeline=pipeline,
                delivery=pipeline.delivery,
                store=store,
                adapter=adapter,
                observer=observer,
                tasks=tasks,
                _numbers=count(1),
            )
            raise _Over
    except BaseExceptionGroup as group:
        _, errors = group.split(_Over)
        if errors is not None:
            raise errors.exceptions[0] from None
