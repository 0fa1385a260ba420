"""
The gateway as it ships, with one account on a simulated platform, and crash points that can be armed.

    python -m tests.crash.daemon --state-dir DIR --platform URL [--kind finding] [--crash POINT:NTH] [--idle SECONDS]
        [--agent JSON]

A kind is a shape of the scripted platform, or `telegram`.

Says "ready" when it is. At the armed point it kills itself as the kernel would: nothing is tidied up.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from config.access import AccessEntry
from config.schema import Access, Agent, Config, Reset, Sessions, Turns, Web
from gateway.app import running
from gateway.crashpoints import arm
from gateway.observe import configure_logging
from gateway.state_dir import take_lock
from tests.simulators.scripted_adapter import ADAPTERS, PLATFORM

TELEGRAM = "telegram"
PERSON = "ann"
PERSON_ON_TELEGRAM = "71001"


def adapter_for(kind: str, url: str) -> Any:
    """Of the main account. Telegram's library takes seconds to load, so only those wait who want it."""
    if kind != TELEGRAM:
        return ADAPTERS[kind](url)
    telegram, simulator = import_module("adapters.telegram"), import_module("tests.simulators.telegram")
    return telegram.TelegramAdapter(telegram.Account(token=simulator.TOKENS["main"], api_url=url))


def die_at(point: str, nth: int) -> None:
    """The nth time that point is reached, on whatever thread."""
    reached = 0

    def tell(name: str) -> None:
        nonlocal reached
        reached += name == point
        if reached == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    arm(tell)


def config_for(state_dir: Path, idle: float | None, kind: str, agent: str) -> Config:
    """Quick turns, one person who may talk, no door but the platform and the control socket."""
    on_telegram = kind == TELEGRAM
    person = AccessEntry(
        platform=TELEGRAM if on_telegram else PLATFORM, id=PERSON_ON_TELEGRAM if on_telegram else PERSON
    )
    return Config(
        state_dir=state_dir,
        web=Web(listen=None),
        agents={"main": Agent.model_validate_json(agent)},
        access=Access(allow=(person,)),
        sessions=Sessions(reset=Reset(idle=None if idle is None else timedelta(seconds=idle))),
        # A daemon that is killed every second falls behind; nothing may be refused for that, everything is answered.
        turns=Turns(debounce=timedelta(milliseconds=20), drain=timedelta(seconds=5), waiting_per_session=100_000),
    )


async def serve(config: Config, adapter: Any) -> None:
    """Until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    with take_lock(config.state_dir, patience=5) as lock:
        async with running(config, lock, doors=False, accounts={(adapter.platform, "main"): adapter}):
            print("ready", flush=True)
            await stopping.wait()
    await adapter.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--platform", required=True)
    parser.add_argument("--kind", choices=sorted([*ADAPTERS, TELEGRAM]), default="finding")
    parser.add_argument("--crash", metavar="POINT:NTH")
    parser.add_argument("--idle", type=float)
    parser.add_argument("--agent", default="{}")
    asked = parser.parse_args()
    configure_logging("warning", sys.stderr)
    if asked.crash:
        die_at(asked.crash.rpartition(":")[0], int(asked.crash.rpartition(":")[2]))
    config = config_for(asked.state_dir, asked.idle, asked.kind, asked.agent)
    asyncio.run(serve(config, adapter_for(asked.kind, asked.platform)))
