"""The whole life of a message with everything real in it; only the agent and the adapter are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

from tests.fakes import NOON, RecordingAdapter
from turngate.gateway.domain.messages import Entry, InboundMessage, Session, SessionSource
from turngate.gateway.domain.ports.adapter import Adapter, Agent, Clock
from turngate.gateway.domain.ports.store import Store
from turngate.gateway.observability.metrics import Now
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.delivery import Delivery, DeliveryRules
from turngate.gateway.outbound.splitting import Splitter
from turngate.gateway.pipeline import Pipeline
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.stores.session_files import Files
from turngate.gateway.turns.attachments import Attachments
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
    _numbers: count[int]

    async def say(
        self, text: str, *, source: SessionSource | None = None, id: str | None = None
    ) -> None:  # noqa: A002
        """Returns when it is stored."""
        await self.pipeline.receive(self.message(text, source=source, id=id))

    def message(
        self, text: str, *, source: SessionSource | None = None, id: str | None = None
    ) -> InboundMessage:  # noqa: A002
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
    files: Files | None = None,
) -> AsyncIterator[AtWork]:
    """Leaving the block cuts off whatever runs, as a crash would."""
    observer, adapter = Observer(), adapter or RecordingAdapter()
    try:
        async with asyncio.TaskGroup() as tasks:
            delivery = Delivery(DeliveryRules(retry_for=retry_for), store, clock, observer, tasks)
            delivery.connect({(adapter.platform, "main"): adapter, **(others or {})})
            kept = files or Files(Path("no-files-here"))
            pipeline = Pipeline(
                policy=policy,
                lane_rules=rules,
                store=store,
                delivery=delivery,
                fitting=Splitter(delivery=delivery, files=kept, observer=observer),
                attachments=Attachments(
                    files=kept, policy=policy, store=store, delivery=delivery, observer=observer
                ),
                observer=observer,
                clock=clock,
                tasks=tasks,
            )
            await pipeline.door.pairing.open()
            await pipeline.questions.load()
            await pipeline.desk.till.open()
            yield AtWork(
                pipeline=pipeline,
                delivery=delivery,
                store=store,
                adapter=adapter,
                observer=observer,
                _numbers=count(1),
            )
            raise _Over
    except BaseExceptionGroup as group:
        _, errors = group.split(_Over)
        if errors is not None:
            raise errors.exceptions[0] from None
