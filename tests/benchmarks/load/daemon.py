"""
The gateway as it ships, with one account on the load's own platform.

    python -m tests.benchmarks.load.daemon --state-dir DIR --socket FILE [--agent JSON] [--turns
    JSON] [--sessions JSON]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from tests.benchmarks.load.wire import PLATFORM, LoadAdapter
from turngate.config.schema import (
    Access,
    Agent,
    Config,
    Sessions,
    Turns,
    Web,
)
from turngate.gateway.daemon.app import running
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.domain.agent_events import (
    AgentEvent,
    Done,
    Turn,
    Usage,
)
from turngate.gateway.domain.transcript import Text
from turngate.gateway.observability.logs import configure_logging


class Waiting:
    """Says back what it heard, after so many seconds, in two pieces."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self._seconds = float(str(options.get("seconds", 0)))

    async def run(self, turn: Turn) -> AsyncGenerator[AgentEvent]:
        """One turn."""
        await asyncio.sleep(self._seconds)
        yield Text("You said: ")
        yield Text(" ".join(message.text for message in turn.messages))
        yield Usage(input=20, output=20)
        yield Done()


async def serve(config: Config, socket: Path) -> None:
    """Until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    with take_lock(config.state_dir) as lock:
        async with running(
            config, lock, doors=True, accounts={(PLATFORM, "main"): LoadAdapter(socket)}
        ):
            await stopping.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument(
        "--agent", default='{"kind": "python", "object": "tests.benchmarks.load.daemon:Waiting"}'
    )
    parser.add_argument("--turns", default="{}")
    parser.add_argument("--sessions", default="{}")
    asked = parser.parse_args()
    configure_logging("warning", sys.stderr)
    config = Config(
        state_dir=asked.state_dir,
        web=Web(listen=None),
        agents={"main": Agent.model_validate_json(asked.agent)},
        access=Access(direct="open-dangerously"),
        turns=Turns.model_validate_json(asked.turns),
        sessions=Sessions.model_validate_json(asked.sessions),
    )
    asyncio.run(serve(config, asked.socket))
