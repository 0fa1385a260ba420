"""
What the bot knows of servers and channels: told by the gateway when it comes in, or asked for where it was not.

A message names its channel and nothing more; whether that is a thread, of which channel, and what all of them are
called stands here. It is forgotten with the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import DM, Names, Payload, Place, place_of

# https://docs.discord.com/developers/reference#uploading-files; servers that are boosted take more.
_LARGEST_FILE = 10 * 1024 * 1024
_LARGEST_BY_TIER = {2: 50 * 1024 * 1024, 3: 100 * 1024 * 1024}

_WITH_CHANNEL = ("CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE")
_WITHOUT_CHANNEL = ("CHANNEL_DELETE", "THREAD_DELETE")


@dataclass(slots=True, kw_only=True)
class _Guild:
    payload: dict[str, Any]
    roles: dict[str, str] = field(default_factory=dict)
    channels: dict[str, str] = field(default_factory=dict)


class Atlas:
    """Of one bot. `own_roles` are those that Discord made for it, one in each server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._guilds: dict[str, _Guild] = {}
        self._channels: dict[str, Payload] = {}
        self.own_roles: frozenset[str] = frozenset()

    def learn(self, event: str, told: Payload, me: str) -> None:
        """From an event of the gateway. `me` is the bot's id."""
        if event in ("GUILD_CREATE", "GUILD_UPDATE"):
            self._learn_guild(told, me)
        elif event in ("GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE"):
            self._learn_role(self._guild(str(told["guild_id"])), told["role"], me)
        elif event in _WITH_CHANNEL:
            self.note(told)
        elif event == "THREAD_LIST_SYNC":
            self._note_all(told.get("threads") or (), str(told["guild_id"]))
        elif event in _WITHOUT_CHANNEL:
            self._channels.pop(str(told["id"]), None)
            self._guild(str(told.get("guild_id"))).channels.pop(str(told["id"]), None)

    def note(self, channel: Payload) -> None:
        """A channel or thread, as Discord shows it."""
        self._channels[str(channel["id"])] = {
            name: channel.get(name)
            for name in ("id", "type", "name", "topic", "guild_id", "parent_id")
        }
        if channel.get("name") and channel.get("guild_id"):
            self._guild(str(channel["guild_id"])).channels[str(channel["id"])] = channel["name"]

    async def place(self, channel: str, *, guild: str | None = None) -> Place:
        """
        A channel, of this server if that is known. Raises what the API raises if Discord has to be asked.

        Whatever belongs to no server is a direct chat, and of those Discord tells nothing before.
        """
        told = self._channels.get(channel)
        if told is None:
            told = await self._api.object("GET", "/channels/{channel_id}", {"channel_id": channel})
            self.note(told)
        server = guild or told.get("guild_id")
        parent = self._channels.get(str(told.get("parent_id")))
        known = self._guilds.get(str(server))
        return place_of(
            {**told, "guild_id": server}, guild=known.payload if known else None, parent=parent
        )

    def names(self, guild: str | None) -> Names:
        """What things are called in a server."""
        known = self._guilds.get(guild or "")
        return Names(channels=known.channels, roles=known.roles) if known else Names()

    def guild_of(self, channel: str) -> str | None:
        """The server of a channel, as far as is known."""
        guild = self._channels.get(channel, {}).get("guild_id")
        return None if guild is None else str(guild)

    def largest_file(self, channel: str) -> int:
        """In bytes, as far as is known."""
        guild = self._guilds.get(str(self._channels.get(channel, {}).get("guild_id")))
        tier = guild.payload.get("premium_tier") if guild else 0
        return _LARGEST_BY_TIER.get(int(tier or 0), _LARGEST_FILE)

    def _learn_guild(self, told: Payload, me: str) -> None:
        guild = self._guild(str(told["id"]))
        guild.payload.update(
            {name: told[name] for name in ("name", "premium_tier") if name in told}
        )
        for role in told.get("roles") or ():
            self._learn_role(guild, role, me)
        self._note_all(
            (*(told.get("channels") or ()), *(told.get("threads") or ())), str(told["id"])
        )

    def _learn_role(self, guild: _Guild, role: Payload, me: str) -> None:
        guild.roles[str(role["id"])] = role["name"]
        if str((role.get("tags") or {}).get("bot_id")) == me:
            self.own_roles |= {str(role["id"])}

    def _note_all(self, channels: Iterable[Payload], guild: str) -> None:
        for channel in channels:
            self.note({**channel, "guild_id": guild})

    def _guild(self, id_: str) -> _Guild:
        return self._guilds.setdefault(id_, _Guild(payload={"id": id_}))


def direct(channel: str) -> Place:
    """A direct chat."""
    return Place(channel=channel, kind=DM)
