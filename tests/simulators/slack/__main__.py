"""`python -m tests.simulators.slack`: the package's docstring says the rest."""

from __future__ import annotations

import argparse
import asyncio

from tests.simulators.common import Simulator
from tests.simulators.running import serve
from tests.simulators.slack import Settings, Slack

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Slack's Web API, Socket Mode and Events API, simulated"
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--pace",
        type=float,
        default=1.0,
        help="0.01: whatever is waited for takes a hundredth of it",
    )
    parser.add_argument(
        "--no-streams", action="store_true", help="a workspace without chat.startStream"
    )
    parser.add_argument("--rates", action="store_true", help="answer 429 when too much is posted")
    arguments = parser.parse_args()
    settings = Settings(streaming=not arguments.no_streams, rates=arguments.rates).at_pace(
        arguments.pace
    )
    asyncio.run(serve(Simulator(Slack(settings)), arguments.port))
