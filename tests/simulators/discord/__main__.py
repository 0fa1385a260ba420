"""`python -m tests.simulators.discord`: the package's docstring says the rest."""

from __future__ import annotations

import argparse
import asyncio

from tests.simulators.common import Simulator
from tests.simulators.discord import Discord, Settings
from tests.simulators.running import serve

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Discord's REST API and gateway, simulated")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--heartbeat", type=float, default=41.25, help="seconds between heartbeats")
    parser.add_argument("--rates", action="store_true", help="enforce rate limits")
    arguments = parser.parse_args()
    settings = Settings(heartbeat=arguments.heartbeat, rates=arguments.rates)
    asyncio.run(serve(Simulator(Discord(settings=settings)), arguments.port))
