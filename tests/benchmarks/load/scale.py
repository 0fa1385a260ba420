"""
Many turns at once: as many conversations say one thing each within ten seconds to an agent that
takes five.

    python -m tests.benchmarks.load.scale [--conversations 10000] [--within 10] [--agent-seconds 5]

Prints one JSON line, and ends with status 1 if an answer is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.load.driver import gateway, percentile

AGENT = {"kind": "python", "object": "tests.benchmarks.load.daemon:Waiting"}
_STEPS = 100


async def measure(
    conversations: int, within: float, agent_seconds: float, folder: Path
) -> dict[str, object]:
    """One message each, evenly."""
    agent = json.dumps({**AGENT, "options": {"seconds": agent_seconds}})
    async with gateway(
        folder, "--agent", agent, "--turns", json.dumps({"concurrent": conversations})
    ) as people:
        before, began, size = people.use(), time.monotonic(), -(-conversations // _STEPS)
        for step, first in enumerate(range(0, conversations, size)):
            await asyncio.sleep(max(began + step * within / _STEPS - time.monotonic(), 0))
            numbers = range(first, min(first + size, conversations))
            people.say(
                [(f"m{number}", f"c{number}", "what is the weather like?") for number in numbers]
            )
        said = time.monotonic() - began
        await people.until(0)
        took, after = [each for chat in people.took.values() for each in chat], people.use()
    return {
        "case": "scale",
        "conversations": conversations,
        "said_within_s": round(said, 1),
        "answered": len(took),
        "p50_s": round(percentile(took, 0.5), 2),
        "p99_s": round(percentile(took, 0.99), 2),
        "idle_mb": round(before["mb"]),
        "most_mb": round(after["most_mb"]),
        "kb_per_turn": round((after["most_mb"] - before["mb"]) * 1000 / conversations, 1),
        "cpu_ms_per_turn": round((after["cpu"] - before["cpu"]) * 1000 / conversations, 2),
    }


def main() -> int:
    """0 if everybody was answered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--within", type=float, default=10.0)
    parser.add_argument("--agent-seconds", type=float, default=5.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turngate-scale-") as folder:
        found = asyncio.run(
            measure(asked.conversations, asked.within, asked.agent_seconds, Path(folder))
        )
    print(json.dumps(found))
    return int(found["answered"] != asked.conversations)


if __name__ == "__main__":
    sys.exit(main())
