"""`python -m tests.simulators.models`: the package's docstring says the rest."""

from __future__ import annotations

import argparse
import asyncio

from tests.simulators.common import Simulator
from tests.simulators.models import Models
from tests.simulators.running import serve

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="OpenAI's and Anthropic's protocols, simulated")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two words")
    arguments = parser.parse_args()
    asyncio.run(serve(Simulator(Models(pause=arguments.pause)), arguments.port))
