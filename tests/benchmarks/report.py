"""
Run every case of the benchmark, print the table, write results.json, and put the figures into
docs/performance.md.

    make bench

A figure in docs/performance.md comes from results.json alone; a test compares the two.
"""

from __future__ import annotations

import asyncio
import json
import platform
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.population import populate_in_a_child
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.stores.sqlite import SqliteStore

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
_BLOCK = re.compile(r"(?<=<!-- benchmark -->\n).*(?=<!-- /benchmark -->)", re.DOTALL)
_SECONDS = 6
_TRIES = 3

Line = dict[str, float]


def main() -> None:
    """All cases, one after the other, with what is being done on stderr."""
    results = {
        "machine": _machine(),
        "alone": _pair(sessions=100, messages=10, concurrency=1),
        "together": _pair(sessions=100, messages=10, concurrency=64),
        "many_sessions": _pair(sessions=100_000, messages=10, concurrency=64),
        "long_transcripts": _pair(sessions=100, messages=10_000, concurrency=64),
        "opening": _opening(),
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(_BLOCK.sub(lambda _: table(results), PAGE.read_text()))
    print(table(results))


def table(results: dict[str, dict[str, Line]]) -> str:
    """The figures as Markdown."""
    head = (
        "| sessions | messages | at once | turns/s | floor | of the floor | p50 ms | p99 ms "
        "| KB/turn | MB |"
    )
    rows = [head, "|" + "---|" * head.count(" | ") + "---|", *_rows(results)]
    return "\n".join([*rows, "", *_sentences(results), ""])


def _rows(results: dict[str, dict[str, Line]]) -> Iterator[str]:
    for case in ("alone", "together", "many_sessions", "long_transcripts"):
        ours, floor = results[case]["turns"], results[case]["floor"]
        yield (
            f"| {ours['sessions']:,} | {ours['messages']:,} | {ours['concurrency']} | "
            f"{ours['turns_per_s']:,.0f} "
            f"| {floor['turns_per_s']:,.0f} | {ours['turns_per_s'] / floor['turns_per_s']:.2f} | "
            f"{ours['p50_ms']:.2f} "
            f"| {ours['p99_ms']:.2f} | {ours['written_per_turn'] / 1000:.1f} | "
            f"{ours['rss_mb']:.0f} |"
        )


def _sentences(results: dict[str, dict[str, Line]]) -> Iterator[str]:
    few = results["together"]["turns"]
    many, long = results["many_sessions"]["turns"], results["long_transcripts"]["turns"]
    opening = results["opening"]
    yield (
        f"- 100,000 sessions against 100: {many['turns_per_s'] / few['turns_per_s']:.2f} of the "
        "speed, "
        f"{many['rss_mb'] - few['rss_mb']:+.1f} MB of memory."
    )
    yield (
        "- 10,000 messages in a transcript against 10: "
        f"{long['turns_per_s'] / few['turns_per_s']:.2f} of the speed."
    )
    yield (
        "- Opening a store with 100,000 sessions and 1,000,000 messages takes "
        f"{opening['full']['ms']:.1f} ms, "
        f"an empty one {opening['empty']['ms']:.1f} ms."
    )


def _pair(**case: int) -> dict[str, Line]:
    """The median of a few tries, by their ratio to the floor: shared machines are noisy."""
    tries = []
    for number in range(_TRIES):
        print(f"{case}, try {number + 1} of {_TRIES} ...", file=sys.stderr)
        options = [word for name, value in case.items() for word in (f"--{name}", str(value))]
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.turns",
            *options,
            "--seconds",
            str(_SECONDS),
            "--floor",
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        tries.append({line["case"]: line for line in map(json.loads, output.splitlines())})
    return sorted(tries, key=lambda one: one["turns"]["turns_per_s"] / one["floor"]["turns_per_s"])[
        _TRIES // 2
    ]


def _opening() -> dict[str, Line]:
    print("opening a large store and an empty one ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="turngate-bench-") as folder:
        full, empty = Path(folder) / "full.db", Path(folder) / "empty.db"
        populate_in_a_child(full, sessions=100_000, messages=10, everywhere=True)
        populate_in_a_child(empty, sessions=0, messages=0)
        times: dict[Path, list[float]] = {full: [], empty: []}
        for _ in range(21):
            for path, taken in times.items():
                taken.append(asyncio.run(_open_once(path)))
    return {
        "full": {"ms": statistics.median(times[full]) * 1000},
        "empty": {"ms": statistics.median(times[empty]) * 1000},
    }


async def _open_once(path: Path) -> float:
    started = time.perf_counter()
    store = await SqliteStore.connect(path, SystemClock())
    taken = time.perf_counter() - started
    await store.close()
    return taken


def _machine() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "date": datetime.now(UTC).date().isoformat(),
    }


if __name__ == "__main__":
    main()
