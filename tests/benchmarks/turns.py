"""
The storage work of whole turns, through the product's own store, as durable as it ships.

    python -m tests.benchmarks.turns --sessions 1000 --messages 100 --concurrency 64 --seconds 5
    --floor

prints one JSON line; with --floor a second one for bare sqlite3 doing the same rows in the same
process. Both take turns in short rounds, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import time as time_of_day
from datetime import timedelta
from itertools import count
from pathlib import Path
from statistics import quantiles

from tests.benchmarks.floor import Floor
from tests.benchmarks.population import DRIVEN, key_of, populate_in_a_child, said, source_of
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.ids import SessionKey
from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.outbox import Part, Sent
from turngate.gateway.domain.session import ResetPolicy
from turngate.gateway.domain.store_values import (
    Claim,
    Opening,
    Outcome,
)
from turngate.gateway.domain.transcript import Role
from turngate.gateway.domain.usage import (
    Payer,
    Spent,
    Tokens,
)
from turngate.gateway.stores.sqlite import (
    SqliteStore,
    recent_entries,
    session_table,
)

Place = tuple[SessionSource, SessionKey]

_ROUNDS = 4
_POLICY = ResetPolicy(idle_after=timedelta(hours=24), daily_at=time_of_day(4), zone="Europe/Berlin")


@dataclass(slots=True)
class Measured:
    """Turns done, how long each took, and what it cost."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    written: int = 0

    def line(self, case: str, options: argparse.Namespace) -> dict[str, object]:
        """As the contract has it."""
        cuts = quantiles(self.latencies, n=100)
        return {
            "case": case,
            "sessions": options.sessions,
            "messages": options.messages,
            "concurrency": options.concurrency,
            "turns_per_s": round(len(self.latencies) / self.seconds, 1),
            "p50_ms": round(cuts[49] * 1000, 3),
            "p99_ms": round(cuts[98] * 1000, 3),
            "written_per_turn": round(self.written / len(self.latencies)),
            "rss_mb": round(_resident_mb(), 1),
        }


async def drive(
    store: SqliteStore,
    numbers: Iterator[int],
    places: list[Place],
    deadline: float,
    measured: Measured,
) -> None:
    """One worker: turn after turn, each its four commits."""
    clock = SystemClock()
    while (started := time.perf_counter()) < deadline:
        number = next(numbers)
        now = clock.now()
        entry = said(Role.USER, now)
        source, key = places[number % len(places)]
        message = inbound(source, number, entry.text)
        accepted = await store.accept(message, key)
        opening = Opening(key=key, source=message.source, policy=_POLICY)
        begun = await store.begin(
            Claim(inbox=(accepted.id,), opening=opening, entries=(entry,), history=50)
        )
        outcome = Outcome(
            entries=(said(Role.ASSISTANT, now),),
            spent=Spent(tokens=Tokens(input=10, output=10), prompt_tokens=10),
            parts=(Part(target=message.source, text=entry.text),),
            payer=Payer(
                day=now.date().isoformat(),
                platform=source.platform,
                user=source.user_id or "",
                agent="main",
            ),
        )
        parts = await store.finish(begun.turn, outcome)
        await store.record_sent(parts[0].id, Sent(message_id="1", at=now))
        measured.latencies.append(time.perf_counter() - started)


def inbound(source: SessionSource, number: int, text: str) -> InboundMessage:
    """A message under the two names a platform may repeat it under."""
    events = (f"update:{number}", f"message:{number}")
    return InboundMessage(
        id=str(number), event_ids=events, source=source, text=text, sent_at=SystemClock().now()
    )


async def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    """Fill, warm up, then rounds of ours and, if asked for, of the floor."""
    ours, bare = folder / "ours.db", folder / "floor.db"
    populate_in_a_child(ours, sessions=options.sessions, messages=options.messages)
    if options.floor:
        shutil.copy(ours, bare)
    driven = min(DRIVEN, options.sessions)
    places = [(source_of(number), key_of(number)) for number in range(driven)]
    store = await SqliteStore.connect(ours, SystemClock())
    sentence = said(Role.ASSISTANT, SystemClock().now())
    floor = (
        Floor(bare, driven=driven, message=inbound(source_of(0), 0, sentence.text), reply=sentence)
        if options.floor
        else None
    )
    numbers = count()
    await _round(store, numbers, places, options.concurrency, 0.3, Measured())
    mine, its = Measured(), Measured()
    for _ in range(_ROUNDS):
        await _round(store, numbers, places, options.concurrency, options.seconds / _ROUNDS, mine)
        if floor is not None:
            _floor_round(floor, options.concurrency, options.seconds / _ROUNDS, its)
    lines = [mine.line("turns", options)]
    await store.close()
    if floor is not None:
        lines.append(its.line("floor", options))
        floor.close()
    return lines


async def _round(
    store: SqliteStore,
    numbers: Iterator[int],
    places: list[Place],
    concurrency: int,
    seconds: float,
    measured: Measured,
) -> None:
    started, written = time.perf_counter(), _written_bytes()
    async with asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(drive(store, numbers, places, started + seconds, measured))
    measured.seconds += time.perf_counter() - started
    measured.written += _written_bytes() - written


def _floor_round(floor: Floor, concurrency: int, seconds: float, measured: Measured) -> None:
    started, written = time.perf_counter(), _written_bytes()
    floor.run(concurrency, seconds, measured.latencies)
    measured.seconds += time.perf_counter() - started
    measured.written += _written_bytes() - written


def _written_bytes() -> int:
    """What this process had the kernel write to storage."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("write_bytes")))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1_000_000


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument(
        "--floor", action="store_true", help="also measure bare sqlite3 doing the same rows"
    )
    parser.add_argument(
        "--cold",
        action="store_true",
        help="keep no session in memory: every turn reads its history",
    )
    options = parser.parse_args()
    if options.cold:
        recent_entries._SESSIONS = session_table._REMEMBERED = 0
    with tempfile.TemporaryDirectory(prefix="turngate-bench-") as folder:
        for line in asyncio.run(measure(options, Path(folder))):
            print(json.dumps(line))


if __name__ == "__main__":
    main()
