"""
The real daemon on a machine whose clock is set while it runs: by a day, by a year, back, over a
change of DST.
"""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.commands import turngate
from tests.crash.rig import Rig
from tests.service import reload, until_logged, until_told
from tests.simulators.common import Simulator
from tests.simulators.running import Remote, in_process
from tests.simulators.telegram import Telegram
from tests.telegram_daemon import PERSON, bot, config, daemon
from tests.time_of_day import TimeOfDay

DAY, YEAR = timedelta(days=1), timedelta(days=365)
# The echo agent takes more than a second for so many words.
LONG = "word " * 120
ENDED = "The conversation before this one ended"


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """A platform without rates."""
    async with in_process(Simulator(Telegram())) as remote:
        yield remote


@pytest.fixture
def time_of_day(tmp_path: Path) -> TimeOfDay:
    """Right, until somebody sets it."""
    return TimeOfDay(tmp_path)


async def say(sim: Remote, text: str) -> None:
    """Returns when it was answered."""
    await sim.say(text, chat=PERSON, user=PERSON)
    await until_told(sim, text)


def readiness(log: str) -> int:
    """What a probe is told."""
    address = re.search(r"http://127\.0\.0\.1:\d+", log)
    assert address is not None
    try:
        return int(urllib.request.urlopen(f"{address[0]}/readyz", timeout=30).status)  # noqa: S310 - our own
    except urllib.error.HTTPError as exc:
        return exc.code


async def test_jumps_during_turns_disturb_neither_them_nor_the_account(
    sim: Remote, time_of_day: TimeOfDay, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more="web: {listen: 127.0.0.1:0}")
    as_service = {"NOTIFY_SOCKET": str(tmp_path / "nowhere")}
    async with daemon(file, **time_of_day.environment, **as_service) as running:
        log = await until_logged(file, "http://127.0.0.1:")
        for ahead in (DAY, YEAR, timedelta(0), -DAY):
            seen = len(await sim.messages())
            await sim.say(f"{LONG} {ahead}", chat=PERSON, user=PERSON)
            await sim.until(lambda seen=seen: _has_grown(sim, seen))
            time_of_day.jump(ahead)
            await until_told(sim, str(ahead))
            assert readiness(log) == 200
        status = json.loads(turngate(tmp_path / "state", "status", "--json").stdout)
        assert await running.stop() == 0

    assert [answer["text"].rpartition("word ")[2].strip() for answer in await sim.messages()] == [
        str(ahead) for ahead in (DAY, YEAR, timedelta(0), -DAY)
    ]
    assert [(each["state"], each["reason"]) for each in status["accounts"]] == [("receiving", None)]
    assert len(await sim.calls(method="getMe")) == 1, "it was not started again"


async def _has_grown(sim: Remote, seen: int) -> bool:
    return len(await sim.messages()) > seen


async def test_what_waits_for_its_next_try_is_neither_given_up_nor_hurried_nor_forgotten(
    sim: Remote, time_of_day: TimeOfDay, tmp_path: Path
) -> None:
    file = config(tmp_path, bot(sim), more="delivery: {stream: false}")
    await sim.fault("429", times=3, retry_after=1.0, method="sendMessage")
    async with daemon(file, **time_of_day.environment) as running:
        await sim.say("hello", chat=PERSON, user=PERSON)
        for tries, ahead in enumerate((YEAR, -DAY, timedelta(0)), start=1):
            await sim.until(lambda tries=tries: _has_tried(sim, tries))
            time_of_day.jump(ahead)
        await until_told(sim, "hello")
        assert await running.stop() == 0

    assert (len(await sim.texts()), await sim.violations()) == (1, [])


async def _has_tried(sim: Remote, times: int) -> bool:
    return len(await sim.calls(method="sendMessage")) >= times


def test_what_was_said_while_nobody_listened_is_heard_by_one_whose_clock_was_ahead_before(
    time_of_day: TimeOfDay, tmp_path: Path
) -> None:
    with Rig(tmp_path, kind="catching-up", environment=time_of_day.environment) as rig:
        time_of_day.jump(YEAR)
        assert rig.start()
        rig.say("a")
        assert rig.settle()
        rig.kill()
        time_of_day.put_right()
        rig.say("a", "while nobody listens")
        assert rig.start()

        assert rig.settle()
        assert rig.verdict().is_clean
        assert rig.kill(signal.SIGTERM) == 0


async def test_a_conversation_ends_once_a_local_day_whatever_becomes_of_the_day_and_the_zone(
    sim: Remote, time_of_day: TimeOfDay, tmp_path: Path
) -> None:
    """In New York there was no 02:30 on 2026-03-08: it was 03:00 when it would have been 02:00."""
    file = config(
        tmp_path,
        bot(sim),
        more="timezone: America/New_York\nsessions: {reset: {daily_at: '02:30'}}",
    )
    time_of_day.be(datetime(2026, 3, 8, 6, 29, 50, tzinfo=UTC))
    async with daemon(file, **time_of_day.environment) as running:
        await say(sim, "it is 01:30")
        time_of_day.be(datetime(2026, 3, 8, 6, 59, 20, tzinfo=UTC))
        await say(sim, "it is 01:59")
        time_of_day.be(datetime(2026, 3, 8, 7, 45, tzinfo=UTC))
        await say(sim, "it is 03:45")
        await say(sim, "it is a little later")
        time_of_day.be(datetime(2026, 3, 8, 17, 31, tzinfo=UTC))
        await say(sim, "it is 02:31 in Tokyo")
        log = await reload(
            running, file, file.read_text().replace("America/New_York", "Asia/Tokyo"), 1
        )
        await say(sim, "it is home now, since 02:31")
        time_of_day.be(datetime(2026, 3, 9, 17, 31, tzinfo=UTC))
        await say(sim, "it is 02:31 again")
        assert await running.stop() == 0

    assert "changed=timezone" in log
    assert [
        ENDED if text.startswith(ENDED) else text.splitlines()[-1] for text in await sim.texts()
    ] == [
        "it is 01:30",
        "it is 01:59",
        ENDED,
        "it is 03:45",
        "it is a little later",
        "it is 02:31 in Tokyo",
        "it is home now, since 02:31",
        ENDED,
        "it is 02:31 again",
    ]
