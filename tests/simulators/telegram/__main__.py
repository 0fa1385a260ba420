"""`python -m tests.simulators.telegram`: the package's docstring says the rest."""

from __future__ import annotations

import argparse
import asyncio

from tests.simulators.common import Simulator
from tests.simulators.running import serve
from tests.simulators.telegram import Telegram

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Telegram's Bot API, simulated")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--local", action="store_true", help="a Bot API server of one's own: no limits for files"
    )
    parser.add_argument(
        "--no-rich", action="store_true", help="a server that knows no rich messages"
    )
    parser.add_argument("--rates", action="store_true", help="answer 429 when too much is sent")
    arguments = parser.parse_args()
    platform = Telegram(local=arguments.local, rich=not arguments.no_rich, rates=arguments.rates)
    asyncio.run(serve(Simulator(platform), arguments.port))
