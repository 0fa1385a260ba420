"""
A backup while turns go on: how long it takes, and what it does to them.

    python -m tests.benchmarks.backup --entries 1000000 --concurrency 8

prints one JSON line. A turn is that of `tests.benchmarks.turns`; `quiet` is the same load just
before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from itertools import count
from pathlib import Path
from statistics import quantiles

from tests.benchmarks.population import DRIVEN, key_of, populate_in_a_child, source_of
from tests.benchmarks.turns import Measured, drive
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.stores.sqlite import SqliteStore

_PER_SESSION = 100
_QUIET_SECONDS = 5.0


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Fill, warm up, a quiet time, then a backup under the same load."""
    path, target = folder / "turngate.db", folder / "backup.db"
    populate_in_a_child(
        path, sessions=options.entries // _PER_SESSION, messages=_PER_SESSION, everywhere=True
    )
    store, numbers = await SqliteStore.connect(path, SystemClock()), count()
    places = [(source_of(number), key_of(number)) for number in range(DRIVEN)]

    async def load(measured: Measured, until: asyncio.Future[None]) -> None:
        began = time.perf_counter()
        while not until.done():
            deadline = time.perf_counter() + 0.2
            await asyncio.gather(
                *(
                    drive(store, numbers, places, deadline, measured)
                    for _ in range(options.concurrency)
                )
            )
        measured.seconds = time.perf_counter() - began

    async def watched() -> int:
        largest, log = 0, path.with_name(path.name + "-wal")
        while not backing_up.done():
            largest = max(largest, log.stat().st_size)
            await asyncio.sleep(0.02)
        return largest

    await load(Measured(), asyncio.ensure_future(asyncio.sleep(1)))
    quiet, busy = Measured(), Measured()
    await load(quiet, asyncio.ensure_future(asyncio.sleep(_QUIET_SECONDS)))
    began = time.perf_counter()
    backing_up = asyncio.ensure_future(store.back_up(target))
    _, largest, seconds = await asyncio.gather(
        load(busy, backing_up), watched(), _until(backing_up, began)
    )
    await store.close()
    size = target.stat().st_size / 1_000_000
    return {
        "case": "backup",
        "entries": options.entries,
        "concurrency": options.concurrency,
        "mb": round(size, 1),
        "seconds": round(seconds, 2),
        "mb_per_s": round(size / seconds, 1),
        **_figures("quiet", quiet),
        **_figures("meanwhile", busy),
        "wal_peak_mb": round(largest / 1_000_000, 1),
    }


async def _until(backing_up: asyncio.Future[None], began: float) -> float:
    await backing_up
    return time.perf_counter() - began


def _figures(when: str, measured: Measured) -> dict[str, object]:
    cuts = quantiles(measured.latencies, n=100)
    return {
        f"{when}_turns_per_s": round(len(measured.latencies) / measured.seconds, 1),
        f"{when}_p50_ms": round(cuts[49] * 1000, 1),
        f"{when}_p99_ms": round(cuts[98] * 1000, 1),
    }


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--concurrency", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-bench-") as folder:
        print(json.dumps(asyncio.run(measure(options, Path(folder)))))


if __name__ == "__main__":
    main()
