"""
Where canaries are hidden: one gateway at three platforms that are simulated, and a model server.

Whatever can be a canary is one: the tokens, the people with their ids and names, the chats they
write in, and the workspace. What the gateway then prints, at level debug, is `log`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import discord_daemon
from tests.canaries import Canaries
from tests.commands import PATIENCE
from tests.simulators.common import Simulator
from tests.simulators.discord import Discord
from tests.simulators.models import Models
from tests.simulators.running import Remote, in_process
from tests.simulators.slack import Settings, Slack
from tests.simulators.telegram import Telegram

WORKSPACE = "work"
"""What the simulator calls the account whose workspace is a canary."""

PLATFORMS = ("telegram", "discord", "slack")
ECHO = {"main": "{kind: echo}"}
_SECTIONS = {
    "turns": "{debounce: 10ms, drain: 1s, idle_timeout: 3s, answer_within: 1s}",
    "delivery": "{retry_for: 1s}",
    "log": "{level: debug}",
    "web": "{listen: null}",
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where somebody writes to the bot."""

    platform: str
    sim: Remote
    chat: str
    user: str
    account: str = "main"

    async def say(self, text: str, **more: object) -> str:
        """Returns what the platform calls it."""
        return await self.sim.say(
            text, chat=self.chat, user=self.user, account=self.account, **more
        )

    async def do(self, deed: str, **what: object) -> dict[str, str]:
        """Anything else that people do there."""
        return await self.sim.do(deed, chat=self.chat, account=self.account, **what)  # type: ignore[no-any-return]

    def elsewhere(self, chat: str) -> Place:
        """The same person in another chat."""
        return replace(self, chat=chat)


class Scene:
    """Three platforms, a model server, and who writes to whom."""

    def __init__(self, folder: Path, canaries: Canaries, sims: list[Remote]) -> None:
        self.canaries = canaries
        self.file = folder / "turngate.yaml"
        self.telegram, self.discord, self.slack, self.models = sims
        self.tokens = {
            "telegram": f"110003:{canaries.word('telegram_token')}-of-the-simulator-000000",
            "discord": canaries.word("discord_token"),
            "slack": f"xoxb-{canaries.word('slack_token')}",
            "app": f"xapp-{canaries.word('app_token')}",
        }
        self.team = f"T{canaries.number('team')}"
        self.people: list[Place] = []
        self._asking: dict[str, Place] = {}
        self.direct = tuple(self.somebody(platform, "person") for platform in PLATFORMS)

    def somebody(self, platform: str, who: str) -> Place:
        """
        One more who may talk, in a direct chat of his own. He is to be met before the config is
        written.
        """
        chat, user = (
            self.canaries.number(f"{platform}_{what}_of_{who}") for what in ("chat", "id")
        )
        match platform:
            case "telegram":
                place = Place(platform=platform, sim=self.telegram, chat=chat, user=chat)
            case "discord":
                place = Place(platform=platform, sim=self.discord, chat=chat, user=user)
            case _:
                place = Place(
                    platform=platform,
                    sim=self.slack,
                    chat=f"D{chat}",
                    user=f"U{user}",
                    account=WORKSPACE,
                )
        self.people.append(place)
        return place

    @property
    def log(self) -> str:
        """All that the daemon has printed on stderr."""
        return (self.file.parent / "log").read_text()

    @property
    def state(self) -> Path:
        """Its folder."""
        return self.file.parent / "state"

    def told(self, *words: str) -> int:
        """How many lines of the log have all of these words."""
        return sum(all(word in line for word in words) for line in self.log.splitlines())

    def untold(self, *sentences: str) -> list[str]:
        """Those that are nowhere in the log: whatever would have led to them was not tried."""
        return [sentence for sentence in sentences if sentence not in self.log]

    async def until(self, holds: Callable[[], object]) -> None:
        """Soon."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.01)

    async def until_told(self, *words: str, times: int = 1) -> None:
        """So many lines of the log have all of these words."""
        await self.until(lambda: self.told(*words) >= times)

    async def set_up(self) -> None:
        """The bots with their secrets, and people with names."""
        word, (telegram, discord, slack) = self.canaries.word, self.direct
        await self.telegram.do("bot", token=self.tokens["telegram"])
        await self.discord.do("bot", token=self.tokens["discord"])
        await self.slack.do(
            "add_bot",
            name=WORKSPACE,
            token=self.tokens["slack"],
            app_token=self.tokens["app"],
            team=self.team,
        )
        names = {
            "first_name": word("first_name"),
            "last_name": word("last_name"),
            "username": word("username"),
        }
        await self.telegram.do("person", user=telegram.user, **names)
        await self.discord.do("person", user=discord.user, name=word("discord_name"))
        await slack.do("open", user=slack.user)
        await self.slack.do(
            "person",
            account=WORKSPACE,
            user=slack.user,
            name=word("slack_name"),
            real_name=word("real_name"),
        )

    def write(
        self,
        agents: Mapping[str, str] = ECHO,
        *,
        platforms: Sequence[str] = PLATFORMS,
        telegram: str = "",
        slack: str = "",
        allow: Sequence[str] = (),
        **sections: str,
    ) -> None:
        """
        The config. Whoever writes to an agent that is not the main one has a direct chat of his own
        at Discord.

        Only those of `platforms` are there from now on: to start without Telegram takes a quarter
        of the time. `telegram` and `slack` are more of what is said of these accounts, `sections`
        take the place of the usual ones.
        """
        self.direct = tuple(place for place in self.direct if place.platform in platforms)
        self._asking |= {
            name: self.somebody("discord", f"asking_{name}") for name in agents if name != "main"
        }
        people = [f"{each.platform}:{each.user}" for each in self.people]
        routes = [
            f"{{match: {{platform: discord, chat: '{each.chat}'}}, agent: {name}}}"
            for name, each in self._asking.items()
        ]
        hears = slack or f", app_token: {self.tokens['app']}"
        accounts = {
            "telegram": f"    - {{token: '{self.tokens['telegram']}', api_url: "
            f"'{self.telegram.url}'{telegram}}}\n",
            "discord": discord_daemon.bot(self.discord, token=self.tokens["discord"]),
            "slack": f"    - {{bot_token: {self.tokens['slack']}, api_url: "
            f"'{self.slack.url}/api/'{hears}}}\n",
        }
        lines = [
            "agents:",
            *(f"  {name}: {described}" for name, described in agents.items()),
            f"routes: [{', '.join(routes)}]",
            "platforms:",
            *(f"  {name}:\n{accounts[name]}" for name in platforms),
            f"access: {{allow: [{', '.join(repr(each) for each in (*people, *allow))}]}}",
            *(f"{name}: {described}" for name, described in (_SECTIONS | sections).items()),
        ]
        self.file.write_text("\n".join(lines) + "\n")

    async def say(self, agent: str, text: str) -> Place:
        """Whoever has that agent writes to it."""
        await self._asking[agent].say(f"{text} {self.canaries.word('text')}")
        return self._asking[agent]

    async def ask(self, agent: str, text: str) -> None:
        """The same, until the turn has ended, however."""
        turns = self.told("action=turn", f"agent={agent} ")
        await self.say(agent, text)
        await self.until_told("action=turn", f"agent={agent} ", times=turns + 1)

    async def control(self, do: str, **args: str) -> dict[str, Any]:
        """What a command asks the daemon, and what that says."""
        reader, writer = await asyncio.open_unix_connection(str(self.state / "control.sock"))
        writer.write(json.dumps({"do": do, "args": args}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            answer: dict[str, Any] = json.loads(await reader.readline())
        writer.close()
        return answer

    async def until_settled(self) -> None:
        """
        Nothing is on its way: all that was said is answered, and each answer has arrived or was
        given up.
        """
        async with asyncio.timeout(PATIENCE):
            while True:
                status = (await self.control("status"))["done"]
                if status["inbox"]["waiting"] == status["outbox"]["waiting"] == 0:
                    return
                await asyncio.sleep(0.05)

    async def until_connected(self) -> None:
        """
        What is said before the very first connection nobody has ever been told of, on Discord and
        Slack.
        """
        is_at_slack = any(place.platform == "slack" for place in self.direct)

        async def are_connected() -> bool:
            greeted = await self.discord.calls(method="dispatch", event="GUILD_CREATE")
            return bool(greeted) and await self.slack.do("sockets", account=WORKSPACE) == int(
                is_at_slack
            )

        await self.discord.until(are_connected)


@asynccontextmanager
async def scene(folder: Path, canaries: Canaries) -> AsyncIterator[Scene]:
    """With everything at work, and no gateway yet."""
    async with AsyncExitStack() as opened:
        platforms = Telegram(), Discord(), Slack(Settings(retries=(0.0, 1.0))), Models()
        sims = [await opened.enter_async_context(in_process(Simulator(each))) for each in platforms]  # type: ignore[arg-type]
        at = Scene(folder, canaries, sims)
        await at.set_up()
        yield at


def crowd(at: Scene, kinds: Sequence[str], *platforms: str) -> list[tuple[str, Place]]:
    """
    For each kind of fault a person on each platform: what goes wrong with one keeps no other
    waiting.
    """
    return [(kind, at.somebody(each, kind)) for each in platforms or PLATFORMS for kind in kinds]


async def break_sending(at: Scene, people: Sequence[tuple[str, Place]], **more: object) -> None:
    """
    To none of them anything can be sent; the words that say so quote us. `more` is what each
    message has besides.
    """
    word, turns = at.canaries.word, at.told("action=turn")
    for kind, place in people:
        says = f"{word('words_of_platform')} {place.chat} {place.user}"
        await place.sim.fault(kind, does="send", times=None, says=says, chat=place.chat)
    await asyncio.gather(*(place.say(word("text"), **more) for _, place in people))
    await at.until_told("action=turn", times=turns + len(people))
    await at.until_settled()


async def until_used_up(place: Place, kind: str) -> None:
    """What was to go wrong once there has gone wrong."""

    async def is_used_up() -> bool:
        left = await place.sim._ask("GET", "faults")
        return not any(each["kind"] == kind and each["times"] for each in left)

    await place.sim.until(is_used_up)
