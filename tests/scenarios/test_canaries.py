"""
Nothing of what people say or are called, no id and no secret, is in what the daemon prints, whatever goes wrong.

The real daemon, at level debug, on all platforms, with every kind of agent; each place has a canary of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests import discord_daemon, slack_daemon
from tests.canaries import Canaries, command_lines
from tests.commands import PATIENCE, ROOT, TURNGATE, environment, turngate
from tests.service import until_logged
from tests.simulators.common import Simulator
from tests.simulators.discord import Discord
from tests.simulators.models import KEY, Models
from tests.simulators.running import Remote, in_process
from tests.simulators.slack import Settings, Slack
from tests.simulators.telegram import Telegram
from tests.telegram_daemon import Daemon, daemon

HOW_AGENTS_BREAK = ("bug", "error", "refusal", "unavailable", "exit", "sends", "surroundings", "silence")
HOW_MODELS_BREAK = ("400", "401", "403", "404", "500", "502 html", "html", "garbage", "reset", "error inside", "cut")
HOW_SENDING_BREAKS = ("400", "403", "500", "502 html", "html", "garbage", "wrong types", "truncated", "lost answer")
HOW_RECEIVING_BREAKS = ("409", "500", "502 html", "html", "garbage", "wrong types", "reset")
HIDDEN_IN_AGENTS = (
    *("exception", "cause", "agent_error", "target", "file"),
    *("thought", "output", "tool", "tool_input", "tool_output"),
)
AGENTS = ("python", "openai", "anthropic", "absent", "text", "jsonl", "http")


@pytest.fixture
def canaries() -> Canaries:
    """Fresh ones."""
    return Canaries()


class Scene:
    """Three platforms, a model server, and where people write to which agent."""

    def __init__(self, folder: Path, canaries: Canaries, sims: list[Remote]) -> None:
        self.canaries = canaries
        self.telegram, self.discord, self.slack, self.models = sims
        self.file = folder / "turngate.yaml"
        self.people = {agent: canaries.number(f"person_of_{agent}") for agent in AGENTS}
        self.token = f"110003:{canaries.word('telegram_token')}-of-the-simulator-000000"

    @property
    def log(self) -> str:
        """All that the daemon has printed on stderr."""
        return (self.file.parent / "log").read_text()

    async def set_up(self) -> None:
        """The bots with their secrets, and people with names."""
        canaries = self.canaries
        await self.telegram.do("bot", token=self.token)
        await self.discord.do("bot", token=canaries.word("discord_token"))
        await self.slack.do(
            "app", token=f"xoxb-{canaries.word('slack_token')}", app_token=f"xapp-{canaries.word('app')}"
        )
        await self.slack.do("open", chat=slack_daemon.DM, user=slack_daemon.PERSON)
        for person in self.people.values():
            await self.telegram.do("person", user=person, first_name=canaries.word("first_name"))
        self.file.write_text(self.config())

    def config(self) -> str:
        """With every kind of agent, each for one person."""
        canaries, closed = self.canaries, "http://127.0.0.1:9"
        options = ", ".join(f"{name}: {canaries.word(name)}" for name in HIDDEN_IN_AGENTS)
        options += f", platform: {canaries.keep('platform', 'canaryplatform')}"
        key, program = canaries.word("api_key"), self.file.parent / "program.py"
        program.write_text(f"import sys; sys.exit('{canaries.word('stderr')}' + sys.stdin.read())")
        model, word = f"model: m, attempts: 1, api_key: {KEY}", canaries.word("query")
        routes = "".join(
            f"  - {{match: {{platform: telegram, chat: '{c}'}}, agent: {a}}}\n" for a, c in self.people.items()
        )
        people = ", ".join(f"'telegram:{each}'" for each in self.people.values())
        discord = discord_daemon.bot(self.discord, token=canaries.word("discord_token"))
        slack = slack_daemon.workspace(self.slack, token=f"xoxb-{canaries.word('slack_token')}")
        return f"""
agents:
  main: {{kind: echo}}
  python: {{kind: python, object: 'tests.canary_agents:failing', options: {{{options}}}}}
  openai: {{kind: openai, base_url: '{self.models.url}/v1', {model}}}
  anthropic: {{kind: anthropic, base_url: '{self.models.url}/v1', {model}}}
  absent: {{kind: openai, base_url: '{closed}/v1?key={word}', model: m, attempts: 2, api_key: {key}}}
  text: {{kind: command, argv: ['{sys.executable}', '{program}'], env: {{SECRET: {canaries.word("env")}}}}}
  jsonl: {{kind: command, format: jsonl, argv: ['/bin/cat']}}
  http: {{kind: http, url: '{self.models.url}/_control/{canaries.word("path")}', api_key: {key}, attempts: 1}}
routes:
{routes}
platforms:
  telegram:
    - {{token: '{self.token}', api_url: '{self.telegram.url}'}}
  discord:
{discord}
  slack:
{slack.replace("xapp-main", "xapp-" + canaries.word("app"))}
access: {{allow: [{people}, 'discord:{discord_daemon.PERSON}', 'slack:{slack_daemon.PERSON}']}}
turns: {{debounce: 10ms, drain: 1s, idle_timeout: 1s}}
delivery: {{retry_for: 1s}}
log: {{level: debug}}
web: {{listen: null}}
"""

    async def ask(self, agent: str, text: str) -> None:
        """Somebody writes, and the turn ends, however."""
        turns = self.log.count("action=turn")
        person = self.people[agent]
        await self.telegram.say(f"{text} {self.canaries.word('text')}", chat=person, user=person)
        await self.until(lambda: self.log.count("action=turn") > turns)

    async def until(self, holds: Callable[[], object]) -> None:
        """Soon."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def scene(folder: Path, canaries: Canaries) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as opened:
        platforms = Telegram(), Discord(), Slack(Settings(retries=(0.0, 1.0))), Models()
        sims = [await opened.enter_async_context(in_process(Simulator(each))) for each in platforms]  # type: ignore[arg-type]
        at = Scene(folder, canaries, sims)
        await at.set_up()
        yield at


async def test_no_canary_sings_when_agents_fail(tmp_path: Path, canaries: Canaries) -> None:
    async with scene(tmp_path, canaries) as at, daemon(at.file, PYTHONPATH=str(ROOT)) as running:
        for how in HOW_AGENTS_BREAK:
            await at.ask("python", f"break {how}")
        for kind in HOW_MODELS_BREAK:
            await at.models.fault(kind, says=canaries.word("refusal_of_model"))
            await at.ask("openai", "hello")
            await at.models.fault(kind, says=canaries.word("refusal_of_model"))
            await at.ask("anthropic", "hello")
        for agent in ("absent", "text", "jsonl", "http"):
            await at.ask(agent, "hello")
        shown = command_lines([running.pid])
        assert await running.stop() == 0

        assert at.log.count("action=turn") == len(HOW_AGENTS_BREAK) + 2 * len(HOW_MODELS_BREAK) + 4
        assert canaries.singing(at.log, shown) == {}
        for sentence in ("the agent failed", "an agent cannot be asked", "unexpected error", "a library complained"):
            assert sentence in at.log
        assert "level=debug" in at.log


async def break_sending(sim: Remote, say: Callable[[], Awaitable[object]], canaries: Canaries) -> None:
    """One fault after the other, each with words that quote us."""
    for kind in HOW_SENDING_BREAKS:
        await sim.fault(kind, does="send", says=canaries.word("words_of_platform"))
        await say()
        async with asyncio.timeout(PATIENCE):
            while not await is_used_up(sim):
                await asyncio.sleep(0.02)


async def is_used_up(sim: Remote) -> bool:
    """Whether nothing is left to go wrong."""
    return not await sim._ask("GET", "faults")


async def test_no_canary_sings_when_platforms_fail(tmp_path: Path, canaries: Canaries) -> None:
    async with scene(tmp_path, canaries) as at, daemon(at.file, PYTHONPATH=str(ROOT)) as running:
        await until_connected(at)
        person, text, file = at.people["jsonl"], canaries.word("text"), (canaries.word("file_name"), b"CanaryInAFile")
        ways = (
            (at.telegram, lambda: at.telegram.say(text, chat=person, user=person, file=file)),
            (at.discord, lambda: at.discord.say(text, chat=discord_daemon.DM, user=discord_daemon.PERSON)),
            (at.slack, lambda: at.slack.say(text, chat=slack_daemon.DM, user=slack_daemon.PERSON)),
        )
        await asyncio.gather(*(break_sending(sim, say, canaries) for sim, say in ways))
        await let_strangers_write(at)
        await asyncio.gather(*(break_receiving(sim, canaries) for sim, _ in ways))
        await at.telegram.fault("401", does="receive", times=None, says=canaries.word("words_of_platform"))
        await at.until(lambda: "Telegram refuses the token" in at.log)
        assert await running.stop() == 0

    assert canaries.singing(at.log) == {}
    assert "CanaryInAFile" not in at.log
    for sentence in ("a part cannot be delivered", "a part is tried again", "action=refused", "backing off"):
        assert sentence in at.log


async def until_connected(at: Scene) -> None:
    async def are_connected() -> bool:
        greeted = await at.discord.calls(method="dispatch", event="GUILD_CREATE")
        return bool(greeted) and await at.slack.do("sockets", account="main") == 1

    await at.discord.until(are_connected)


async def let_strangers_write(at: Scene) -> None:
    """More than is taken from them, and twice the same; each is given a code."""
    canaries, stranger = at.canaries, at.canaries.number("stranger")
    for number in range(30):
        await at.telegram.say(canaries.word("strange_text"), chat=stranger, user=stranger, repeat=int(number == 0))
    group = canaries.number("group", negative=True)
    await at.telegram.do("open", chat=group, type="group", title=canaries.word("title"))
    await at.telegram.say(canaries.word("strange_text"), chat=group, user=stranger)

    async def is_invited() -> bool:
        return any(each["chat"] == stranger for each in await at.telegram.messages())

    await at.telegram.until(is_invited)
    texts = [each["text"] for each in await at.telegram.messages() if each["chat"] == stranger]
    for number, code in enumerate(re.findall(r"\b[A-Z0-9]{4}-?[A-Z0-9]{4}\b", " ".join(texts))):
        canaries.keep(f"pairing_code_{number}", code)


async def break_receiving(sim: Remote, canaries: Canaries) -> None:
    for kind in HOW_RECEIVING_BREAKS:
        await sim.fault(kind, does="receive", after=False, says=canaries.word("words_of_platform"))


async def test_no_canary_sings_when_the_house_itself_fails(tmp_path: Path, canaries: Canaries) -> None:
    """In the form for the journal: the store is locked and damaged, doors are rattled at, the config is wrong."""
    file, state, port = tmp_path / "turngate.yaml", tmp_path / "state", free_port()
    good = f"web: {{listen: '127.0.0.1:{port}'}}\nlog: {{level: debug}}\nturns: {{debounce: 10ms, drain: 1s}}\n"
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
    assert any(line.startswith("<3>") and "the config is refused" in line for line in lines)
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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@asynccontextmanager
async def under_journal(file: Path, journal: str) -> AsyncIterator[Daemon]:
    """As systemd would start it, with its journal in place of a file."""
    with (file.parent / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            TURNGATE, "run", "--config", str(file), "--state-dir", str(file.parent / "state"),
            env=environment(file.parent, PYTHONUNBUFFERED="1", PYTHONPATH=str(ROOT), JOURNAL_STREAM=journal),
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
        for path in (f"/enter?code={word}", f"/chat?{word}", f"/static/{word}", f"/{word}", "/metrics", "/readyz"):
            for headers in ({}, {"Host": f"{word}.example"}, {"Cookie": f"turngate={word}"}, {"Origin": word}):
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
        f"{{kind: python, object: 'tests.canary_agents:unmade', options: {{exception: {canaries.word('unmade')}}}}}"
    )
    wrong = (
        f"{good}timezone: {word}\n",
        f"{good}access: {{allow: ['telegram:@{word}', 'telegram:-{number}', 'nowhere:{number}'], direct: {word}}}\n",
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
        await until_logged(file, "the config is refused", times)
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
        f"timezone: {canaries.word('value')}\naccess: {{allow: ['telegram:@{canaries.word('name')}']}}"
    )
    with (tmp_path / "log").open("w") as log:
        found = os.fstat(log.fileno())
        env = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"} if to_journal else {}
        ended = subprocess.run(
            [TURNGATE, "run"], cwd=tmp_path, env=environment(tmp_path, **env), stderr=log, check=False
        )

    told = (tmp_path / "log").read_text()
    assert ended.returncode == 78
    assert "turngate.yaml:1:11: timezone" in told
    assert (canaries.singing(told) == {}) is to_journal
    assert told.startswith("<3>") is to_journal


def test_a_bug_at_the_top_says_where_it_is_and_nothing_that_was_said(tmp_path: Path) -> None:
    program = """
import sys
from gateway.__main__ import main
from gateway.cli import app

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
