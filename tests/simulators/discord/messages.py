"""Messages in channels, threads and DMs, as bots ask for them."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from tests.simulators.common import Call, Json
from tests.simulators.discord import shapes
from tests.simulators.discord.posting import BODY, Posting
from tests.simulators.discord.rules import (
    NONCE,
    NONCE_ONCE,
    OWN_MESSAGES,
    PAGE,
    PERMISSIONS,
    REACTIONS,
    Refused,
    invalid,
    snowflake,
    unknown,
)
from tests.simulators.discord.sessions import Sessions
from tests.simulators.discord.settings import Settings
from tests.simulators.discord.table import Entry, entry
from tests.simulators.discord.world import Bot, Message, Payload, World

_NEW: dict[str, type] = {
    **BODY,
    "nonce": object,
    "enforce_nonce": bool,
    "message_reference": dict,
    "sticker_ids": list,
}
_PAGE = {"before": int, "after": int, "around": int, "limit": int}


class Messages:
    """What can be done with them."""

    def __init__(
        self, world: World, sessions: Sessions, posting: Posting, settings: Settings
    ) -> None:
        self._world = world
        self._sessions = sessions
        self._posting = posting
        self._settings = settings

    @property
    def entries(self) -> list[Entry]:
        """https://docs.discord.com/developers/resources/message"""
        here, one = "/channels/{channel}/messages", "/channels/{channel}/messages/{message}"
        mine = one + "/reactions/{emoji}/@me"
        return [
            entry("POST", here, "create_message", self._create, does="send", optional=_NEW),
            entry("POST", here, "create_message+buttons", self._create, does="ask", optional=_NEW),
            entry(
                "POST", here, "create_message+files", self._create, does="send_file", optional=_NEW
            ),
            entry(
                "GET", here, "get_channel_messages", self._history, does="history", optional=_PAGE
            ),
            entry("GET", one, "get_channel_message", self._get, does="find"),
            entry("PATCH", one, "edit_message", self._edit, does="edit", optional=BODY),
            entry("DELETE", one, "delete_message", self._delete),
            entry("POST", "/channels/{channel}/typing", "trigger_typing", self._type, does="type"),
            entry("PUT", mine, "create_reaction", self._react, does="react"),
            entry("DELETE", mine, "delete_own_reaction", self._take_back),
        ]

    async def _create(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        place = self._posting.writable(bot, asked["channel"])
        nonce = self._nonce(asked.get("nonce"))
        first = self._same(bot, nonce) if asked.get("enforce_nonce") else None
        if first is not None:
            return self._shown(bot, first)
        draft = self._posting.drafted(asked)
        self._posting.check_draft(bot, place, draft)
        replied_to = self._posting.replied_to(place, asked.get("message_reference"))
        said = self._posting.post(bot, place, draft, replied_to=replied_to, nonce=nonce)
        if nonce is not None:
            bot.nonces[nonce] = (self._world.clock.now(), said)
        return self._shown(bot, said)

    @staticmethod
    def _nonce(asked: object) -> str | None:
        if asked is None:
            return None
        if isinstance(asked, bool) or not isinstance(asked, str | int) or len(str(asked)) > 25:
            raise invalid("nonce", "Must be a number or 25 or fewer in length.", NONCE)
        return str(asked)

    def _same(self, bot: Bot, nonce: str | None) -> Message | None:
        """
        The message of this bot that had the nonce a moment ago. It is not made anew if it was
        deleted since.
        """
        at, said = bot.nonces.get(nonce or "", (0.0, None))
        if said is None or self._world.clock.now() - at > self._settings.nonces:
            return None
        if said.deleted:
            raise Refused(404, 10008, "Unknown Message", rule=NONCE_ONCE)
        return said

    def _shown(self, bot: Bot, said: Message) -> Payload:
        """
        The only answers that bring the nonce back: it is not kept (Rapptz/discord.py issue 2451).
        """
        told = shapes.message(self._world, said, bot)
        return told if said.nonce is None else told | {"nonce": said.nonce}

    async def _history(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        place = self._posting.place(bot, asked["channel"])
        limit, marks = (
            asked.get("limit", 50),
            [name for name in ("before", "after", "around") if name in asked],
        )
        if not 1 <= limit <= 100 or len(marks) > 1:
            raise invalid(
                "limit", f"{limit}, with {marks}: 1 to 100, and one of before, after, around", PAGE
            )
        if place.guild is not None:
            self._posting.place(bot, asked["channel"], "read_message_history")
        readable = "message_content" in bot.portal
        page = _page(place.history(), limit, **{name: asked[name] for name in marks})
        return [
            shapes.message(self._world, said, bot, readable=readable) for said in reversed(page)
        ]

    async def _get(self, bot: Bot, call: Call) -> Json:
        said = self._message(bot, call, "read_message_history")
        return shapes.message(self._world, said, bot, readable="message_content" in bot.portal)

    async def _edit(self, bot: Bot, call: Call) -> Json:
        said = self._message(bot, call)
        if said.author.id != bot.id:
            raise Refused(
                403, 50005, "Cannot edit a message authored by another user", rule=OWN_MESSAGES
            )
        self._posting.writable(bot, call.parameters["channel"])
        self._posting.check_not_archived(said.channel)
        self._posting.edit(said, call.parameters)
        return shapes.message(self._world, said, bot)

    async def _delete(self, bot: Bot, call: Call) -> Json:
        said = self._message(bot, call)
        if said.author.id != bot.id:
            if said.channel.guild is None:
                raise Refused(403, 50003, "Cannot execute action on a DM channel", rule=PERMISSIONS)
            self._posting.place(bot, said.channel.id, "manage_messages")
        self._posting.remove(said)
        return None

    async def _type(self, bot: Bot, call: Call) -> Json:
        self._posting.writable(bot, call.parameters["channel"])
        bot.typing.append(str(call.parameters["channel"]))
        return None

    async def _react(self, bot: Bot, call: Call) -> Json:
        said, emoji = self._message(bot, call, "read_message_history"), _emoji(call)
        self._posting.check_not_archived(said.channel)
        if said.channel.guild is not None and emoji not in said.reactions:
            self._posting.place(bot, said.channel.id, "add_reactions")
        self.react(said, bot.id, emoji)
        return None

    def react(self, said: Message, person: int, emoji: str) -> None:
        """Somebody does, once at most."""
        who = said.reactions.setdefault(emoji, [])
        if person not in who:
            who.append(person)
            self._tell_of(said, person, emoji, "MESSAGE_REACTION_ADD")

    async def _take_back(self, bot: Bot, call: Call) -> Json:
        said, emoji = self._message(bot, call), _emoji(call)
        if bot.id in said.reactions.get(emoji, []):
            said.reactions[emoji].remove(bot.id)
            if not said.reactions[emoji]:
                del said.reactions[emoji]
            self._tell_of(said, bot.id, emoji, "MESSAGE_REACTION_REMOVE")
        return None

    def _tell_of(self, said: Message, person: int, emoji: str, event: str) -> None:
        place = said.channel
        told: Payload = {
            "user_id": str(person),
            "channel_id": str(place.id),
            "message_id": str(said.id),
        }
        told |= {"emoji": {"id": None, "name": emoji}, "burst": False, "type": 0}
        if place.guild is not None:
            told |= {
                "guild_id": str(place.guild.id),
                "member": shapes.whole_member(self._world, place.guild, person),
            }
        self._sessions.tell_place(place, event, lambda _bot, _readable: told, kind="reactions")

    def _message(self, bot: Bot, call: Call, *needs: str) -> Message:
        place = self._posting.place(bot, call.parameters["channel"])
        if needs and place.guild is not None:
            self._posting.place(bot, call.parameters["channel"], *needs)
        said = place.message(snowflake(call.parameters["message"], "message"))
        if said.only_for is not None:
            raise unknown("Message")
        return said


def _page(
    there: list[Message], limit: int, *, before: int = 0, after: int | None = None, around: int = 0
) -> list[Message]:
    """Oldest first: the newest that there are, unless a mark says otherwise."""
    if after is not None:
        return [said for said in there if said.id > after][:limit]
    if around:
        older = [said for said in there if said.id <= around][-(limit // 2 + 1) :]
        newer = [said for said in there if said.id > around][: limit - len(older)]
        return older + newer
    return [said for said in there if not before or said.id < before][-limit:]


def _emoji(call: Call) -> str:
    emoji = unquote(str(call.parameters["emoji"]))
    if not emoji or emoji.isascii():
        raise Refused(400, 10014, "Unknown Emoji", rule=REACTIONS)
    return emoji
