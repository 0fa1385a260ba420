"""
Cached servers and channels: from gateway events, or requested when missing.

A message names only its channel id; its kind, parent and names are here. Lost with the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from turngate.adapters.discord.api import Api
from turngate.adapters.discord.channels import (
    DM,
    Channel,
    Names,
    Payload,
    channel_from,
)

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


class Directory:
    """
    The directory of one bot. `own_roles` are the roles that Discord created for it, one per server.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._guilds: dict[str, _Guild] = {}
        self._channels: dict[str, Payload] = {}
        self.own_roles: frozenset[str] = frozenset()

    def learn(self, event: str, payload: Payload, me: str) -> None:
        """Update from a gateway event. `me` is the bot's id."""
        if event in ("GUILD_CREATE", "GUILD_UPDATE"):
            self._learn_guild(payload, me)
        elif event in ("GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE"):
            self._learn_role(self._guild(str(payload["guild_id"])), payload["role"], me)
        elif event in _WITH_CHANNEL:
            self.note(payload)
        elif event == "THREAD_LIST_SYNC":
            self._note_all(payload.get("threads") or (), str(payload["guild_id"]))
        elif event in _WITHOUT_CHANNEL:
            self._channels.pop(str(payload["id"]), None)
            self._guild(str(payload.get("guild_id"))).channels.pop(str(payload["id"]), None)

    def note(self, channel: Payload) -> None:
        """Add a channel or thread from Discord's JSON."""
        self._channels[str(channel["id"])] = {
            name: channel.get(name)
            for name in ("id", "type", "name", "topic", "guild_id", "parent_id")
        }
        if channel.get("name") and channel.get("guild_id"):
            self._guild(str(channel["guild_id"])).channels[str(channel["id"])] = channel["name"]

    async def find(self, channel: str, *, guild: str | None = None) -> Channel:
        """
        Return a channel, of server `guild` if that is known. Raises errors of the API if it has to
        be requested.

        A channel without a server is a direct chat, which gateway events do not announce.
        """
        payload = self._channels.get(channel)
        if payload is None:
            payload = await self._api.object(
                "GET", "/channels/{channel_id}", {"channel_id": channel}
            )
            self.note(payload)

        server = guild or payload.get("guild_id")
        parent = self._channels.get(str(payload.get("parent_id")))
        known = self._guilds.get(str(server))

        return channel_from(
            {**payload, "guild_id": server}, guild=known.payload if known else None, parent=parent
        )

    def names(self, guild: str | None) -> Names:
        known = self._guilds.get(guild or "")
        return Names(channels=known.channels, roles=known.roles) if known else Names()

    def guild_of(self, channel: str) -> str | None:
        """Return the server of a channel, if it is known."""
        guild = self._channels.get(channel, {}).get("guild_id")
        return None if guild is None else str(guild)

    def largest_file(self, channel: str) -> int:
        """Return the upload limit in bytes, as far as it is known."""
        guild = self._guilds.get(str(self._channels.get(channel, {}).get("guild_id")))
        tier = guild.payload.get("premium_tier") if guild else 0
        return _LARGEST_BY_TIER.get(int(tier or 0), _LARGEST_FILE)

    def _learn_guild(self, payload: Payload, me: str) -> None:
        guild = self._guild(str(payload["id"]))
        guild.payload.update(
            {name: payload[name] for name in ("name", "premium_tier") if name in payload}
        )
        for role in payload.get("roles") or ():
            self._learn_role(guild, role, me)
        self._note_all(
            (*(payload.get("channels") or ()), *(payload.get("threads") or ())), str(payload["id"])
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


def direct(channel: str) -> Channel:
    """Build a direct chat."""
    return Channel(channel=channel, kind=DM)
