"""
One chat that never stops, and ninety-nine that say something now and then: how much longer do those
wait?

    python -m tests.benchmarks.load.fairness [--per-second 1000] [--seconds 20] [--quiet 99]
    [--pause 2.0] [--telegram]

The quiet chats talk for as long without the noise first, in the same process. With --telegram
everything goes through a server of Telegram's protocol and the real aiogram, which has one line for
all chats. Prints one JSON line, and ends with status 1 if somebody quiet got no answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path

from tests.benchmarks.load.driver import People, gateway, percentile
from tests.benchmarks.load.through_telegram import through_telegram

NOISY = "1000"
_TICK = 0.05


async def measure(asked: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Both after each other."""
    quiet, numbers = [str(2000 + number) for number in range(asked.quiet)], count()
    open_: AbstractAsyncContextManager[People] = (
        through_telegram(folder) if asked.telegram else gateway(folder)
    )
    async with open_ as people:
        await _quiet_talk(
            people, quiet, 2.0, asked.pause, numbers
        )  # until everything is loaded and warm
        await people.until(0)
        people.took.clear()
        before = await _during(people, quiet, asked, numbers, noise=0)
        during = await _during(people, quiet, asked, numbers, noise=asked.per_second)
        use = people.use()
    return {
        "case": "fairness through Telegram" if asked.telegram else "fairness",
        "noisy_per_s": asked.per_second,
        "seconds": asked.seconds,
        "quiet_messages": before["count"],
        "quiet_p50_s": before["p50"],
        "quiet_p95_s": before["p95"],
        "beside_noise_p50_s": during["p50"],
        "beside_noise_p95_s": during["p95"],
        "p95_ratio": round(during["p95"] / before["p95"], 2),
        "noise_said": during["noise"],
        "noise_stored_after_s": during["stored_after"],
        "most_mb": round(use["most_mb"]),
        "unanswered": before["unanswered"] + during["unanswered"],
    }


async def _during(
    people: People,
    quiet: list[str],
    asked: argparse.Namespace,
    numbers: Iterator[int],
    *,
    noise: int,
) -> dict[str, float]:
    people.took.clear()
    stored, began = people.stored, time.monotonic()
    making = asyncio.create_task(_make_noise(people, noise, asked.seconds, numbers))
    said = await _quiet_talk(people, quiet, asked.seconds, asked.pause, numbers)
    made = await making
    await people.until_answered(set(said))
    took = [each for chat in quiet for each in people.took.get(chat, ())]
    await people.until_stored(stored + made + len(said))
    stored_after = time.monotonic() - began - asked.seconds
    for id_ in [each for each in people.waiting if each not in said]:
        del people.waiting[id_]  # what is too much is refused with one word
    return {
        "count": len(took),
        "p50": round(percentile(took, 0.5), 3),
        "p95": round(percentile(took, 0.95), 3),
        "noise": made,
        "stored_after": round(max(stored_after, 0.0), 1),
        "unanswered": len(said) - len(took),
    }


async def _make_noise(
    people: People, per_second: int, seconds: float, numbers: Iterator[int]
) -> int:
    made, began = 0, time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        due = int(passed * per_second) - made
        if due:
            people.say([(f"m{next(numbers)}", NOISY, "and another thing") for _ in range(due)])
            made += due
        await asyncio.sleep(_TICK)
    return made


async def _quiet_talk(
    people: People, quiet: list[str], seconds: float, pause: float, numbers: Iterator[int]
) -> list[str]:
    """Each says something, waits for the answer, pauses, goes on."""
    ended = time.monotonic() + seconds
    said: list[str] = []

    async def talk(chat: str) -> None:
        await asyncio.sleep(random.uniform(0, pause))
        while time.monotonic() < ended:
            said.append(id_ := f"m{next(numbers)}")
            people.say([(id_, chat, "how are you?")])
            await people.until_answered({id_})
            await asyncio.sleep(random.uniform(pause / 2, pause * 1.5))

    await asyncio.gather(*map(talk, quiet))
    return said


def main() -> int:
    """0 if everybody quiet was answered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--per-second", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--quiet", type=int, default=99)
    parser.add_argument("--pause", type=float, default=2.0)
    parser.add_argument("--telegram", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-fairness-") as folder:
        found = asyncio.run(measure(asked, Path(folder)))
    print(json.dumps(found))
    return int(found["unanswered"] != 0)


if __name__ == "__main__":
    sys.exit(main())
