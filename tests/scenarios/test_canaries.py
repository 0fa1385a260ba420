"""
Nothing of what people say or are called, no id and no secret, is in what the daemon prints,
whatever goes wrong.

This is the house itself: its store, its doors, its config. `test_canaries_*.py` are about everybody
outside of it.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests import zygote
from tests.canaries import Canaries
from tests.commands import PATIENCE, ROOT, TURNGATE, environment, turngate
from tests.ports import free_port
from tests.service import until_logged
from tests.telegram_daemon import Daemon


@pytest.fixture
def canaries() -> Canaries:
    """Fresh ones."""
    return Canaries()


async def test_no_canary_sings_when_the_house_itself_fails(
    tmp_path: Path, canaries: Canaries
) -> None:
    """
    In the form for the journal: the store is locked and damaged, doors are rattled at, the config
    is wrong.
    """
    file, state, port = tmp_path / "turngate.yaml", tmp_path / "state", free_port()
    good = (
        f"web: {{listen: '127.0.0.1:{port}'}}\nlog: {{level: debug}}\nturns: {{debounce: "
        "10ms, drain: 1s}\n"
    )
    file.write_text(good)
    log = tmp_path / "log"
    log.touch()
    journal = f"{log.stat().st_dev}:{log.stat().st_ino}"
    async with under_journal(file, journal) as running:
        link = await asyncio.to_thread(turngate, state, "web", "link")
        canaries.keep("link", link.stdout.rpartition("=")[2].strip())
        await rattle_at_web(port, canaries)
        await rattle_at_socket(state / "control.sock", canaries)
        await asyncio.to_thread(turngate, state, "chat", said=canaries.word("text"))
        await reload_wrongly(running, file, good, canaries)
        await lock_out(state / "turngate.db", file, canaries)
        assert await running.stop() == 0
    damage(state / "turngate.db")
    async with under_journal(file, journal) as running:
        broken = await asyncio.to_thread(turngate, state, "sessions", "search", "anything")
        await asyncio.to_thread(turngate, state, "status")
        running.send(signal.SIGTERM)
        await running.ended()

    assert canaries.singing(log.read_text(), broken.stderr, link.stderr) == {}
    lines = log.read_text().splitlines()
    assert [line for line in lines if not re.match("<[3467]>", line)] == []
    assert any(line.startswith("<3>") and "the new config is invalid" in line for line in lines)
    assert any(line.startswith("<7>") for line in lines)


async def lock_out(database: Path, file: Path, canaries: Canaries) -> None:
    """Until the daemon has noticed."""
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    text = canaries.word("late_text")
    asking = asyncio.create_task(asyncio.to_thread(turngate, database.parent, "chat", said=text))
    await until_logged(file, "the store")
    other.close()
    await asking


@asynccontextmanager
async def under_journal(file: Path, journal: str) -> AsyncIterator[Daemon]:
    """As systemd would start it, with its journal in place of a file."""
    with (file.parent / "log").open("ab") as log:
        process = await zygote.start(
            TURNGATE, "run", "--config", str(file), "--state-dir", str(file.parent / "state"),
            env=environment(file.parent, PYTHONUNBUFFERED="1", PYTHONPATH=str(ROOT), JOURNAL_STREAM=journal),  # noqa: E501
            stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            await process.stdout.readline()
        yield Daemon(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def rattle_at_web(port: int, canaries: Canaries) -> None:
    """Requests that no browser of ours makes."""
    url, word = f"http://127.0.0.1:{port}", canaries.word("request")
    async with aiohttp.ClientSession() as http:
        for path in (
            f"/enter?code={word}",
            f"/chat?{word}",
            f"/static/{word}",
            f"/{word}",
            "/metrics",
            "/readyz",
        ):
            for headers in (
                {},
                {"Host": f"{word}.example"},
                {"Cookie": f"turngate={word}"},
                {"Origin": word},
            ):
                async with http.get(url + path, headers=headers) as response:
                    body = await response.text()
                    assert word not in body or path == f"/{word}"
    for raw in (
        f"GET /{word}\r\n\r\n",
        f"{word} / HTTP/9.9\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost {word}\r\n\r\n",
        "\xff" * 99,
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw.encode("latin-1"))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()


async def rattle_at_socket(path: Path, canaries: Canaries) -> None:
    """Lines that no command of ours writes."""
    word = canaries.word("control")
    for line in (
        word,
        f'{{"do": "{word}"}}',
        f'{{"do": "sessions.show", "args": {{"id": "{word}"}}}}',
        '{"do": "chat", "args": 7}',
    ):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(f"{line}\n".encode())
        await asyncio.wait_for(reader.readline(), PATIENCE)
        writer.close()


async def reload_wrongly(running: Daemon, file: Path, good: str, canaries: Canaries) -> None:
    word, number = canaries.word("config_value"), canaries.number("config_id")
    broken = (
        "{kind: python, object: 'tests.canary_agents:unmade', options: {exception: "
        f"{canaries.word('unmade')}}}}}"
    )
    wrong = (
        f"{good}timezone: {word}\n",
        f"{good}access: {{allow: ['telegram:@{word}', 'telegram:-{number}', 'nowhere:{number}'], "
        f"direct: {word}}}\n",
        f"{good}agents: {{main: {{kind: openai, api_key: '{word} {word}', model: m}}}}\n",
        f"{good}agents: {{main: {broken}}}\n",
        f"{good}{word}: 7\n",
        f"{good}: [{word}\n",
    )
    draft = file.with_name("draft.yaml")
    for times, each in enumerate(wrong, 1):
        draft.write_text(each)
        draft.replace(file)
        running.send(signal.SIGHUP)
        await until_logged(file, "the new config is invalid", times)
    file.write_text(good)


def damage(database: Path) -> None:
    """In the middle, where rows are."""
    with database.open("r+b") as file:
        for page in range(1, max(os.fstat(file.fileno()).st_size // 4096, 2)):
            file.seek(page * 4096)
            file.write(b"\xff" * 1024)


@pytest.mark.parametrize("to_journal", [False, True])
def test_a_config_that_is_wrong_at_the_start_is_told_in_full_only_to_whoever_started_it(
    tmp_path: Path, canaries: Canaries, *, to_journal: bool
) -> None:
    (tmp_path / "turngate.yaml").write_text(
        f"timezone: {canaries.word('value')}\naccess: {{allow: "
        f"['telegram:@{canaries.word('name')}']}}"
    )
    with (tmp_path / "log").open("w") as log:
        found = os.fstat(log.fileno())
        env = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"} if to_journal else {}
        ended = subprocess.run(
            [TURNGATE, "run"],
            cwd=tmp_path,
            env=environment(tmp_path, **env),
            stderr=log,
            check=False,
        )

    told = (tmp_path / "log").read_text()
    assert ended.returncode == 78
    assert "turngate.yaml:1:11: timezone" in told
    assert (canaries.singing(told) == {}) is to_journal
    assert told.startswith("<3>") is to_journal


def test_a_bug_at_the_top_says_where_it_is_and_nothing_that_was_said(tmp_path: Path) -> None:
    program = """
import sys
from turngate.gateway.__main__ import main
from turngate.gateway.cli import app

@app.command()
def broken():
    raise RuntimeError("CanaryAtTheTop") from KeyError("CanaryBehind")

sys.argv = ["turngate", "broken"]
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "RuntimeError at" in ended.stderr
    assert "Canary" not in ended.stderr + ended.stdout
