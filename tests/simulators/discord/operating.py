"""
What is done behind the scenes: guilds, channels and permissions, the portal, the gateway's own
troubles, time.
"""

from __future__ import annotations

from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.discord import permissions, shapes
from tests.simulators.discord.people import deed, id_of
from tests.simulators.discord.rules import unknown
from tests.simulators.discord.sessions import PRIVILEGED, Frame, Session, Sessions
from tests.simulators.discord.settings import Settings
from tests.simulators.discord.table import Entry
from tests.simulators.discord.world import GUILD, KINDS, Bot, Channel, Guild, Role, World

_TROUBLES = ("reconnect", "invalidate", "close", "cut", "silence", "expire", "ask_heartbeat")


class Operating:
    """All that can be turned."""

    def __init__(self, world: World, sessions: Sessions, settings: Settings) -> None:
        self._world = world
        self._sessions = sessions
        self._settings = settings

    @property
    def entries(self) -> list[Entry]:
        """Each is asked for by its name."""
        there, rights = {"chat": str}, {"chat": str, "guild": str, "allow": list, "deny": list}
        opened = {
            "user": str,
            "guild": str,
            "kind": str,
            "name": str,
            "topic": str,
            "tags": list,
        }
        portal = {
            "token": str,
            "intents": list,
            "shards": int,
            "shards_needed": int,
            "starts_left": int,
            "revoked": bool,
        }
        server = {"heartbeat": float, "rates": bool, "nonces": float, "links": float}
        trouble = {"code": int, "resumable": bool}
        return [
            deed("open", self._open, required=there, optional=opened),
            deed("close", self._close, required=there),
            deed("guild", self._guild, required={"guild": str}, optional={"name": str}),
            deed("kick", self._kick, required={"guild": str}),
            deed("join", self._join, required={"user": str}, optional={"guild": str}),
            deed(
                "role",
                self._role,
                required={"role": str, "name": str},
                optional={"guild": str, "members": list},
            ),
            deed("person", self._person, required={"user": str, "name": str}),
            deed("permissions", self._permissions, optional=rights),
            deed("block", self._block, required=there),
            deed("unblock", self._unblock, required=there),
            deed("forget", self._forget, required={"before": float}),
            deed("bot", self._bot, optional=portal),
            deed("add_bot", self._add_bot, required={"name": str, "token": str}),
            deed("server", self._server, optional=server),
            deed("later", self._later, required={"seconds": float}),
            deed("gateway", self._trouble, required={"do": str}, optional=trouble),
            deed("tell", self._tell, required={"event": str, "data": dict}),
        ]

    async def _open(self, bot: Bot, call: Call) -> Json:
        """A channel of a guild if one or a kind is named, else a DM."""
        asked: Any = call.parameters
        id_ = id_of(asked["chat"])
        if self._world.find(bot, id_) is not None:
            return {}
        if "guild" not in asked and "kind" not in asked:
            bot.dms[id_] = self._world.new_dm(
                id_, self._world.person(id_of(asked.get("user", asked["chat"])))
            )
            return {}
        kind, name = asked.get("kind", "text"), asked.get("name", f"channel-{id_}")
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind}; there are {', '.join(KINDS)}")
        guild = self._guild_of(asked)
        place = self._world.add_channel(
            id_, guild, name=name, kind=KINDS[kind], topic=asked.get("topic")
        )
        place.tags = tuple(asked.get("tags", ()))
        self._sessions.tell_place(
            place, "CHANNEL_CREATE", lambda each, _: shapes.channel(place, each), kind=None
        )
        return {}

    async def _close(self, bot: Bot, call: Call) -> Json:
        """A channel or thread is deleted, with all that was said there."""
        place = self._place(bot, call)
        guild = place.guild
        if guild is None:
            del bot.dms[place.id]
            return {}
        event = "THREAD_DELETE" if place.is_thread else "CHANNEL_DELETE"
        self._sessions.tell_place(
            place, event, lambda each, _: shapes.channel(place, each), kind=None
        )
        guild.channels.pop(place.id, None)
        guild.threads = {
            id_: each for id_, each in guild.threads.items() if place not in (each, each.parent)
        }
        return {}

    async def _guild(self, bot: Bot, call: Call) -> Json:
        """The bot is invited to a guild, which is there from now on."""
        id_ = id_of(call.parameters["guild"])
        guild = self._world.guilds.get(id_) or self._world.add_guild(
            id_, str(call.parameters.get("name", f"guild {id_}"))
        )
        if bot.id not in guild.members:
            self._world.invite(bot, guild)
        told = shapes.whole_guild(self._world, guild, bot)
        self._sessions.tell(bot, "GUILD_CREATE", told, intent="guilds", guild=id_)
        return {}

    async def _kick(self, bot: Bot, call: Call) -> Json:
        guild = self._guild_of(call.parameters)
        guild.members.pop(bot.id, None)
        self._sessions.tell(
            bot, "GUILD_DELETE", {"id": str(guild.id)}, intent="guilds", guild=guild.id
        )
        return {}

    async def _join(self, bot: Bot, call: Call) -> Json:
        guild, person = (
            self._guild_of(call.parameters),
            self._world.person(id_of(call.parameters["user"])),
        )
        guild.members.setdefault(person.id, [])
        told = shapes.whole_member(self._world, guild, person.id) | {"guild_id": str(guild.id)}
        for each in self._world.bots.values():
            self._sessions.tell(each, "GUILD_MEMBER_ADD", told, intent="members", guild=guild.id)
        return {}

    async def _role(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        guild = self._guild_of(asked)
        role = Role(
            id=id_of(asked["role"]), name=asked["name"], permissions=0, position=len(guild.roles)
        )
        guild.roles[role.id] = role
        for member in asked.get("members", []):
            guild.members.setdefault(self._world.person(id_of(member)).id, []).append(role.id)
        for each in self._world.bots.values():
            told = {"guild_id": str(guild.id), "role": shapes.role(role)}
            self._sessions.tell(each, "GUILD_ROLE_CREATE", told, intent="guilds", guild=guild.id)
        return {}

    async def _person(self, bot: Bot, call: Call) -> Json:
        self._world.person(id_of(call.parameters["user"]), str(call.parameters["name"]))
        return {}

    async def _permissions(self, bot: Bot, call: Call) -> Json:
        """Of the bot, in a channel or in a whole guild; what is not named stays."""
        asked: Any = call.parameters
        allow, deny = (
            permissions.bits(asked.get("allow", [])),
            permissions.bits(asked.get("deny", [])),
        )
        if "chat" not in asked:
            everybody = self._guild_of(asked).roles[self._guild_of(asked).id]
            everybody.permissions = (everybody.permissions | allow) & ~deny
            return {}
        place = self._place(bot, call)
        place = place.parent or place  # threads have none of their own
        allowed, denied = place.overwrites.get(bot.id, (0, 0))
        place.overwrites[bot.id] = ((allowed | allow) & ~deny, (denied | deny) & ~allow)
        told = shapes.channel(place, bot)
        guild = place.guild.id if place.guild else None
        self._sessions.tell(
            bot, "CHANNEL_UPDATE", told, intent="guilds", guild=guild, chat=place.id
        )
        return {}

    async def _block(self, bot: Bot, call: Call) -> Json:
        """By the person of a DM; a channel of a guild is hidden from all bots."""
        self._place(bot, call).blocked = True
        return {}

    async def _unblock(self, bot: Bot, call: Call) -> Json:
        self._place(bot, call).blocked = False
        return {}

    async def _forget(self, bot: Bot, call: Call) -> Json:
        """Everywhere: somebody has deleted what was older."""
        guilds = self._world.guilds.values()
        for place in [
            *bot.dms.values(),
            *(
                each
                for guild in guilds
                for each in (*guild.channels.values(), *guild.threads.values())
            ),
        ]:
            place.forgotten_before = float(str(call.parameters["before"]))
        return {}

    async def _bot(self, bot: Bot, call: Call) -> Json:
        """What its owner does in the portal. A token that no longer holds ends every session."""
        asked: Any = call.parameters
        strange = sorted(set(asked.get("intents", [])) - set(PRIVILEGED))
        if strange:
            raise ValueError(
                f"{', '.join(strange)} cannot be switched; there are {', '.join(PRIVILEGED)}"
            )
        bot.portal = set(asked.get("intents", bot.portal))
        bot.shards, bot.shards_needed = (
            asked.get("shards", bot.shards),
            asked.get("shards_needed", bot.shards_needed),
        )
        bot.starts_left = asked.get("starts_left", bot.starts_left)
        ends = asked.get("revoked", False) or asked.get("token", bot.token) != bot.token
        bot.token, bot.revoked = asked.get("token", bot.token), asked.get("revoked", bot.revoked)
        for session in self._sessions.of(bot) if ends else []:
            session.over = True
            if session.socket is not None:
                session.socket.end(4004)
        return {"token": bot.token, "intents": sorted(bot.portal), "starts_left": bot.starts_left}

    async def _add_bot(self, bot: Bot, call: Call) -> Json:
        self._world.add_bot(str(call.parameters["name"]), str(call.parameters["token"]))
        return {}

    async def _server(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        self._settings.heartbeat = asked.get("heartbeat", self._settings.heartbeat)
        self._settings.rates = asked.get("rates", self._settings.rates)
        self._settings.nonces = asked.get("nonces", self._settings.nonces)
        self._world.lifetime_of_links = asked.get("links", self._world.lifetime_of_links)
        return {}

    async def _later(self, bot: Bot, call: Call) -> Json:
        self._world.clock.later(float(str(call.parameters["seconds"])))
        return {}

    async def _trouble(self, bot: Bot, call: Call) -> Json:
        """To all sessions of the bot; says to how many."""
        asked: Any = call.parameters
        if asked["do"] not in _TROUBLES:
            raise ValueError(f"there is no {asked['do']}; there are {', '.join(_TROUBLES)}")
        sessions = self._sessions.of(bot)
        for session in sessions:
            _trouble(session, asked)
        return {"sessions": len(sessions)}

    async def _tell(self, bot: Bot, call: Call) -> Json:
        """An event just as it is given, such as Discord may send next year."""
        asked: Any = call.parameters
        for session in self._sessions.of(bot):
            session.dispatch(asked["event"], asked["data"], is_given=True)
        return {}

    def _place(self, bot: Bot, call: Call) -> Channel:
        place = self._world.find(bot, id_of(call.parameters["chat"]))
        if place is None:
            raise unknown("Channel")
        return place

    def _guild_of(self, asked: Any) -> Guild:
        guild = self._world.guilds.get(id_of(asked.get("guild", GUILD)))
        if guild is None:
            raise unknown("Guild")
        return guild


def _trouble(session: Session, asked: Any) -> None:
    socket, resumable = session.socket, asked.get("resumable", False)
    if asked["do"] == "expire" or (asked["do"] == "invalidate" and not resumable):
        session.over = True
    if socket is None:
        return
    match asked["do"]:
        case "reconnect":
            socket.put(Frame(op=7))
        case "invalidate":
            socket.put(Frame(op=9, data=resumable))
        case "ask_heartbeat":
            socket.put(Frame(op=1))
        case "close":
            socket.end(asked.get("code", 4000))
        case "cut" | "expire":
            socket.end(None)
        case "silence":
            socket.fall_silent()
