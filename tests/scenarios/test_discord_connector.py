"""
Every call that discord.py makes goes where the config says, and none anywhere else.

discord.py has no setting for that, so these tests are to fail when a new version finds another way
out.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import discord
import pytest
from discord.asset import Asset
from discord.gateway import DiscordWebSocket
from discord.http import Route
from yarl import URL

from tests.simulators.common import Simulator
from tests.simulators.discord import CHANNEL, TOKENS, Discord
from tests.simulators.running import PATIENCE, Remote, in_process
from turngate.adapters.discord.account import Account
from turngate.adapters.discord.connector import Connector

ANN, HERE = "42", str(CHANNEL)
SOURCES = Path(discord.__file__).parent


@pytest.fixture
async def sim() -> AsyncIterator[Remote]:
    """A Discord of our own."""
    async with in_process(Simulator(Discord())) as remote:
        yield remote


def elsewhere(sim: Remote, **changes: str) -> Connector:
    """Everything is there."""
    addresses = {
        "api_url": sim.url + "/api/v10",
        "gateway_url": sim.url.replace("http", "ws", 1) + "/gateway",
        "cdn_url": sim.url + "/cdn",
    }
    return Connector(Account(token=TOKENS["main"], **{**addresses, **changes}))


class Bot(discord.Client):
    """discord.py as anybody would use it."""

    def __init__(self, sim: Remote) -> None:
        super().__init__(
            intents=discord.Intents.all(), connector=elsewhere(sim), guild_ready_timeout=0.01
        )
        self.told: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(self, message: discord.Message) -> None:
        if not message.author.bot:
            self.told.put_nowait(message)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.told.put_nowait(interaction)

    async def on_resumed(self) -> None:
        self.told.put_nowait("resumed")

    async def next(self) -> Any:
        """What it was told next."""
        async with asyncio.timeout(PATIENCE):
            return await self.told.get()


async def test_requests_sockets_interactions_and_files_of_discord_py_go_where_the_config_says(
    sim: Remote,
) -> None:
    async with Bot(sim) as bot:
        running = asyncio.create_task(bot.start(TOKENS["main"]))
        await bot.wait_until_ready()
        await sim.say("look", chat=HERE, user=ANN, file=("a.txt", b"bytes"))
        message = await bot.next()
        assert await message.attachments[0].read() == b"bytes"
        asked = await message.channel.send("Sure?", view=_with_button())
        await sim.do("press", chat=HERE, user=ANN, message=str(asked.id), nonce="yes")
        interaction = await bot.next()
        await interaction.response.send_message("noted")
        await interaction.followup.send("and more")
        await sim.do("gateway", do="reconnect")
        assert await bot.next() == "resumed"
        await bot.close()
        await running

    used = {call["method"] for call in await sim.calls()}
    assert used >= {
        "gateway",
        "resume",
        "cdn",
        "create_message+buttons",
        "interaction_callback",
        "create_followup",
    }


def _with_button() -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Yes", custom_id="yes"))
    return view


@pytest.mark.parametrize(
    "address", ["https://example.org/", "https://discord.com/login", "https://discord.gg.evil.org/"]
)
async def test_nothing_leads_anywhere_else(sim: Remote, address: str) -> None:
    async with aiohttp.ClientSession(connector=elsewhere(sim)) as http:
        with pytest.raises(aiohttp.InvalidURL):
            await http.get(address)


async def test_a_server_of_ones_own_is_called_by_its_own_name(sim: Remote) -> None:
    """What stands in front of it may go by that."""
    async with (
        aiohttp.ClientSession(connector=elsewhere(sim)) as http,
        http.get("https://discord.com/api/v10/gateway") as answer,
    ):
        assert answer.status == 200
        assert answer.request_info.headers["Host"] == URL(sim.url).authority


async def test_without_a_gateway_in_the_config_it_is_where_the_api_says() -> None:
    """The one to resume at, too, should it be one of Discord's."""
    connector = Connector(Account(token="-", api_url="http://127.0.0.1:9/api"))  # noqa: S106 - none
    told = connector.lead_gateway("ws://127.0.0.1:10/socket")
    resumed = connector._moved(URL("wss://gateway-us-east1-b.discord.gg/?v=10"))
    await connector.close()

    assert (str(told), str(resumed)) == (
        "ws://127.0.0.1:10/socket",
        "ws://127.0.0.1:10/socket?v=10",
    )


async def test_discord_itself_is_called_by_its_own_addresses() -> None:
    connector = Connector(Account(token="-"))  # noqa: S106 - none
    for address in (
        "https://discord.com/api/v10/users/@me",
        "wss://gateway-us-east1-b.discord.gg/?v=10&encoding=json",
        "https://cdn.discordapp.com/attachments/1/2/a%20b.png?ex=1&is=2&hm=3",
        "https://media.discordapp.net/attachments/1/2/a.png",
    ):
        assert str(connector._moved(URL(address, encoded=True))) == address
    await connector.close()


def test_discord_py_knows_no_other_addresses_than_those_that_are_moved() -> None:
    """
    Links in its documentation and links for people lead nowhere by themselves, and nobody speaks
    here.
    """
    assert Route.BASE == "https://discord.com/api/v10"
    assert str(DiscordWebSocket.DEFAULT_GATEWAY) == "wss://gateway.discord.gg/"
    assert Asset.BASE == "https://cdn.discordapp.com"
    found = {
        match[1]
        for source in SOURCES.glob("**/*.py")
        for line in source.read_text().splitlines()
        if not line.lstrip().startswith(("#", ".. ", "-", "*", ":")) and "`" not in line
        for match in re.finditer(r"""["']f?(?:https?|wss?)://([\w.{}-]+)""", line)
    }
    assert found <= MOVED | NEVER_CALLED, found - MOVED - NEVER_CALLED


MOVED = {"discord.com", "gateway.discord.gg", "cdn.discordapp.com", "media.discordapp.net"}
NEVER_CALLED = {
    "discord.gift",
    "discord.gg",
    "discord.new",
    "i.scdn.co",
    "open.spotify.com",
    "{state.endpoint}",
}
