"""One daemon on three platforms at once, each of which misbehaves in its own way."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import discord_daemon, slack_daemon, telegram_daemon
from tests.simulators.common import Simulator
from tests.simulators.discord import Discord
from tests.simulators.running import Remote, in_process
from tests.simulators.slack import Settings, Slack
from tests.simulators.telegram import Telegram
from tests.telegram_daemon import daemon

_REST = f"""
web: {{listen: null}}
turns: {{debounce: 50ms, drain: 5s}}
delivery: {{stream: false}}
access:
  allow: ["telegram:{telegram_daemon.PERSON}", "discord:{discord_daemon.PERSON}", "slack:{slack_daemon.PERSON}"]
"""  # noqa: E501


@dataclass(frozen=True)
class Place:
    """Where somebody writes directly to the bot."""

    sim: Remote
    chat: str
    person: str

    async def say(self, text: str) -> None:
        await self.sim.say(text, chat=self.chat, user=self.person)

    async def answers(self) -> list[str]:
        """What was told back, without where it was."""
        return [text.rpartition("You said:")[2].strip() for text in await self.sim.texts()]

    async def until_answered(self, *texts: str) -> None:
        async def are_answered() -> bool:
            return sorted(await self.answers()) == sorted(texts)

        await self.sim.until(are_answered)


@pytest.fixture
async def places() -> AsyncIterator[tuple[Place, Place, Place]]:
    """Telegram, Discord and Slack. No bot may ask any of them for what it forbids."""
    async with AsyncExitStack() as opened:
        platforms = Telegram(), Discord(), Slack(Settings(retries=(0.0, 1.0)))
        sims = [await opened.enter_async_context(in_process(Simulator(each))) for each in platforms]  # type: ignore[arg-type]
        await sims[2].do("open", chat=slack_daemon.DM, user=slack_daemon.PERSON)
        people = (
            (telegram_daemon.PERSON, telegram_daemon.PERSON),
            (discord_daemon.DM, discord_daemon.PERSON),
            (slack_daemon.DM, slack_daemon.PERSON),
        )
        telegram, discord, slack = (
            Place(sim, *each) for sim, each in zip(sims, people, strict=True)
        )
        yield telegram, discord, slack
        for sim in sims:
            assert await sim.violations() == []


def config(folder: Path, places: tuple[Place, Place, Place]) -> Path:
    telegram, discord, slack = places
    path = folder / "turngate.yaml"
    path.write_text(
        "platforms:\n"
        f"  telegram:\n{telegram_daemon.bot(telegram.sim)}"
        f"  discord:\n{discord_daemon.bot(discord.sim)}"
        f"  slack:\n{slack_daemon.workspace(slack.sim)}{_REST}"
    )
    return path


async def until_heard(places: tuple[Place, Place, Place]) -> None:
    """
    What is said before the very first connection nobody has ever been told of, on Discord and
    Slack.
    """
    _, discord, slack = places

    async def are_connected() -> bool:
        greeted = await discord.sim.calls(method="dispatch", event="GUILD_CREATE")
        return bool(greeted) and await slack.sim.do("sockets", account="main") == 1

    await discord.sim.until(are_connected)


async def everybody(places: tuple[Place, Place, Place], text: str, *before: str) -> None:
    """Each writes it, and each is answered in his own place, once."""
    await asyncio.gather(*(place.say(text) for place in places))
    await asyncio.gather(*(place.until_answered(*before, text) for place in places))


async def test_each_is_answered_once_whatever_goes_wrong_on_the_others(
    places: tuple[Place, Place, Place], tmp_path: Path
) -> None:
    telegram, discord, slack = places
    file = config(tmp_path, places)
    async with daemon(file) as running:
        await until_heard(places)
        await everybody(places, "hello")
        await telegram.sim.fault("500", does="send", times=2)
        await discord.sim.fault("lost answer", does="send")
        await slack.sim.fault("lost answer", does="send")
        await everybody(places, "again", "hello")
        await telegram.sim.fault("reset", does="receive", after=False, times=3)
        await slack.sim.fault("429", does="send", retry_after=1.0)
        await everybody(places, "and again", "hello", "again")
        await running.kill()

    await asyncio.gather(*(place.say("are you dead?") for place in places))
    async with daemon(file) as running:
        said = "hello", "again", "and again", "are you dead?"
        await asyncio.gather(*(place.until_answered(*said) for place in places))
        assert await running.stop() == 0


async def test_one_platform_that_is_gone_keeps_nobody_else_waiting(
    places: tuple[Place, Place, Place], tmp_path: Path
) -> None:
    telegram, discord, slack = places
    await discord.sim.fault("500", times=None)
    async with daemon(config(tmp_path, places)) as running:
        for place in (telegram, slack):
            await place.say("hello")
            await place.until_answered("hello")
        await discord.sim.heal()
        await until_heard(places)
        await discord.say("hello")
        await discord.until_answered("hello")
        assert await running.stop() == 0


async def test_an_agent_mentions_whoever_it_talks_to_and_nobody_by_a_raw_id(
    places: tuple[Place, Place, Place], tmp_path: Path
) -> None:
    """Finding C2."""
    telegram, discord, slack = places
    file = config(tmp_path, places)
    agent = "{kind: python, object: 'tests.mentioning_agent:make'}"
    file.write_text(f"{file.read_text()}\nagents: {{main: {agent}}}\n")
    async with daemon(file) as running:
        await until_heard(places)
        await asyncio.gather(*(place.say("hello") for place in places))
        for place in places:
            await place.sim.until(lambda place=place: _has_answered(place))
        assert await running.stop() == 0

    (told,) = await telegram.sim.calls(method="sendMessage")
    assert _links(told["parameters"]) == [f"tg://user?id={telegram.person}"]
    (posted,) = await discord.sim.calls(method="create_message")
    assert posted["parameters"]["allowed_mentions"]["users"] == [discord.person]
    (written,) = await slack.sim.calls(does="send")
    assert re.findall("<[@!][^>]*>", str(written["parameters"])) == [f"<@{slack.person}>"]


async def _has_answered(place: Place) -> bool:
    return bool(await place.sim.texts())


def _links(parameters: dict[str, object]) -> list[str]:
    entities = parameters.get("entities") or []
    read = json.loads(entities) if isinstance(entities, str) else entities
    assert isinstance(read, list)
    return [each["url"] for each in read if each["type"] in ("text_link", "text_mention")]
