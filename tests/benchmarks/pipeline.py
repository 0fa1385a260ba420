"""
What a turn costs beside its storage: the whole pipeline against the store's verbs alone, in the
same process and run.

    python -m tests.benchmarks.pipeline [--turns 2000] [--concurrency 16] [--profile]

The agent answers at once, so everything measured is ours. Prints one JSON line; with --profile also
where the time of the event loop's thread goes, module by module.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from tests.fakes import RecordingAdapter, assistant, user
from turngate.gateway.daemon.app import build_pipeline
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
)
from turngate.gateway.domain.messages import (
    InboundMessage,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.store_values import Claim, Outcome
from turngate.gateway.domain.transcript import Text
from turngate.gateway.observability.logs import configure_logging
from turngate.gateway.observability.observer import Observer
from turngate.gateway.outbound.connected_accounts import ConnectedAccounts
from turngate.gateway.outbound.delivery import DeliveryRules
from turngate.gateway.rules.policy import ConfiguredAgent, Policy
from turngate.gateway.rules.redaction import new_key
from turngate.gateway.stores.session_files import SessionFiles
from turngate.gateway.stores.sqlite import SqliteStore
from turngate.gateway.turns.lanes import LaneRules

Say = Callable[[InboundMessage], Awaitable[None]]


class Prompt:
    """Answers at once."""

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """In three pieces."""
        for piece in ("You said ", "something, ", "and I heard it."):
            yield Text(piece)
        yield Done()


class Waiting(RecordingAdapter):
    """Tells whoever waits for the answer to a message."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, asyncio.Event] = {}

    async def send(self, part: Part) -> Sent:
        """Nothing but that."""
        self.waiting[part.reply_to or ""].set()
        return Sent(message_id="m", at=part.created_at)


async def measure(turns: int, concurrency: int, *, profile: bool) -> dict[str, object]:
    """Both ways, one after the other, on stores of their own."""
    policy = Policy(
        agents={"main": ConfiguredAgent(name="main", agent=Prompt())}, privacy_key=new_key()
    )
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteStore.connect(Path(folder, "floor.db"), SystemClock())
        floor, floor_cpu = await _timed(
            turns, concurrency, lambda message: _store_only(store, policy, message)
        )
        await store.close()
        store = await SqliteStore.connect(Path(folder, "turns.db"), SystemClock())
        profiler = cProfile.Profile() if profile else None
        whole, cpu = await _through_pipeline(store, policy, turns, concurrency, profiler)
        await store.close()
    if profiler is not None:
        _tell(profiler)
    return {
        "case": "pipeline",
        "turns": turns,
        "concurrency": concurrency,
        "turns_per_s": round(turns / whole, 1),
        "store_only_per_s": round(turns / floor, 1),
        "of_store_only": round(floor / whole, 2),
        "cpu_ms_per_turn": round(cpu / turns * 1000, 3),
        "store_only_cpu_ms_per_turn": round(floor_cpu / turns * 1000, 3),
    }


async def _through_pipeline(
    store: SqliteStore,
    policy: Policy,
    turns: int,
    concurrency: int,
    profiler: cProfile.Profile | None,
) -> tuple[float, float]:
    clock, observer, adapter = SystemClock(), Observer(), Waiting()
    async with asyncio.TaskGroup() as tasks:
        pipeline = build_pipeline(
            policy=policy,
            store=store,
            accounts=ConnectedAccounts({("web", "main"): adapter}),
            files=SessionFiles(Path("no-files-here")),
            observer=observer,
            clock=clock,
            tasks=tasks,
            lane_rules=LaneRules(debounce=timedelta(0)),
            delivery_rules=DeliveryRules(),
        )

        async def say(message: InboundMessage) -> None:
            answered = adapter.waiting[message.id] = asyncio.Event()
            await pipeline.receive(message)
            await answered.wait()

        if profiler is not None:
            profiler.enable()
        taken = await _timed(turns, concurrency, say)
        if profiler is not None:
            profiler.disable()
    return taken


async def _store_only(store: SqliteStore, policy: Policy, message: InboundMessage) -> None:
    """The same verbs with the same values, and nothing between them."""
    opening = policy.opening(message.source)
    accepted = await store.accept(message, opening.key)
    claim = Claim(
        inbox=(accepted.id,),
        opening=opening,
        entries=(user(message.text),),
        history=policy.history_to_read,
    )
    begun = await store.begin(claim)
    outcome = Outcome(
        entries=(assistant("You said something, and I heard it."),), parts=(_answer(message),)
    )
    for part in await store.finish(begun.turn, outcome):
        await store.record_sending(part.id)
        await store.record_sent(part.id, Sent(message_id="m", at=message.sent_at))


def _answer(message: InboundMessage) -> Part:
    return Part(
        target=message.source, text="You said something, and I heard it.", reply_to=message.id
    )


async def _timed(turns: int, concurrency: int, say: Say) -> tuple[float, float]:
    numbers = iter(range(turns))

    async def talk(person: int) -> None:
        for number in numbers:
            await say(_message(person, number))

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(talk(person) for person in range(concurrency)))
    return time.perf_counter() - began, time.process_time() - cpu


def _message(person: int, number: int) -> InboundMessage:
    return InboundMessage(
        id=f"m{number}",
        event_ids=(f"chat{person}:{number}",),
        source=SessionSource.browser(f"chat{person}"),
        text=f"Message {number}: what is the weather like, and shall I take a coat?",
        kind=MessageKind.NEW,
        sent_at=SystemClock().now(),
    )


def _tell(profiler: cProfile.Profile) -> None:
    """Own time by module, of everything the event loop's thread did."""
    stats = pstats.Stats(profiler)
    whole = stats.total_tt
    shares: dict[str, float] = {}
    for (file, _, _), (_, _, own, _, _) in stats.stats.items():
        parts = Path(file).parts
        name = (
            Path(file).stem if "gateway" in parts else "asyncio" if "asyncio" in parts else "other"
        )
        shares[name] = shares.get(name, 0.0) + own / whole
    for name, share in sorted(shares.items(), key=lambda item: -item[1])[:14]:
        print(f"{share:6.1%}  {name}", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    configure_logging("error", sys.stderr)
    print(json.dumps(asyncio.run(measure(asked.turns, asked.concurrency, profile=asked.profile))))
