"""What people see of a bot, and what tests may want to know."""

from __future__ import annotations

import base64
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.discord import shapes
from tests.simulators.discord.checking import buttons
from tests.simulators.discord.interactions import ANSWERS, FIRST_ANSWER, PRESS, Interactions
from tests.simulators.discord.people import People, deed, id_of
from tests.simulators.discord.rules import unknown
from tests.simulators.discord.sessions import INTENTS, Sessions
from tests.simulators.discord.table import Entry
from tests.simulators.discord.world import Bot, Message, Payload, World


class Showing:
    """Nothing here changes anything."""

    def __init__(
        self, world: World, sessions: Sessions, people: People, interactions: Interactions
    ) -> None:
        self._world = world
        self._sessions = sessions
        self._people = people
        self._interactions = interactions

    @property
    def entries(self) -> list[Entry]:
        """Each is asked for by its name."""
        return [
            deed("messages", self._messages),
            deed("updates", self._updates),
            deed("typing", self._typing),
            deed("history", self._history, required={"chat": str}),
            deed("threads", self._threads),
            deed("interactions", self._happened),
            deed("commands", self._commands),
            deed("sessions", self._told),
        ]

    async def _messages(self, bot: Bot, call: Call) -> Json:
        said = self._world.said[bot.account]
        return [
            shown(each) for each in said if not each.deleted and not each.flags & shapes.LOADING
        ]

    async def _updates(self, bot: Bot, call: Call) -> Json:
        """Discord is never told that something has arrived: `acknowledged` is never true."""
        done = self._people.done.get(bot.account, [])
        return [_update(each) | {"acknowledged": False} for each in done]

    async def _typing(self, bot: Bot, call: Call) -> Json:
        return bot.typing

    async def _history(self, bot: Bot, call: Call) -> Json:
        place = self._world.find(bot, id_of(call.parameters["chat"]))
        if place is None:
            raise unknown("Channel")
        return [shown(each) for each in place.history()]

    async def _threads(self, bot: Bot, call: Call) -> Json:
        threads = [each for guild in self._world.guilds.values() for each in guild.threads.values()]
        return [
            {
                "id": str(each.id),
                "chat": str(each.parent.id) if each.parent else None,
                "name": each.name,
                "archived": each.archived,
                "locked": each.locked,
                "owner": str(each.owner),
            }
            for each in threads
        ]

    async def _happened(self, bot: Bot, call: Call) -> Json:
        mine = [each for each in self._interactions.all.values() if each.bot is bot]
        now = self._world.clock.now()
        return [
            {
                "id": str(each.id),
                "kind": "button" if each.kind == PRESS else "command",
                "chat": str(each.place.id),
                "user": str(each.person.id),
                "answer": ANSWERS[each.answer] if each.answer else None,
                "failed": each.answer is None and now - each.at > FIRST_ANSWER,
                "thinking": bool(
                    each.original
                    and not each.original.deleted
                    and each.original.flags & shapes.LOADING
                ),
                "messages": [shown(said) for said in each.said if not said.deleted],
            }
            for each in mine
        ]

    async def _commands(self, bot: Bot, call: Call) -> Json:
        return bot.commands

    async def _told(self, bot: Bot, call: Call) -> Json:
        return [
            {
                "id": session.id,
                "connected": session.socket is not None,
                "intents": [name for name in INTENTS if session.wants(name)],
                "shard": list(session.shard),
                "seq": session.seq,
            }
            for session in self._sessions.of(bot)
        ]


def shown(said: Message) -> Payload:
    """One message, as people see it."""
    reply = said.reference["message_id"] if said.reference and said.kind == 19 else None
    files = [
        {"name": each.name, "content": base64.b64encode(each.content).decode()}
        for each in said.files
    ]
    return {
        "id": str(said.id),
        "chat": str(said.channel.id),
        "user": str(said.author.id),
        "text": said.content,
        "size": len(said.content),
        "edits": said.edits,
        "buttons": [
            {
                "label": each.get("label"),
                "nonce": each.get("custom_id"),
                "disabled": bool(each.get("disabled")),
            }
            for each in buttons(said.components)
        ],
        "reactions": list(said.reactions),
        "file": files[0] if files else None,
        "files": files,
        "embeds": said.embeds,
        "reply_to": reply,
        "calls": {
            "users": [str(id_) for id_ in said.mentions],
            "roles": [str(id_) for id_ in said.mention_roles],
            "everyone": said.mention_everyone,
        },
        "only_for": None if said.only_for is None else str(said.only_for),
        "thread": str(said.thread.id) if said.thread else None,
        "at": said.at,
    }


def _update(done: dict[str, Any]) -> Payload:
    said: Message | None = done["said"]
    told = {name: value for name, value in done.items() if name != "said"}
    return told | {
        "reactions": list(said.reactions) if said else [],
        "deleted": bool(said and said.deleted),
    }
