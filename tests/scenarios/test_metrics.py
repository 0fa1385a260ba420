"""
What Prometheus is shown of the real daemon, before and during faults: all that is promised, and
nobody's data.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.canaries import Canaries
from tests.commands import PATIENCE
from tests.ports import free_port
from tests.service import until_told
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.telegram import Telegram
from tests.telegram_daemon import bot, daemon

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]

PROMISED = (
    *(
        "account_receive_age_seconds",
        "account_state",
        "queue_depth",
        "queue_oldest_seconds",
        "dead_letters",
    ),
    *(
        "turn_seconds_count",
        "first_text_seconds_count",
        "retries_total",
        "loop_lag_seconds_count",
        "loop_stalls_total",
    ),
    *(
        "commit_seconds_count",
        "commit_batch_size_count",
        "store_ok",
        "tasks",
        "sessions_in_memory",
        "log_lines_lost",
    ),
    *(
        "process_resident_memory_bytes",
        "process_open_fds",
        "messages_total",
        "turns_total",
        "parts_total",
    ),
    *("lanes_busy", "lanes_waiting", "unexpected_errors_total"),
)


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """A platform without rates."""
    async with in_process(Simulator(Telegram())) as remote:
        yield remote


class Scraped:
    """One scrape, as Prometheus reads it."""

    def __init__(self, text: str) -> None:
        self.text = text
        samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]
        self._values = {(each.name, frozenset(each.labels.items())): each.value for each in samples}
        self.names = {each.name for each in samples}

    def value(self, name: str, **labels: str) -> float | None:
        """None if there is no such series."""
        return self._values.get((f"turngate_{name}", frozenset(labels.items())))


async def scrape(port: int) -> Scraped:
    """Must answer, whatever is wrong."""
    url = f"http://127.0.0.1:{port}/metrics"
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE)) as http,
        http.get(url) as response,
    ):
        assert response.status == 200
        return Scraped(await response.text())


async def test_every_number_that_is_promised_is_there_and_tells_the_truth(
    sim: Remote, tmp_path: Path
) -> None:
    canaries, port = Canaries(), free_port()
    person, gone, text = canaries.number("person"), canaries.number("gone"), canaries.word("text")
    file = tmp_path / "turngate.yaml"
    file.write_text(
        f"platforms:\n  telegram:\n{bot(sim)}"
        f"access: {{allow: ['telegram:{person}', 'telegram:{gone}']}}\n"
        f"web: {{listen: '127.0.0.1:{port}'}}\n"
        "turns: {debounce: 10ms, drain: 1s}\ndelivery: {stream: false}\n"
    )
    for each in (person, gone):
        await sim.do("person", user=each, first_name=canaries.word("name"))
    async with daemon(file, NOTIFY_SOCKET=str(tmp_path / "nobody")) as running:
        await sim.say(text, chat=person, user=person)
        await until_told(sim, text, chat=person)
        await sim.fault("403", does="send", chat=gone)
        await sim.say(text, chat=gone, user=gone)
        well = await until_scraped(port, "dead_letters", 1.0, queue="outbox")
        assert {f"turngate_{name}" for name in PROMISED} <= well.names
        assert (
            well.value("account_state", platform="telegram", account="main", state="receiving") == 1
        )
        assert (
            well.value("account_state", platform="telegram", account="main", state="refused") == 0
        )
        age = well.value("account_receive_age_seconds", platform="telegram", account="main")
        assert age is not None
        assert 0 <= age < PATIENCE
        for name in ("turn_seconds_count", "first_text_seconds_count"):
            assert well.value(name) == 2
        assert (well.value("commit_seconds_count") or 0) > 4
        assert (well.value("commit_batch_size_sum") or 0) >= (
            well.value("commit_batch_size_count") or 0
        )
        assert (well.value("process_resident_memory_bytes") or 0) > 10_000_000
        assert well.value("store_ok") == 1

        await sim.fault("500", times=None, does="send")
        await sim.fault("401", times=None, does="receive")
        other = sqlite3.connect(tmp_path / "state" / "turngate.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        locked = await until_scraped(port, "store_ok", 0.0)
        other.close()
        refused = await until_scraped(
            port, "account_state", 0.0, platform="telegram", account="main", state="receiving"
        )
        healed = await until_scraped(port, "store_ok", 1.0)
        assert healed.value("queue_depth", queue="inbox") == 0
        await running.kill()

    assert canaries.singing(well.text, locked.text, refused.text, healed.text) == {}


async def until_scraped(port: int, name: str, value: float, **labels: str) -> Scraped:
    """As soon as it says so."""
    async with asyncio.timeout(PATIENCE):
        while (found := await scrape(port)).value(name, **labels) != value:
            await asyncio.sleep(0.1)
    return found
