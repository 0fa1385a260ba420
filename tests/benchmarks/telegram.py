"""
How many messages a second the real daemon takes and answers through Telegram, and how much of that
time is aiogram's.

    python -m tests.benchmarks.telegram [--messages 1000] [--chats 100]

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
from pathlib import Path

from tests.commands import environment
from tests.simulators.running import Remote, as_process
from tests.simulators.telegram import TOKENS

FIRST_CHAT = 71000
PATIENCE = 600.0


async def measure(messages: int, chats: int, folder: Path) -> dict[str, object]:
    """Everything is said at once, before the daemon starts."""
    async with as_process("tests.simulators.telegram") as sim:
        people = [str(FIRST_CHAT + number) for number in range(chats)]
        for number in range(messages):
            person = people[number % chats]
            await sim.say(f"tok{number}", chat=person, user=person)
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
            "case": "telegram",
            "messages": messages,
            "chats": chats,
            "received_per_s": round(messages / received, 1),
            "answered_per_s": round(messages / answered, 1),
            "in_order": _in_order(await sim.messages(), chats),
            **_shares(folder / "profile"),
        }


async def _start(sim: Remote, people: list[str], folder: Path) -> asyncio.subprocess.Process:
    config = folder / "turngate.yaml"
    allow = ", ".join(f'"telegram:{person}"' for person in people)
    config.write_text(
        f"platforms: {{telegram: [{{token: '{TOKENS['main']}', api_url: '{sim.url}'}}]}}\n"
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


async def _until(holds: object) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await holds():  # type: ignore[operator]
            await asyncio.sleep(0.1)


async def _acknowledged(sim: Remote, messages: int) -> bool:
    return sum(update["acknowledged"] for update in await sim.updates()) >= messages


async def _answered(sim: Remote, messages: int) -> bool:
    return len(_told(await sim.messages())) >= messages


def _told(answers: list[dict[str, str]]) -> list[tuple[int, int]]:
    """
    Chat and number of everything that was answered; what came together may be answered together.
    """
    return [
        (int(each["chat"]), int(number))
        for each in answers
        for number in re.findall(r"tok(\d+)", each["text"])
    ]


def _in_order(answers: list[dict[str, str]], chats: int) -> bool:
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

    def spent(function: str, file: str = "", *, alone: bool = False) -> float:
        return sum(
            value[2 if alone else 3]
            for name, value in stats.items()
            if function in name[2] and file in name[0]
        )

    whole = (
        spent("run_forever", "base_events")
        - spent("'poll'", alone=True)
        - spent("import_module", "importlib")
    )
    aiogram = (
        spent("build_form_data", "aiogram")
        + spent("check_response", "aiogram")
        + spent("_parsed", "intake")
    )
    markup = spent("marked", "telegram/markup")
    return {
        "computed_s": round(whole, 1),
        "aiogram": round(aiogram / whole, 3),
        "markup": round(markup / whole, 3),
    }


def main() -> int:
    """0 if nothing is missing and everything is in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--chats", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-telegram-") as folder:
        found = asyncio.run(measure(asked.messages, asked.chats, Path(folder)))
    print(json.dumps(found))
    return int(not found["in_order"])


if __name__ == "__main__":
    sys.exit(main())
