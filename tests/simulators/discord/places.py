"""Who the bot is, and where: users, guilds, channels, members, threads."""

from __future__ import annotations

from typing import Any

from tests.simulators.common import Call, Json
from tests.simulators.discord import shapes
from tests.simulators.discord.ids import stamp
from tests.simulators.discord.posting import BODY, FILE_FIELDS, Posting, reference_to
from tests.simulators.discord.rules import (
    ACCESS,
    ARCHIVE,
    ONE_THREAD,
    PAGE,
    THREAD_NAME,
    Refused,
    invalid,
    snowflake,
    unknown,
)
from tests.simulators.discord.rules import (
    FORUM as FORUM_RULE,
)
from tests.simulators.discord.sessions import Sessions
from tests.simulators.discord.table import Entry, entry
from tests.simulators.discord.world import (
    FORUM,
    PRIVATE_THREAD,
    Bot,
    Channel,
    Guild,
    Message,
    Payload,
    World,
)

GATEWAY_URL = "wss://gateway.discord.gg"
_NEW_THREAD: dict[str, type] = {
    "auto_archive_duration": object,
    "rate_limit_per_user": object,
    "type": int,
    "invitable": bool,
    "message": dict,
    "applied_tags": list,
    "use_nested_fields": str,
    "filenames": list,
    **dict.fromkeys(FILE_FIELDS, bytes),
}
_CHANGES: dict[str, type] = {
    "name": str,
    "archived": bool,
    "locked": bool,
    "auto_archive_duration": int,
    "rate_limit_per_user": int,
    "invitable": bool,
    "topic": object,
}


class Places:
    """What can be asked of them."""

    def __init__(self, world: World, sessions: Sessions, posting: Posting) -> None:
        self._world = world
        self._sessions = sessions
        self._posting = posting

    @property
    def entries(self) -> list[Entry]:
        """https://docs.discord.com/developers/resources/channel and its neighbours"""
        channel, guild = "/channels/{channel}", "/guilds/{guild}"
        old, page = channel + "/threads/archived", {"before": str, "limit": int}
        named = {"name": str}
        return [
            entry("GET", "/gateway", "get_gateway", self._gateway, known_by="nothing"),
            entry("GET", "/gateway/bot", "get_gateway_bot", self._gateway_bot),
            entry("GET", "/users/@me", "get_current_user", self._me),
            entry(
                "GET",
                "/users/@me/guilds",
                "get_current_user_guilds",
                self._my_guilds,
                optional=_GUILDS,
            ),
            entry(
                "POST",
                "/users/@me/channels",
                "create_dm",
                self._open_dm,
                required={"recipient_id": object},
            ),
            entry("GET", "/users/{user}", "get_user", self._user),
            entry("GET", "/oauth2/applications/@me", "get_current_application", self._application),
            entry("GET", "/applications/@me", "get_own_application", self._application),
            entry("GET", guild, "get_guild", self._guild, optional={"with_counts": str}),
            entry("GET", guild + "/channels", "get_guild_channels", self._channels),
            entry("GET", guild + "/roles", "get_guild_roles", self._roles),
            entry(
                "GET",
                guild + "/members",
                "list_guild_members",
                self._members,
                optional={"limit": int, "after": int},
            ),
            entry("GET", guild + "/members/{user}", "get_guild_member", self._member),
            entry("GET", guild + "/threads/active", "list_active_threads", self._active),
            entry("GET", channel, "get_channel", self._channel),
            entry("PATCH", channel, "modify_channel", self._modify, optional=_CHANGES),
            entry(
                "GET",
                old + "/public",
                "list_public_archived_threads",
                self._archived,
                optional=page,
            ),
            entry(
                "GET",
                old + "/private",
                "list_private_archived_threads",
                self._archived_private,
                optional=page,
            ),
            entry("PUT", channel + "/thread-members/@me", "join_thread", self._join),
            entry("DELETE", channel + "/thread-members/@me", "leave_thread", self._leave),
            entry(
                "POST",
                channel + "/messages/{message}/threads",
                "start_thread_from_message",
                self._start_from,
                required=named,
                optional={"auto_archive_duration": object, "rate_limit_per_user": object},
                status=201,
            ),
            entry(
                "POST",
                channel + "/threads",
                "start_thread",
                self._start,
                does="send",
                required=named,
                optional=_NEW_THREAD,
                status=201,
            ),
        ]

    async def _gateway(self, bot: Bot, call: Call) -> Json:
        return {"url": GATEWAY_URL}

    async def _gateway_bot(self, bot: Bot, call: Call) -> Json:
        left = {
            "total": 1000,
            "remaining": max(0, bot.starts_left),
            "reset_after": 14_400_000,
            "max_concurrency": 1,
        }
        return {"url": GATEWAY_URL, "shards": bot.shards, "session_start_limit": left}

    async def _me(self, bot: Bot, call: Call) -> Json:
        return shapes.own_user(bot)

    async def _my_guilds(self, bot: Bot, call: Call) -> Json:
        mine = [guild for guild in self._world.guilds.values() if bot.id in guild.members]
        told: Payload = {"icon": None, "banner": None, "owner": False, "features": []}
        return [
            {
                "id": str(guild.id),
                "name": guild.name,
                **told,
                "permissions": str(self._world.allowed_in(bot.id, guild)),
            }
            for guild in mine
        ]

    async def _open_dm(self, bot: Bot, call: Call) -> Json:
        person = self._world.people.get(snowflake(call.parameters["recipient_id"], "recipient_id"))
        if person is None or person.bot:
            raise unknown("User")
        return shapes.channel(self._world.dm(bot, person), bot)

    async def _user(self, bot: Bot, call: Call) -> Json:
        person = self._world.people.get(snowflake(call.parameters["user"], "user"))
        if person is None:
            raise unknown("User")
        return shapes.user(person)

    async def _application(self, bot: Bot, call: Call) -> Json:
        return shapes.application(bot, owner=self._world.person(1))

    async def _guild(self, bot: Bot, call: Call) -> Json:
        return shapes.rest_guild(self._mine(bot, call))

    async def _channels(self, bot: Bot, call: Call) -> Json:
        there = self._mine(bot, call).channels.values()
        return [shapes.channel(each, bot) for each in there]

    async def _roles(self, bot: Bot, call: Call) -> Json:
        return [shapes.role(each) for each in self._mine(bot, call).roles.values()]

    async def _members(self, bot: Bot, call: Call) -> Json:
        guild, asked = self._mine(bot, call), call.parameters
        if "members" not in bot.portal:
            raise Refused(403, 50001, "Missing Access", rule=ACCESS)
        after, limit = int(str(asked.get("after", 0))), int(str(asked.get("limit", 1)))
        page = [id_ for id_ in sorted(guild.members) if id_ > after][:limit]
        return [shapes.whole_member(self._world, guild, id_) for id_ in page]

    async def _member(self, bot: Bot, call: Call) -> Json:
        guild, person = self._mine(bot, call), snowflake(call.parameters["user"], "user")
        if person not in guild.members:
            raise unknown("Member")
        return shapes.whole_member(self._world, guild, person)

    def _mine(self, bot: Bot, call: Call) -> Guild:
        guild = self._world.guilds.get(snowflake(call.parameters["guild"], "guild"))
        if guild is None or bot.id not in guild.members:
            raise unknown("Guild")
        return guild

    async def _channel(self, bot: Bot, call: Call) -> Json:
        return shapes.channel(self._posting.place(bot, call.parameters["channel"]), bot)

    async def _modify(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        place = self._posting.place(bot, asked["channel"])
        if not (place.is_thread and place.owner == bot.id):
            self._posting.place(
                bot, asked["channel"], "manage_threads" if place.is_thread else "manage_channels"
            )
        self.change(place, {name: value for name, value in asked.items() if name != "channel"})
        return shapes.channel(place, bot)

    def change(self, place: Channel, changes: Payload) -> None:
        """Archived, locked, renamed; all who see it are told."""
        place.name = changes.get("name", place.name)
        place.locked = changes.get("locked", place.locked)
        place.topic = changes.get("topic", place.topic)
        place.slow = changes.get("rate_limit_per_user", place.slow)
        place.auto_archive = _archive(changes.get("auto_archive_duration"), place.auto_archive)
        archived = changes.get("archived", place.archived)
        if archived != place.archived:
            place.archived, place.archived_at = archived, self._world.clock.now()
        event = "THREAD_UPDATE" if place.is_thread else "CHANNEL_UPDATE"
        self._sessions.tell_place(
            place, event, lambda bot, _: shapes.channel(place, bot), kind=None
        )

    async def _active(self, bot: Bot, call: Call) -> Json:
        there = [each for each in self._mine(bot, call).threads.values() if not each.archived]
        seen = [each for each in there if self._world.allowed(bot.id, each)]
        return _listed(seen, bot)

    async def _archived(self, bot: Bot, call: Call) -> Json:
        return self._old(bot, call, private=False)

    async def _archived_private(self, bot: Bot, call: Call) -> Json:
        self._posting.place(bot, call.parameters["channel"], "manage_threads")
        return self._old(bot, call, private=True)

    def _old(self, bot: Bot, call: Call, *, private: bool) -> Json:
        place = self._posting.place(bot, call.parameters["channel"], "read_message_history")
        limit, before = int(str(call.parameters.get("limit", 50))), call.parameters.get("before")
        if not 2 <= limit <= 100:
            raise invalid("limit", "2 to 100", PAGE)
        assert place.guild is not None
        there = [
            each for each in place.guild.threads.values() if each.parent is place and each.archived
        ]
        there = [each for each in there if (each.kind == PRIVATE_THREAD) == private]
        there.sort(key=lambda each: each.archived_at, reverse=True)
        older = [each for each in there if before is None or stamp(each.archived_at) < str(before)]
        return _listed(older[:limit], bot) | {"has_more": len(older) > limit}

    async def _join(self, bot: Bot, call: Call) -> Json:
        self._posting.place(bot, call.parameters["channel"]).members.add(bot.id)
        return None

    async def _leave(self, bot: Bot, call: Call) -> Json:
        self._posting.place(bot, call.parameters["channel"]).members.discard(bot.id)
        return None

    async def _start_from(self, bot: Bot, call: Call) -> Json:
        place = self._posting.place(bot, call.parameters["channel"], "create_public_threads")
        said = place.message(snowflake(call.parameters["message"], "message"))
        thread = self.start_from(said, _name(call.parameters["name"]), bot.id)
        thread.auto_archive = _archive(call.parameters.get("auto_archive_duration"), 1440)
        self.begin(said, thread)
        return shapes.thread(thread, bot)

    def begin(self, said: Message, thread: Channel) -> None:
        """
        All are told; it begins with a message that has the thread's id and shows the one it hangs
        on.
        """
        self.tell_of(thread)
        starter = Message(
            id=thread.id, channel=thread, author=said.author, at=self._world.clock.now(), kind=21
        )
        starter.reference = reference_to(said)
        self._posting.put(starter)

    def start_from(self, said: Message, name: str, owner: int) -> Channel:
        """
        A thread that hangs on a message has its id. Raises Refused if there is one, or none can be
        there.
        """
        if said.channel.guild is None or said.channel.is_thread:
            raise Refused(400, 50024, "Cannot execute action on this channel type", rule=ONE_THREAD)
        if said.thread is not None:
            raise Refused(
                400, 160004, "A thread has already been created for this message", rule=ONE_THREAD
            )
        said.thread = self._world.add_thread(said.channel, id_=said.id, name=name, owner=owner)
        said.flags |= shapes.HAS_THREAD
        return said.thread

    async def _start(self, bot: Bot, call: Call) -> Json:
        asked: Any = call.parameters
        place = self._posting.place(bot, asked["channel"])
        name = _name(asked["name"])
        if place.kind == FORUM:
            return self._post(bot, place, name, asked)
        if "message" in asked:
            raise invalid("message", "only a forum takes one", FORUM_RULE)
        private = asked.get("type", PRIVATE_THREAD) == PRIVATE_THREAD
        self._posting.place(
            bot, asked["channel"], f"create_{'private' if private else 'public'}_threads"
        )
        id_ = self._world.clock.new_id()
        thread = self._world.add_thread(place, id_=id_, name=name, owner=bot.id, private=private)
        thread.auto_archive = _archive(asked.get("auto_archive_duration"), 1440)
        self.tell_of(thread)
        return shapes.thread(thread, bot)

    def _post(self, bot: Bot, forum: Channel, name: str, asked: Payload) -> Payload:
        if "message" not in asked:
            raise invalid("message", "a forum's post begins with one", FORUM_RULE)
        strange = sorted(set(asked["message"]) - {*BODY, "sticker_ids"})
        if strange:
            raise invalid("message", f"there is no {', '.join(strange)}", FORUM_RULE)
        self._posting.place(bot, forum.id, "send_messages")
        shown = {tag["id"]: tag for tag in shapes.channel(forum, bot).get("available_tags", ())}
        tags = asked.get("applied_tags", [])
        if forum.tags and not tags:
            raise Refused(
                400,
                40067,
                "A tag is required to create a forum post in this channel",
                rule=FORUM_RULE,
            )
        if any(str(tag) not in shown or shown[str(tag)]["moderated"] for tag in tags):
            self._posting.place(bot, forum.id, "manage_threads")
        files = {each: asked[each] for each in ("filenames", *FILE_FIELDS) if each in asked}
        draft = self._posting.drafted({**asked["message"], **files})
        self._posting.check_draft(bot, forum, draft)
        id_ = self._world.clock.new_id()
        thread = self._world.add_thread(forum, id_=id_, name=name, owner=bot.id)
        thread.auto_archive = _archive(asked.get("auto_archive_duration"), 1440)
        self.tell_of(thread)
        said = self._posting.post(bot, thread, draft, id=id_)
        return shapes.thread(thread, bot) | {"message": shapes.message(self._world, said, bot)}

    def tell_of(self, thread: Channel) -> None:
        """THREAD_CREATE, to all who see it."""
        self._sessions.tell_place(
            thread,
            "THREAD_CREATE",
            lambda bot, _: shapes.thread(thread, bot) | {"newly_created": True},
            kind=None,
        )


_GUILDS: dict[str, type] = {"before": int, "after": int, "limit": int, "with_counts": str}


def _name(name: object) -> str:
    if not 1 <= len(str(name)) <= 100:
        raise invalid("name", "Must be between 1 and 100 in length.", THREAD_NAME)
    return str(name)


def _archive(minutes: object, otherwise: int) -> int:
    if minutes is None:
        return otherwise
    if minutes not in (60, 1440, 4320, 10080):
        raise invalid(
            "auto_archive_duration", "Value must be one of {60, 1440, 4320, 10080}.", ARCHIVE
        )
    return int(str(minutes))


def _listed(threads: list[Channel], bot: Bot) -> Payload:
    mine = [shapes.thread_member(each, bot.id) for each in threads if bot.id in each.members]
    return {
        "threads": [shapes.thread(each, bot) for each in threads],
        "members": mine,
        "has_more": False,
    }
