"""
Everything there is on this Discord: people, bots, guilds, channels, messages, files.

Guilds are shared by all bots that are in them; a DM is between one bot and one person, and known to
that bot only.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.discord import permissions
from tests.simulators.discord.ids import Clock
from tests.simulators.discord.rules import unknown

Payload = dict[str, Any]

TEXT, DM, ANNOUNCEMENT, PUBLIC_THREAD, PRIVATE_THREAD, FORUM = 0, 1, 5, 11, 12, 15
VOICE, STAGE = 2, 13
KINDS = {
    "text": TEXT,
    "announcement": ANNOUNCEMENT,
    "forum": FORUM,
    "voice": VOICE,
    "stage": STAGE,
}
THREADS = (PUBLIC_THREAD, PRIVATE_THREAD)

GUILD, CHANNEL = 9001, 9002
"""The guild and its text channel that are there from the start."""


@dataclass(slots=True, kw_only=True)
class Person:
    """Somebody with an account, a bot included."""

    id: int
    name: str
    bot: bool = False


@dataclass(slots=True, kw_only=True)
class Role:
    """A role of a guild; the one with the guild's id is everybody's."""

    id: int
    name: str
    permissions: int
    position: int = 0
    managed: bool = False


@dataclass(slots=True, kw_only=True)
class File:
    """An attachment, as it was uploaded."""

    id: int
    name: str
    mime: str
    content: bytes
    description: str | None = None


@dataclass(slots=True, kw_only=True)
class Message:
    """Something that was said. `kind` is Discord's type of message."""

    id: int
    channel: Channel
    author: Person
    content: str = ""
    at: float = 0.0
    kind: int = 0
    flags: int = 0
    nonce: str | None = None
    edited_at: float | None = None
    edits: list[str] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    embeds: list[Payload] = field(default_factory=list)
    components: list[Payload] = field(default_factory=list)
    stickers: list[Payload] = field(default_factory=list)
    reactions: dict[str, list[int]] = field(default_factory=dict)
    reference: Payload | None = None
    snapshots: list[Payload] = field(default_factory=list)
    mentions: list[int] = field(default_factory=list)
    mention_roles: list[int] = field(default_factory=list)
    mention_everyone: bool = False
    webhook: int | None = None
    interaction: Payload | None = None
    only_for: int | None = None
    thread: Channel | None = None
    deleted: bool = False


@dataclass(slots=True, kw_only=True)
class Channel:
    """A channel, a thread, a forum, a forum's post or a DM."""

    id: int
    kind: int
    name: str = ""
    guild: Guild | None = None
    parent: Channel | None = None
    topic: str | None = None
    tags: tuple[str, ...] = ()
    owner: int | None = None
    recipient: Person | None = None
    messages: dict[int, Message] = field(default_factory=dict)
    overwrites: dict[int, tuple[int, int]] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    archived: bool = False
    locked: bool = False
    archived_at: float = 0.0
    created_at: float = 0.0
    auto_archive: int = 1440
    slow: int = 0
    blocked: bool = False
    forgotten_before: float = 0.0

    @property
    def is_thread(self) -> bool:
        """Forum posts are threads."""
        return self.kind in THREADS

    def history(self) -> list[Message]:
        """What is there for all to read, oldest first."""
        there = [
            each for each in self.messages.values() if not each.deleted and each.only_for is None
        ]
        return sorted(
            (each for each in there if each.at >= self.forgotten_before), key=lambda each: each.id
        )

    def message(self, id_: int) -> Message:
        """Raises Refused for one that is not there, or no longer."""
        found = self.messages.get(id_)
        if found is None or found.deleted or found.at < self.forgotten_before:
            raise unknown("Message")
        return found


@dataclass(slots=True, kw_only=True)
class Guild:
    """A server, in the words of people."""

    id: int
    name: str
    owner: int
    channels: dict[int, Channel] = field(default_factory=dict)
    threads: dict[int, Channel] = field(default_factory=dict)
    roles: dict[int, Role] = field(default_factory=dict)
    members: dict[int, list[int]] = field(default_factory=dict)
    made_at: float = 0.0


@dataclass(slots=True, kw_only=True)
class Bot:
    """An account of a bot, its application, and the DMs it has."""

    account: str
    token: str
    person: Person
    application: int
    portal: set[str] = field(default_factory=lambda: {"message_content", "members", "presences"})
    dms: dict[int, Channel] = field(default_factory=dict)
    commands: list[Payload] = field(default_factory=list)
    typing: list[str] = field(default_factory=list)
    nonces: dict[str, tuple[float, Message]] = field(default_factory=dict)
    shards: int = 1
    shards_needed: int = 1
    starts_left: int = 1000
    revoked: bool = False

    @property
    def id(self) -> int:
        """As a user."""
        return self.person.id


class World:
    """All of it."""

    def __init__(self, tokens: dict[str, str]) -> None:
        self.clock = Clock()
        self.people: dict[int, Person] = {}
        self.guilds: dict[int, Guild] = {}
        self.bots: dict[str, Bot] = {}
        self.files: dict[int, File] = {}
        self.secret = secrets.token_bytes(8)
        self.said: dict[str, list[Message]] = {}
        self.lifetime_of_links = 86_400.0
        guild = self.add_guild(GUILD, "Home")
        for account, token in tokens.items():
            self.add_bot(account, token)
        self.add_channel(CHANNEL, guild, name="general")

    def add_bot(self, account: str, token: str) -> Bot:
        """One more, a member of every guild there is."""
        id_ = 7001 + len(self.bots)
        person = self.people[id_] = Person(id=id_, name=f"{account}-bot", bot=True)
        bot = self.bots[account] = Bot(account=account, token=token, person=person, application=id_)
        self.said[account] = []
        for guild in self.guilds.values():
            self.invite(bot, guild)
        return bot

    def invite(self, bot: Bot, guild: Guild) -> None:
        """With a role of its own, as the portal's invite link makes one."""
        role = Role(id=bot.id + 1000, name=bot.person.name, permissions=0, position=1, managed=True)
        guild.roles[role.id] = role
        guild.members[bot.id] = [role.id]

    def add_guild(self, id_: int, name: str) -> Guild:
        """With everybody's role in it."""
        everybody = Role(id=id_, name="@everyone", permissions=permissions.bits(permissions.USUAL))
        guild = Guild(id=id_, name=name, owner=1, roles={id_: everybody}, made_at=self.clock.now())
        self.guilds[id_] = guild
        self.person(1)
        guild.members[1] = []
        return guild

    def add_channel(
        self, id_: int, guild: Guild, *, name: str, kind: int = TEXT, topic: str | None = None
    ) -> Channel:
        """A channel of a guild."""
        channel = Channel(
            id=id_, kind=kind, name=name, guild=guild, topic=topic, created_at=self.clock.now()
        )
        guild.channels[id_] = channel
        return channel

    def add_thread(
        self, parent: Channel, *, id_: int, name: str, owner: int, private: bool = False
    ) -> Channel:
        """In a channel or a forum."""
        assert parent.guild is not None
        kind = PRIVATE_THREAD if private else PUBLIC_THREAD
        thread = Channel(
            id=id_, kind=kind, name=name, guild=parent.guild, parent=parent, owner=owner
        )
        thread.created_at = self.clock.now()
        thread.members.add(owner)
        parent.guild.threads[id_] = thread
        return thread

    def dm(self, bot: Bot, person: Person) -> Channel:
        """The one between these two, which is there once at most."""
        for channel in bot.dms.values():
            if channel.recipient is person:
                return channel
        channel = self.new_dm(self.clock.new_id(), person)
        bot.dms[channel.id] = channel
        return channel

    @staticmethod
    def new_dm(id_: int, person: Person) -> Channel:
        """With this id."""
        return Channel(id=id_, kind=DM, recipient=person)

    def person(self, id_: int, name: str | None = None) -> Person:
        """Whoever has this id; everybody exists."""
        if id_ not in self.people:
            self.people[id_] = Person(id=id_, name=f"user{id_}")
        if name is not None:
            self.people[id_].name = name
        return self.people[id_]

    def bot_of(self, token: str) -> Bot | None:
        """Whose token that is, if it still holds."""
        return next(
            (bot for bot in self.bots.values() if bot.token == token and not bot.revoked), None
        )

    def find(self, bot: Bot, id_: int) -> Channel | None:
        """A channel, thread or DM that this bot could know."""
        if id_ in bot.dms:
            return bot.dms[id_]
        for guild in self.guilds.values():
            found = guild.channels.get(id_) or guild.threads.get(id_)
            if found is not None:
                return found if bot.id in guild.members else None
        return None

    def allowed(self, person: int, channel: Channel) -> int:
        """
        What somebody may do there, as a number.

        https://docs.discord.com/developers/topics/permissions#permission-overwrites
        """
        guild, place = channel.guild, channel.parent or channel
        if guild is None:
            return permissions.EVERYTHING
        allowed = self.allowed_in(person, guild)
        if permissions.has(allowed, "administrator"):
            return permissions.EVERYTHING
        for target in (guild.id, *guild.members.get(person, []), person):
            allow, deny = place.overwrites.get(target, (0, 0))
            allowed = allowed & ~deny | allow
        return allowed if permissions.has(allowed, "view_channel") else 0

    @staticmethod
    def allowed_in(person: int, guild: Guild) -> int:
        """What somebody may do in a guild, where no channel says otherwise."""
        if guild.owner == person:
            return permissions.EVERYTHING
        allowed = 0
        for role in (guild.id, *guild.members.get(person, [])):
            allowed |= guild.roles[role].permissions
        return allowed
