"""
How many messages a second the real daemon takes and answers through Discord, and how long it takes
to be there.

    python -m tests.benchmarks.discord [--messages 1000] [--channels 100]

The simulator and the daemon are processes of their own. The messages are said while the daemon is
away, so that all of them wait when it comes: they are read out of the channels' histories, and
answered as fast as a bot may send. Then as many are said while it listens. Prints one JSON line,
and ends with status 1 if an answer is missing or a channel was answered out of order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.commands import TURNGATE, address_in, environment
from tests.discord_daemon import bot
from tests.simulators.discord import GUILD
from tests.simulators.running import Remote, as_process

FIRST_CHANNEL = 20_000
PERSON = "81001"
PATIENCE = 600.0

_RECEIVED = re.compile(r"^turngate_messages_total\{[^}]*accepted[^}]*\} ([\d.]+)", re.MULTILINE)


async def measure(messages: int, channels: int, folder: Path) -> dict[str, object]:
    """Away, then there."""
    async with as_process("tests.simulators.discord") as sim, aiohttp.ClientSession() as http:
        names = [str(FIRST_CHANNEL + number) for number in range(channels)]
        for name in names:
            await sim.do("open", chat=name, kind="text")
        async with _daemon(sim, http, folder) as (began, ready):
            first_start = time.monotonic() - began
            await ready.until_received(0)
        await _say(sim, names, 0, messages)
        async with _daemon(sim, http, folder) as (began, ready):
            start = time.monotonic() - began
            await ready.until_received(messages)
            caught_up = time.monotonic() - began
            await _until(lambda: _answered(sim, messages))
            answered = time.monotonic() - began
            said_at = time.monotonic()
            await _say(sim, names, messages, messages)
            said = time.monotonic() - said_at
            await ready.until_received(2 * messages)
            received = time.monotonic() - said_at
            await _until(lambda: _answered(sim, 2 * messages))
        return {
            "case": "discord",
            "messages": messages,
            "channels": channels,
            "first_start_s": round(first_start, 2),
            "start_s": round(start, 2),
            "caught_up_per_s": round(messages / caught_up, 1),
            "answered_per_s": round(messages / answered, 1),
            "said_per_s": round(messages / said, 1),
            "received_per_s": round(messages / received, 1),
            "in_order": _in_order(await sim.messages(), names),
        }


class _Running:
    """A daemon, as its metrics show it."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http = http
        self._address = address

    async def until_ready(self) -> None:
        """Until it receives."""

        async def is_ready() -> bool:
            async with self._http.get(f"{self._address}/readyz") as answer:
                return answer.status == 200

        await _until(is_ready)

    async def until_received(self, count: int) -> None:
        """Until so many were stored."""

        async def has_received() -> bool:
            async with self._http.get(f"{self._address}/metrics") as answer:
                return sum(map(float, _RECEIVED.findall(await answer.text()))) >= count

        await _until(has_received)


@asynccontextmanager
async def _daemon(
    sim: Remote, http: aiohttp.ClientSession, folder: Path
) -> AsyncIterator[tuple[float, _Running]]:
    """Ready. Yields when it was started."""
    config = folder / "turngate.yaml"
    config.write_text(
        f"platforms:\n  discord:\n{bot(sim)}"
        "web: {listen: '127.0.0.1:0'}\nturns: {debounce: 0ms, when_busy: follow_up}\ndelivery: "
        "{stream: false}\n"
        f'access: {{allow: ["discord:guild:{GUILD}"]}}\n'
    )
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        TURNGATE,
        "run",
        "--config",
        str(config),
        "--state-dir",
        str(folder / "state"),
        env=environment(folder, PYTHONUNBUFFERED="1"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        running = _Running(http, address_in(line))
        await running.until_ready()
        yield began, running
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _say(sim: Remote, channels: list[str], first: int, count: int) -> None:
    """Some at once: one after the other they would come no faster than the simulator answers."""
    room = asyncio.Semaphore(8)

    async def say(number: int) -> None:
        async with room:
            await sim.say(
                f"<@7001> tok{number}", chat=channels[number % len(channels)], user=PERSON
            )

    for start in range(first, first + count, len(channels)):
        await asyncio.gather(
            *(say(number) for number in range(start, min(start + len(channels), first + count)))
        )


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():
            await asyncio.sleep(0.05)


async def _answered(sim: Remote, messages: int) -> bool:
    return len(_told(await sim.messages())) >= messages


def _told(answers: list[dict[str, str]]) -> list[tuple[str, int]]:
    """
    Channel and number of everything that was answered; what came together may be answered together.
    """
    return [
        (each["chat"], int(number))
        for each in answers
        for number in re.findall(r"tok(\d+)", each["text"])
    ]


def _in_order(answers: list[dict[str, str]], channels: list[str]) -> bool:
    told = _told(answers)
    each = [[number for channel, number in told if channel == name] for name in channels]
    return all(numbers == sorted(set(numbers)) for numbers in each)


def main() -> int:
    """0 if nothing is missing and everything is in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--channels", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-discord-") as folder:
        found = asyncio.run(measure(asked.messages, asked.channels, Path(folder)))
    print(json.dumps(found))
    return int(not found["in_order"])


if __name__ == "__main__":
    sys.exit(main())
