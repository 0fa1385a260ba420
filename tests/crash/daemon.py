"""
The gateway as it ships, with one account on a simulated platform, and crash points that can be
armed.

    python -m tests.crash.daemon --state-dir DIR --platform URL [--kind finding] [--crash POINT:NTH]
    [--idle SECONDS]
        [--agent JSON]

A kind is a shape of the scripted platform, or `telegram`, `slack` or `discord`.

Says "ready" when it is. At the armed point it kills itself as the kernel would: nothing is tidied
up.
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

from pydantic import SecretStr

from tests.simulators.scripted_adapter import ADAPTERS, PLATFORM
from turngate.config.access import AccessEntry, Whom
from turngate.config.platforms import PLATFORMS, section_of
from turngate.config.schema import (
    Access,
    Agent,
    Config,
    Platforms,
    Reset,
    Sessions,
    Turns,
    Web,
)
from turngate.gateway.daemon.app import running
from turngate.gateway.daemon.gateway import Gateway
from turngate.gateway.daemon.state_dir import take_lock
from turngate.gateway.daemon.system_clock import SystemClock
from turngate.gateway.domain.crashpoints import arm
from turngate.gateway.domain.errors import StoreUnavailable
from turngate.gateway.observability.logs import configure_logging

TELEGRAM = "telegram"
SLACK = "slack"
DISCORD = "discord"
PERSON = "ann"
PERSON_ON_TELEGRAM = "71001"
PERSON_ON_SLACK = "U71001"
TEAM_ON_SLACK = "T0001"
PEOPLE_ON_DISCORD = tuple(str(number) for number in range(77000, 77020))
GUILD_ON_DISCORD = "9001"


_ALLOWED = {
    TELEGRAM: (AccessEntry(platform=TELEGRAM, id=PERSON_ON_TELEGRAM),),
    SLACK: (
        AccessEntry(platform=SLACK, id=PERSON_ON_SLACK),
        AccessEntry(platform=SLACK, id=TEAM_ON_SLACK, whom=Whom.TEAM),
    ),
    DISCORD: (
        *(AccessEntry(platform=DISCORD, id=person) for person in PEOPLE_ON_DISCORD),
        AccessEntry(platform=DISCORD, id=GUILD_ON_DISCORD, whom=Whom.GUILD),
    ),
}


def adapter_for(kind: str, url: str) -> Any | None:
    """
    Of the main account; None if it is one of the config.

    A platform's library takes seconds to load, so only those wait who want it.
    """
    if kind == DISCORD:
        return None
    if kind == SLACK:
        slack = import_module("turngate.adapters.slack.plugin")
        account = slack.Account(bot_token="xoxb-main", app_token="xapp-main", api_url=f"{url}/api/")  # noqa: S106
        return slack.SlackAdapter(account, SystemClock())
    if kind != TELEGRAM:
        return ADAPTERS[kind](url)
    telegram, simulator = (
        import_module("turngate.adapters.telegram.plugin"),
        import_module("tests.simulators.telegram"),
    )
    return telegram.TelegramAdapter(
        telegram.Account(token=simulator.TOKENS["main"], api_url=url), SystemClock()
    )


def die_at(point: str, nth: int) -> None:
    """The nth time that point is reached, on whatever thread."""
    reached = 0

    def tell(name: str) -> None:
        nonlocal reached
        reached += name == point
        if reached == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    arm(tell)


def config_for(state_dir: Path, idle: float | None, kind: str, url: str, agent: str) -> Config:
    """Quick turns, few people who may talk, no door but the platform and the control socket."""
    return Config(
        state_dir=state_dir,
        web=Web(listen=None),
        agents={"main": Agent.model_validate_json(agent)},
        platforms=_platforms(url) if kind == DISCORD else Platforms(),
        access=Access(allow=_ALLOWED.get(kind, (AccessEntry(platform=PLATFORM, id=PERSON),))),
        sessions=Sessions(reset=Reset(idle=None if idle is None else timedelta(seconds=idle))),
        # A daemon that is killed every second falls behind; nothing may be refused for that,
        # everything is answered.
        turns=Turns(
            debounce=timedelta(milliseconds=20),
            drain=timedelta(seconds=5),
            waiting_per_session=100_000,
        ),
    )


def _platforms(url: str) -> Platforms:
    """
    An account of the config knows its conversations, which it must: Discord keeps nothing for a
    bot.
    """
    token = import_module("tests.simulators.discord").TOKENS["main"]
    there = {"api_url": f"{url}/api/v10", "gateway_url": f"{url.replace('http', 'ws', 1)}/gateway"}
    account = section_of(PLATFORMS[DISCORD].settings)
    return Platforms(discord=(account(token=SecretStr(token), cdn_url=f"{url}/cdn", **there),))


async def serve(config: Config, adapter: Any | None) -> None:
    """Until SIGTERM. Without an adapter, with the accounts of the config."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    accounts = {(adapter.platform, "main"): adapter} if adapter is not None else {}
    with take_lock(config.state_dir, timeout=5) as lock:
        async with running(config, lock, doors=adapter is None, accounts=accounts) as gateway:
            _limit_pages_when_told(gateway)
            await _until_heard(gateway, stopping)
            print("ready", flush=True)
            await stopping.wait()
    if adapter is not None:
        await adapter.close()


def _limit_pages_when_told(gateway: Gateway) -> None:
    """
    SIGUSR1: the database may not grow; SIGUSR2: it may. The limit is a connection's, so nobody else
    can set it.
    """
    loop = asyncio.get_running_loop()
    tasks = set[asyncio.Task[None]]()

    async def set_limit(pages: str) -> None:
        # A write that shares the batch and does not fit fails the jobs behind it, this one too.
        while True:
            try:
                await gateway.store._writer.run(
                    lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone()
                )
            except StoreUnavailable:
                await asyncio.sleep(0.01)
            else:
                return

    def limit(pages: str) -> None:
        tasks.add(loop.create_task(set_limit(pages)))

    loop.add_signal_handler(signal.SIGUSR1, limit, "1")  # never less than there are
    loop.add_signal_handler(signal.SIGUSR2, limit, "1073741823")


async def _until_heard(gateway: Gateway, stopping: asyncio.Event) -> None:
    """
    These keep nothing for one whom they have never seen, and there is no earlier time to go back
    to.
    """
    waits = any(
        supervisor.report.platform in (SLACK, DISCORD) for supervisor in gateway.health.supervisors
    )
    while waits and not stopping.is_set() and not (await gateway.health.readiness()).ready:
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--platform", required=True)
    parser.add_argument(
        "--kind", choices=sorted([*ADAPTERS, TELEGRAM, SLACK, DISCORD]), default="finding"
    )
    parser.add_argument("--crash", metavar="POINT:NTH")
    parser.add_argument("--idle", type=float)
    parser.add_argument("--agent", default="{}")
    asked = parser.parse_args()
    configure_logging("warning", sys.stderr)
    if asked.crash:
        die_at(asked.crash.rpartition(":")[0], int(asked.crash.rpartition(":")[2]))
    config = config_for(asked.state_dir, asked.idle, asked.kind, asked.platform, asked.agent)
    asyncio.run(serve(config, adapter_for(asked.kind, asked.platform)))
