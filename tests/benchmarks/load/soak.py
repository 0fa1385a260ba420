"""
Months in an hour: a million messages over ten thousand chats, and what they leave behind in the
process.

    python -m tests.benchmarks.load.soak [--messages 1000000] [--chats 10000] [--burst 10]
    [--history 20]

People say one to `--burst` things at a time, and at most 2,000 wait for an answer. Every chat has
twice as many entries as the agent is shown (`--history`) from the start, as after months: else
memory would grow with them until they have. The first tenth is warm-up. Shows how far it is, prints
one JSON line, and ends with status 1 if an answer is missing or came twice, or if something grew
that must not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

from tests.benchmarks.load.driver import People, gateway
from tests.benchmarks.population import populate_in_a_child, source_of

MOST_MB_PER_100_000 = 1.0
MOST_WAL_MB = 64.0
_SAMPLES = 500
_AT_ONCE = 2000
_WORDS = "could you look at the build once more, it fails there since tuesday".split()  # noqa: SIM905 - readable


@dataclass(slots=True)
class Samples:
    """What was seen on the way: messages answered, and the memory at that moment."""

    people: People
    messages: list[int] = field(default_factory=list)
    mb: list[float] = field(default_factory=list)
    wal_mb: float = 0.0

    def take(self, messages: int) -> None:
        """Now."""
        self.messages.append(messages)
        self.mb.append(self.people.use()["mb"])
        log = self.people.state / "turngate.db-wal"
        self.wal_mb = max(self.wal_mb, log.stat().st_size / 1e6 if log.exists() else 0.0)

    def growth(self, warm: int) -> float:
        """MB for each 100,000 messages, by the straight line that fits best."""
        seen = [
            (count, mb) for count, mb in zip(self.messages, self.mb, strict=True) if count >= warm
        ]
        return (
            linear_regression([count for count, _ in seen], [mb for _, mb in seen]).slope * 100_000
        )


async def measure(asked: argparse.Namespace, folder: Path) -> dict[str, object]:
    """From the first message to the last answer."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    populate_in_a_child(
        state / "turngate.db", sessions=asked.chats, messages=2 * asked.history, everywhere=True
    )
    rules = {"turns": {"concurrent": 256}, "sessions": {"history": {"messages": asked.history}}}
    async with gateway(
        folder, *(word for name, rule in rules.items() for word in (f"--{name}", json.dumps(rule)))
    ) as people:
        await _talk(people, asked, 0, 200, None)
        await people.until(0)
        tasks, before = await _at_rest(people), people.use()
        samples, began = Samples(people), time.monotonic()
        await _talk(people, asked, 200, asked.messages, samples)
        await people.until(0)
        took = time.monotonic() - began
        tasks_after, after = await _at_rest(people), people.use()
    return {
        "case": "soak",
        "messages": asked.messages,
        "chats": asked.chats,
        "history": asked.history,
        "turns": people.answers,
        "minutes": round(took / 60, 1),
        "messages_per_s": round(asked.messages / took),
        "cpu_ms_per_message": round((after["cpu"] - before["cpu"]) * 1000 / asked.messages, 2),
        "unanswered": asked.messages - len(people.answered),
        "answered_twice": people.twice,
        "mb_at_start": round(before["mb"], 1),
        "mb_after_warm_up": round(_first(samples, asked.messages // 10), 1),
        "mb_at_end": round(after["mb"], 1),
        "mb_per_100_000": round(samples.growth(asked.messages // 10), 2),
        "largest_wal_mb": round(samples.wal_mb, 1),
        "tasks": [tasks, tasks_after],
        "files": [before["files"], after["files"]],
        "database_mb": round((folder / "state" / "turngate.db").stat().st_size / 1e6),
    }


async def _talk(
    people: People, asked: argparse.Namespace, first: int, last: int, samples: Samples | None
) -> None:
    number, every = first, max(asked.messages // _SAMPLES, 1)
    sampled = first
    while number < last:
        chat = source_of(random.randrange(asked.chats)).chat_id or ""
        burst = range(number, min(number + random.randint(1, asked.burst), last))
        people.say([(f"m{each}", chat, " ".join(random.choices(_WORDS, k=12))) for each in burst])
        number = burst.stop
        if len(people.waiting) >= _AT_ONCE:
            await people.until(_AT_ONCE - 100)
            people.took.clear()
        if samples is not None and number - sampled >= every:
            sampled = number
            samples.take(len(people.answered))
            _show(len(people.answered), last, samples)


async def _at_rest(people: People) -> int:
    """How many tasks there are when nobody says anything; what ends soon is given time for it."""
    await asyncio.sleep(10)
    return await people.count_tasks()


def _first(samples: Samples, warm: int) -> float:
    return next(mb for count, mb in zip(samples.messages, samples.mb, strict=True) if count >= warm)


def _show(done: int, of: int, samples: Samples) -> None:
    """In place on a terminal, else now and then."""
    words = (
        f"{done:,} of {of:,} messages, {samples.mb[-1]:.0f} MB, log {samples.wal_mb:.0f} MB at most"
    )
    if sys.stderr.isatty():
        print(f"\r{words}   ", end="", file=sys.stderr, flush=True)
    elif len(samples.mb) % (_SAMPLES // 50) == 0:
        print(words, file=sys.stderr, flush=True)


def _is_sound(found: dict[str, object]) -> bool:
    tasks, files = found["tasks"], found["files"]
    return (
        found["unanswered"] == 0
        and found["answered_twice"] == 0
        and found["mb_per_100_000"] <= MOST_MB_PER_100_000  # type: ignore[operator]
        and found["largest_wal_mb"] <= MOST_WAL_MB  # type: ignore[operator]
        and tasks[1] <= tasks[0]  # type: ignore[index]
        and files[1] <= files[0]  # type: ignore[index]
    )


def main() -> int:
    """0 if nothing is missing and nothing has grown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--chats", type=int, default=10_000)
    parser.add_argument("--burst", type=int, default=10)
    parser.add_argument("--history", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-soak-") as folder:
        found = asyncio.run(measure(asked, Path(folder)))
    print(json.dumps(found))
    return int(not _is_sound(found))


if __name__ == "__main__":
    sys.exit(main())
