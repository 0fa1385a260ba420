"""
How many messages a second the real daemon takes and answers through Slack, and whose time that is.

    python -m tests.benchmarks.slack [--messages 1000] [--chats 100]

The simulator and the daemon are processes of their own; the daemon runs under the profiler. Prints
one JSON line, and ends with status 1 if an answer is missing or a chat was answered out of order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pstats
import re
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.commands import environment
from tests.simulators.running import Remote, as_process

FIRST_CHAT = 71000
PATIENCE = 600.0
LIBRARIES = ("slack_bolt", "slack_sdk", "aiohttp")


async def measure(messages: int, chats: int, folder: Path) -> dict[str, object]:
    """Everything is said at once, before the daemon starts, and waits for its connection."""
    async with as_process("tests.simulators.slack") as sim:
        await sim.do("server", waits=PATIENCE)
        people = [str(FIRST_CHAT + number) for number in range(chats)]
        for number in range(messages):
            person = people[number % chats]
            await sim.say(f"tok{number}", chat=f"D{person}", user=f"U{person}")
        daemon = await _start(sim, people, folder)
        try:
            began = time.monotonic()
            await _until(lambda: _acknowledged(sim, messages))
            received = time.monotonic() - began
            await _until(lambda: _answered(sim, messages))
            answered = time.monotonic() - began
        finally:
            daemon.send_signal(signal.SIGTERM)
            await daemon.wait()
        return {
            "case": "slack",
            "messages": messages,
            "chats": chats,
            "received_per_s": round(messages / received, 1),
            "answered_per_s": round(messages / answered, 1),
            "in_order": _in_order(await sim.messages(), chats),
            **_shares(folder / "profile"),
        }


async def _start(sim: Remote, people: list[str], folder: Path) -> asyncio.subprocess.Process:
    config = folder / "turngate.yaml"
    allow = ", ".join(f'"slack:U{person}"' for person in people)
    tokens = f"bot_token: xoxb-main, app_token: xapp-main, api_url: '{sim.url}/api/'"
    config.write_text(
        f"platforms: {{slack: [{{{tokens}}}]}}\n"
        "web: {listen: null}\nturns: {debounce: 0ms, when_busy: follow_up}\ndelivery: {stream: "
        "false}\n"
        f"access: {{allow: [{allow}]}}\n"
    )
    profiled = [
        sys.executable,
        "-m",
        "cProfile",
        "-o",
        str(folder / "profile"),
        "-m",
        "gateway",
        "run",
    ]
    daemon = await asyncio.create_subprocess_exec(
        *profiled,
        "--config",
        str(config),
        "--state-dir",
        str(folder / "state"),
        env=environment(folder, PYTHONUNBUFFERED="1", PYTHONPATH=str(Path(__file__).parents[2])),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert daemon.stdout is not None
    await daemon.stdout.readline()
    return daemon


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():
            await asyncio.sleep(0.1)


async def _acknowledged(sim: Remote, messages: int) -> bool:
    return sum(update["acknowledged"] for update in await sim.updates()) >= messages


async def _answered(sim: Remote, messages: int) -> bool:
    return len(_told(await sim.messages())) >= messages


def _told(answers: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """
    Chat and number of everything that was answered; what came together may be answered together.
    """
    return [
        (int(each["chat"][1:]), int(found))
        for each in answers
        for found in re.findall(r"tok(\d+)", each["text"])
    ]


def _in_order(answers: list[dict[str, Any]], chats: int) -> bool:
    told = _told(answers)
    each = [
        [number for chat, number in told if chat == FIRST_CHAT + index] for index in range(chats)
    ]
    return all(numbers == sorted(set(numbers)) for numbers in each)


def _shares(profile: Path) -> dict[str, float]:
    """
    Of the time in which the daemon computed after its start: waiting and importing do not count.
    """
    stats = pstats.Stats(str(profile)).stats  # type: ignore[attr-defined]

    def spent(function: str, file: str) -> float:
        return sum(
            value[3] for name, value in stats.items() if function in name[2] and file in name[0]
        )

    waited = sum(value[2] for name, value in stats.items() if "'poll'" in name[2])
    whole = spent("run_forever", "base_events") - waited - spent("import_module", "importlib")
    alone = {
        each: sum(value[2] for name, value in stats.items() if each in name[0])
        for each in LIBRARIES
    }
    return {
        "computed_s": round(whole, 1),
        **{each: round(seconds / whole, 3) for each, seconds in alone.items()},
    }


def main() -> int:
    """0 if nothing is missing and everything is in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--chats", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-slack-") as folder:
        found = asyncio.run(measure(asked.messages, asked.chats, Path(folder)))
    print(json.dumps(found))
    return int(not found["in_order"])


if __name__ == "__main__":
    sys.exit(main())
