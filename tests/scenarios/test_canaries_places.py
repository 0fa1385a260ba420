"""
No id and no name of a group, a channel, a thread or a topic is in what the daemon prints, whatever
people do there.

The real daemon, at level debug, on all platforms; each place has a canary of its own.
"""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

from tests import canary_agents
from tests.canaries import Canaries
from tests.canary_scene import Place, Scene, scene, until_used_up
from tests.commands import ROOT
from tests.telegram_daemon import daemon

ME = {"telegram": "@main_bot", "discord": "<@7001>", "slack": ""}
COMMANDS = (
    "new",
    "title",
    "resume",
    "agent",
    "pair",
    "stop",
    "usage",
    "retry",
    "undo",
    "canarycommand",
)
HOW_FETCHING_BREAKS = ("404", "html", "truncated")


class Group:
    """One thread of a place where many can write, and how the bot is called there."""

    def __init__(self, at: Scene, place: Place, **where: object) -> None:
        self.at = at
        self.place = place
        self.where = where
        self._numbers = count(1)

    async def say(self, text: str, **more: object) -> str:
        """To the bot. What the platform calls it is a canary as well."""
        canaries, name = self.at.canaries, f"message_{next(self._numbers)}_in_{self.place.chat}"
        match self.place.platform:
            case "slack":
                more["mention"] = True
            case "telegram":
                more["id"] = canaries.number(name)
        said = await self.place.say(
            f"{ME[self.place.platform]} {text}".strip(), **self.where, **more
        )
        return canaries.keep(name, said)

    async def ask(self, text: str, **more: object) -> str:
        """Until its turn is over."""
        turns = self.turns()
        said = await self.say(text, **more)
        await self.at.until(lambda: self.turns() > turns)
        return said

    def turns(self) -> int:
        """How many have ended on this platform."""
        return self.at.told("action=turn", f"platform={self.place.platform}")

    async def command(self, name: str, argument: str) -> None:
        """As people write one in a group."""
        match self.place.platform:
            case "telegram":
                await self.place.say(f"/{name}@main_bot {argument}", **self.where)
            case "discord":
                await self.say(f"/{name} {argument}")
            case "slack":
                await self.say(f"!{name} {argument}")


async def test_no_canary_sings_in_groups_threads_and_topics(tmp_path: Path) -> None:
    canaries = Canaries()
    async with scene(tmp_path, canaries) as at:
        guild, forums = (
            canaries.number("guild"),
            [f"-100{canaries.number(f'forum_{deed.__name__}')}" for deed in DEEDS],
        )
        allow = (
            f"discord:guild:{guild}",
            f"slack:team:{at.team}",
            *(f"telegram:chat:{forum}" for forum in forums),
        )
        at.write(
            {"main": canary_agents.described(canaries)},
            allow=allow,
            turns="{debounce: 10ms, drain: 1s}",
        )
        async with daemon(at.file, PYTHONPATH=str(ROOT)) as running:
            await at.until_connected()
            await at.discord.do("guild", guild=guild, name=canaries.word("guild_name"))
            telegram = [await topic_at_telegram(at, forum) for forum in forums]
            discord = [await thread_at_discord(at, guild, deed.__name__) for deed in DEEDS]
            slack = [await thread_at_slack(at, deed.__name__) for deed in DEEDS]
            await asyncio.gather(*(live(groups) for groups in (telegram, discord, slack)))
            await at.until_told(
                "command=unknown", times=2
            )  # what stands behind a ! that nobody knows is text
            await at.until_told("command=new", times=5)
            assert await running.stop() == 0

    assert canaries.singing(at.log) == {}
    assert at.untold(
        *("action=amended", "action=noted", "command=press", "command=new", "command=unknown", "a file was refused"),  # noqa: E501
        *("a part cannot be delivered", "a part was sent", "a message came in"),
    ) == []  # fmt: skip


async def topic_at_telegram(at: Scene, forum: str) -> Group:
    """One of a forum."""
    word, place = at.canaries.word, at.direct[0].elsewhere(forum)
    await place.do(
        "open", type="supergroup", forum=True, title=word("title"), username=word("group_name")
    )
    topic = await place.do(
        "topic", name=word("topic"), user=place.user, id=at.canaries.number(f"topic_{forum}")
    )
    return Group(at, place, thread=topic["id"])


async def thread_at_discord(at: Scene, guild: str, name: str) -> Group:
    """Of a channel in a guild."""
    word, canaries, place = at.canaries.word, at.canaries, at.direct[1]
    channel = place.elsewhere(canaries.number(f"channel_{name}"))
    await channel.do("open", guild=guild, name=word("channel_name"), topic=word("channel_topic"))
    thread = await channel.do("thread", user=place.user, name=word("thread_name"))
    return Group(at, place.elsewhere(canaries.keep(f"thread_{name}", thread["id"])))


async def thread_at_slack(at: Scene, name: str) -> Group:
    """Below a message in a channel."""
    place = at.direct[2].elsewhere(f"C{at.canaries.number(f'slack_channel_{name}')}")
    await place.do("open", name=at.canaries.word("slack_channel_name"), members=[place.user])
    root = await place.say(at.canaries.word("text"))
    return Group(at, place, thread=at.canaries.keep(f"thread_ts_{name}", root))


async def live(groups: list[Group]) -> None:
    """One deed after the other: turns are counted by platform."""
    for deed, group in zip(DEEDS, groups, strict=True):
        await deed(group)


async def talk(group: Group) -> None:
    """
    They ask, correct themselves, react, are given a file, and give some that cannot be fetched.
    """
    word, place = group.at.canaries.word, group.place
    said = await group.ask(f"break gives {word('text')}")
    await place.do("change", id=said, text=word("correction"))
    await place.do("react", user=place.user, message=said, emoji="👍")
    for kind in HOW_FETCHING_BREAKS:
        await place.sim.fault(kind, does="fetch", says=word("words_of_platform"), times=None)
        await group.ask(word("caption"), file=(word("file_name"), b"CanaryInAFile"))
        await place.sim.heal()


async def command(group: Group) -> None:
    """
    Each with an argument, and one that there is not; and one as the platform itself offers it.
    """
    place, argument = group.place, group.at.canaries.word("argument")
    for name in COMMANDS:
        await group.command(name, argument)
    match place.platform:
        case "discord":
            await place.do("command", user=place.user, name="new", options={"text": argument})
        case "slack":
            await place.do("command", user=place.user, command="/new", text=argument)


async def be_asked(group: Group) -> None:
    """What is said meanwhile is corrected. Somebody presses who was not asked, and then who was."""
    place, turns, word = group.place, group.turns(), group.at.canaries.word
    await group.say(f"break asks {word('text')}")
    shown: list[tuple[str, str]] = []

    async def is_shown() -> bool:
        messages = await place.sim.messages(place.account)
        shown[:] = [
            (each["id"], button["nonce"]) for each in messages for button in each["buttons"]
        ]
        return bool(shown)

    await place.sim.until(is_shown)
    message, nonce = shown[0]
    waiting = await group.say(word("text"))
    await place.do("change", id=waiting, text=f"{ME[place.platform]} {word('correction')}".strip())
    stranger = group.at.canaries.number("stranger")
    for user in (f"U{stranger}" if place.platform == "slack" else stranger, place.user):
        await place.do("press", user=user, message=message, nonce=nonce)
    await group.at.until(lambda: group.turns() > turns)


async def lose(group: Group) -> None:
    """
    The platform no longer takes what is said there: at first in words that name the place, then in
    earnest.
    """
    place, word = group.place, group.at.canaries.word
    quoted = (
        f"{word('words_of_platform')} {place.chat} {place.user} "
        f"{' '.join(map(str, group.where.values()))}"
    )
    for words in ("", "message thread not found", "can't parse entities"):
        await place.sim.fault(
            "400", does="send", chat=place.chat, says=f"Bad Request: {words} {quoted}"
        )
        await group.ask(word("text"))
        await until_used_up(place, "400")
    match place.platform:
        case "telegram":
            await place.do("close_topic", user=place.user, **group.where)
        case "discord":
            await place.do("permissions", deny=["send_messages", "send_messages_in_threads"])
        case "slack":
            await place.do("archive")
    lost = group.at.told("a part cannot be delivered", f"platform={place.platform}")
    await group.ask(word("text"))
    if place.platform != "telegram":  # there it goes to the group itself
        await group.at.until_told(
            "a part cannot be delivered", f"platform={place.platform}", times=lost + 1
        )


DEEDS = (talk, command, be_asked, lose)
"""Each has a place of its own, because no platform takes many messages at once in one."""
