"""
Sessions of the gateway: what each was told, by number, so that one that lost its socket can go on
where it was.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.simulators.discord.world import Bot, Channel, Payload, World

INTENTS = {
    "guilds": 0,
    "members": 1,
    "presences": 8,
    "guild_messages": 9,
    "guild_reactions": 10,
    "guild_typing": 11,
    "dm_messages": 12,
    "dm_reactions": 13,
    "dm_typing": 14,
    "message_content": 15,
}
PRIVILEGED = ("members", "presences", "message_content")
ALL_INTENTS = (1 << 26) - 1
ALWAYS = None
"""The intent of what everybody is told."""

LIFETIME = 180.0
"""Seconds that a session waits for its bot. Discord promises nothing; minutes are what bots see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Something for a bot to read: an opcode and, for a dispatch, its number and name."""

    op: int
    data: object = None
    seq: int | None = None
    event: str | None = None
    chat: str | None = None
    is_given: bool = False
    """Whether a test made it up, to be as Discord may send it next year."""


class Socket(Protocol):
    """What a session speaks through."""

    def put(self, frame: Frame) -> None:
        """To be sent, in order."""

    def end(self, code: int | None) -> None:
        """Close it, with None without a word."""

    def fall_silent(self) -> None:
        """It stays open, and nothing comes or is read any more."""


@dataclass(slots=True, kw_only=True)
class Session:
    """From an IDENTIFY on, over any number of sockets."""

    bot: Bot
    intents: int
    shard: tuple[int, int]
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    seq: int = 0
    told: deque[Frame] = field(default_factory=lambda: deque(maxlen=10_000))
    socket: Socket | None = None
    left_at: float | None = None
    over: bool = False

    def wants(self, intent: str | None) -> bool:
        """Whether it asked for this."""
        return intent is ALWAYS or bool(self.intents >> INTENTS[intent] & 1)

    def serves(self, guild: int | None) -> bool:
        """Whether this shard is told of it; DMs are for the first."""
        number, count = self.shard
        return number == (0 if guild is None else (guild >> 22) % count)

    def dispatch(
        self, event: str, data: Payload, chat: int | None = None, *, is_given: bool = False
    ) -> None:
        """Tell it now, or when it comes back."""
        self.seq += 1
        frame = Frame(
            op=0,
            data=data,
            seq=self.seq,
            event=event,
            chat=None if chat is None else str(chat),
            is_given=is_given,
        )
        self.told.append(frame)
        if self.socket is not None:
            self.socket.put(frame)


class Sessions:
    """All of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._all: dict[str, Session] = {}

    def begin(self, bot: Bot, intents: int, shard: tuple[int, int]) -> Session:
        """After a good IDENTIFY."""
        session = Session(bot=bot, intents=intents, shard=shard)
        self._all[session.id] = session
        return session

    def resumable(self, bot: Bot, id_: str, seq: int) -> Session | None:
        """The session that goes on, unless it is over or was left for too long."""
        session = self._all.get(id_)
        if session is None or session.over or session.bot is not bot:
            return None
        left = session.left_at
        if left is not None and self._world.clock.now() - left > LIFETIME:
            return None
        oldest = session.told[0].seq if session.told else None
        return session if oldest is None or oldest <= seq + 1 else None

    def of(self, bot: Bot) -> list[Session]:
        """Those of a bot that are not over."""
        return [
            session for session in self._all.values() if session.bot is bot and not session.over
        ]

    def tell(
        self,
        bot: Bot,
        event: str,
        data: Callable[[bool], Payload] | Payload,
        *,
        intent: str | None = ALWAYS,
        guild: int | None = None,
        chat: int | None = None,
    ) -> None:
        """
        Tell a bot, if it asked for such. `data` may depend on whether it may read what people
        write.
        """
        for session in self.of(bot):
            if session.wants(intent) and session.serves(guild):
                told = data(session.wants("message_content")) if callable(data) else data
                session.dispatch(event, told, chat)

    def tell_place(
        self,
        place: Channel,
        event: str,
        data: Callable[[Bot, bool], Payload],
        *,
        kind: str | None = "messages",
    ) -> None:
        """Tell every bot that sees this place."""
        guild = place.guild.id if place.guild else None
        intent = "guilds" if kind is None else f"{'dm' if guild is None else 'guild'}_{kind}"
        for bot in self.bots_at(place):
            self.tell(bot, event, _for(bot, data), intent=intent, guild=guild, chat=place.id)

    def bots_at(self, place: Channel) -> list[Bot]:
        """Those who see it."""
        if place.guild is None:
            return [bot for bot in self._world.bots.values() if bot.dms.get(place.id) is place]
        present = [bot for bot in self._world.bots.values() if bot.id in place.guild.members]
        return [bot for bot in present if self._world.allowed(bot.id, place) and not place.blocked]


def _for(bot: Bot, data: Callable[[Bot, bool], Payload]) -> Callable[[bool], Payload]:
    return lambda readable: data(bot, readable)
