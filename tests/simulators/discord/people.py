"""What people do: they write, edit, react, press, use commands, begin threads and archive them."""

from __future__ import annotations

import base64
import mimetypes
from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.discord import mentions, shapes
from tests.simulators.discord.checking import buttons
from tests.simulators.discord.interactions import Interactions
from tests.simulators.discord.messages import Messages
from tests.simulators.discord.places import Places
from tests.simulators.discord.posting import Posting, reference_to
from tests.simulators.discord.rules import unknown
from tests.simulators.discord.sessions import Sessions
from tests.simulators.discord.table import Entry, entry
from tests.simulators.discord.world import (
    FORUM,
    Bot,
    Channel,
    File,
    Message,
    Payload,
    Person,
    World,
)

_SAID: dict[str, type] = {
    "at": float,
    "id": str,
    "repeat": int,
    "file": dict,
    "files": list,
    "reply_to": str,
    "ping": bool,
    "stickers": list,
    "forward": dict,
    "embeds": list,
    "bot": bool,
    "webhook": bool,
    "kind": int,
}


class People:
    """All that they can do."""

    def __init__(
        self,
        world: World,
        sessions: Sessions,
        posting: Posting,
        messages: Messages,
        places: Places,
        interactions: Interactions,
    ) -> None:
        self._world = world
        self._sessions = sessions
        self._posting = posting
        self._messages = messages
        self._places = places
        self._interactions = interactions
        self.done: dict[str, list[Payload]] = {}

    @property
    def entries(self) -> list[Entry]:
        """Deeds have no address of their own."""
        who, there = {"chat": str, "user": str}, {"chat": str}
        begin = {"message": str, "text": str, "private": bool}
        pressed = {"message": str, "nonce": str}
        return [
            deed("say", self._say, required={**who, "text": str}, optional=_SAID),
            deed("change", self._change, required={**there, "id": str, "text": str}),
            deed("delete", self._delete, required={"id": str}, optional=there),
            deed("react", self._react, required={**who, "message": str, "emoji": str}),
            deed("press", self._press, required={**who, **pressed}),
            deed(
                "command",
                self._command,
                required={**who, "name": str},
                optional={"options": dict, "kind": str},
            ),
            deed("thread", self._thread, required={**who, "name": str}, optional=begin),
            deed("archive", self._archive, required=there, optional={"locked": bool}),
        ]

    async def _say(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        person = self._author(asked)
        place = self._place(bot, asked["chat"], person)
        if place.kind == FORUM:
            raise ValueError("a forum takes only new posts: begin one with `thread`")
        at = float(asked.get("at", self._world.clock.now()))
        said = Message(
            id=int(asked["id"]) if "id" in asked else self._world.clock.new_id(at),
            channel=place,
            author=person,
            content=asked["text"],
            at=at,
            kind=asked.get("kind", 0),
            files=[
                self._file(each)
                for each in [*asked.get("files", []), *([asked["file"]] if "file" in asked else [])]
            ],
            embeds=asked.get("embeds", []),
            stickers=[
                {"id": str(each["id"]), "name": each["name"], "format_type": 1}
                for each in asked.get("stickers", [])
            ],
            webhook=person.id if asked.get("webhook") else None,
        )
        self._refer(bot, said, asked)
        self._put(said)
        for _ in range(asked.get("repeat", 0)):
            self._posting.tell_of(said, "MESSAGE_CREATE")
        return {"id": str(said.id)}

    def _author(self, asked: Any) -> Person:
        person = self._world.person(id_of(asked["user"]))
        person.bot = person.bot or bool(asked.get("bot") or asked.get("webhook"))
        return person

    def _place(self, bot: Bot, chat: object, person: Person) -> Channel:
        """
        A chat that nobody knows is a DM between the two. Whoever writes in a guild is a member of
        it.
        """
        place = self._world.find(bot, id_of(chat))
        if place is None:
            place = bot.dms[id_of(chat)] = self._world.new_dm(id_of(chat), person)
        if place.guild is None:
            place.recipient = person
        elif not person.bot:
            place.guild.members.setdefault(person.id, [])
        return place

    def _refer(self, bot: Bot, said: Message, asked: Any) -> None:
        """To what it answers or forwards, and whom it calls."""
        original = None
        if "reply_to" in asked:
            original = said.channel.messages.get(id_of(asked["reply_to"]))
            if original is None:
                raise ValueError(f"nobody said {asked['reply_to']} there")
            said.kind, said.reference = 19, reference_to(original)
        if "forward" in asked:
            source = self._world.find(bot, id_of(asked["forward"]["chat"]))
            if source is None:
                raise unknown("Channel")
            forwarded = source.message(id_of(asked["forward"]["message"]))
            said.reference, said.snapshots = (
                reference_to(forwarded, 1),
                [shapes.snapshot(self._world, forwarded)],
            )
        author = original.author.id if original and asked.get("ping", True) else None
        mentions.call(self._world, said, mentions.Allowed(), replied_to=author)

    def _put(self, said: Message) -> None:
        self._posting.put(said)
        self._note(said.channel, "message", said, said.content)

    def _note(self, place: Channel, kind: str, said: Message, text: str) -> None:
        for bot in self._sessions.bots_at(place):
            self.note(bot, kind, str(said.id), place, text, said)

    def note(
        self, bot: Bot, kind: str, id_: str, place: Channel, text: str, said: Message | None = None
    ) -> None:
        """Remember what was done, for `updates`."""
        done = self.done.setdefault(bot.account, [])
        done.append(
            {
                "n": len(done) + 1,
                "kind": kind,
                "id": id_,
                "chat": str(place.id),
                "text": text,
                "said": said,
            }
        )

    def _file(self, asked: Payload) -> File:
        name = str(asked["name"])
        mime = asked.get("mime") or mimetypes.guess_type(name)[0] or "application/octet-stream"
        return File(
            id=self._world.clock.new_id(),
            name=name,
            mime=mime,
            content=base64.b64decode(asked["content"]),
        )

    async def _change(self, bot: Bot, call: Call) -> Json:
        place = self._known(bot, call)
        said, text = place.message(id_of(call.parameters["id"])), str(call.parameters["text"])
        said.edits.append(said.content)
        said.content, said.edited_at = text, self._world.clock.now()
        mentions.call(self._world, said, mentions.Allowed())
        self._posting.tell_of(said, "MESSAGE_UPDATE")
        self._note(place, "edit", said, text)
        return {"id": str(said.id)}

    async def _delete(self, bot: Bot, call: Call) -> Json:
        """Of the bot, if no chat is named."""
        id_ = id_of(call.parameters["id"])
        if "chat" in call.parameters:
            self._posting.remove(self._known(bot, call).message(id_))
            return {}
        mine = [said for said in self._world.said[bot.account] if said.id == id_]
        if not mine:
            raise unknown("Message")
        self._posting.remove(mine[0])
        return {}

    async def _react(self, bot: Bot, call: Call) -> Json:
        said = self._known(bot, call).message(id_of(call.parameters["message"]))
        self._messages.react(
            said,
            self._world.person(id_of(call.parameters["user"])).id,
            str(call.parameters["emoji"]),
        )
        return {}

    async def _press(self, bot: Bot, call: Call) -> Json:
        """Only what is shown can be pressed."""
        asked: Any = call.parameters
        place = self._known(bot, call)
        said = place.message(id_of(asked["message"]))
        shown = [
            each for each in buttons(said.components) if each.get("custom_id") == asked["nonce"]
        ]
        if not shown or shown[0].get("disabled"):
            raise ValueError("no such button")
        happened = self._interactions.press(bot, self._person(asked["user"], place), said, shown[0])
        self.note(bot, "button", str(happened.id), place, asked["nonce"])
        return {"id": str(happened.id)}

    async def _command(self, bot: Bot, call: Call) -> Json:
        """Only one that the bot has registered."""
        asked: Any = call.parameters
        person = self._world.person(id_of(asked["user"]))
        place = self._place(bot, asked["chat"], person)
        kind = asked.get("kind", "slash")
        there = [each for each in bot.commands if each["name"] == asked["name"]]
        if kind in ("user", "message", "completion"):
            there = there or [{"id": "1", "name": asked["name"]}]  # of an earlier bot
        if not there:
            raise ValueError(
                f"there is no command {asked['name']}; there are "
                f"{[each['name'] for each in bot.commands]}"
            )
        kinds = {str: 3, int: 4, bool: 5, float: 10}
        options = [
            {"name": k, "type": kinds[type(value)], "value": value}
            for k, value in asked.get("options", {}).items()
        ]
        happened = self._interactions.use(bot, person, place, there[0], options, how=kind)
        self.note(bot, "command", str(happened.id), place, asked["name"])
        return {"id": str(happened.id)}

    async def _thread(self, bot: Bot, call: Call) -> Json:
        """From a message, with a first text in a forum, or by itself."""
        asked: Any = call.parameters
        place, person = self._known(bot, call), self._person(asked["user"], self._known(bot, call))
        if "message" in asked:
            said = place.message(id_of(asked["message"]))
            thread = self._places.start_from(said, asked["name"], person.id)
            self._places.begin(said, thread)
            return {"id": str(thread.id)}
        id_ = self._world.clock.new_id()
        private = asked.get("private", False)
        thread = self._world.add_thread(
            place, id_=id_, name=asked["name"], owner=person.id, private=private
        )
        self._places.tell_of(thread)
        if "text" in asked:
            first = Message(
                id=id_,
                channel=thread,
                author=person,
                content=asked["text"],
                at=self._world.clock.now(),
            )
            mentions.call(self._world, first, mentions.Allowed())
            self._put(first)
        return {"id": str(id_)}

    async def _archive(self, bot: Bot, call: Call) -> Json:
        self._places.change(
            self._known(bot, call),
            {"archived": True, "locked": call.parameters.get("locked", False)},
        )
        return {}

    def _known(self, bot: Bot, call: Call) -> Channel:
        place = self._world.find(bot, id_of(call.parameters["chat"]))
        if place is None:
            raise unknown("Channel")
        return place

    def _person(self, id_: object, place: Channel) -> Person:
        person = self._world.person(id_of(id_))
        if place.guild is not None:
            place.guild.members.setdefault(person.id, [])
        return person


def deed(name: str, act: Any, **parameters: Any) -> Entry:
    parameters["optional"] = {**parameters.get("optional", {}), "account": str}
    return entry("", "", name, act, **parameters)


def id_of(word: object) -> int:
    """Raises ValueError for what no id is."""
    if not str(word).isdecimal():
        raise ValueError(f"ids are numbers on Discord, not {word!r}")
    return int(str(word))
