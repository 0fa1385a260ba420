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
    channel_from,
)
from turngate.adapters.discord.json_fields import (
    Payload,
    id_in,
    needed_id,
    number_in,
    object_in,
    objects_in,
    text_in,
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
            guild = self._guild(needed_id(payload, "guild_id"))
            self._learn_role(guild, object_in(payload, "role"), me)
        elif event in _WITH_CHANNEL:
            self.note(payload)
        elif event == "THREAD_LIST_SYNC":
            self._note_all(objects_in(payload, "threads"), needed_id(payload, "guild_id"))
        elif event in _WITHOUT_CHANNEL:
            self._forget(needed_id(payload, "id"))

    def note(self, channel: Payload) -> None:
        """Add a channel or thread from Discord's JSON."""
        id_ = needed_id(channel, "id")
        guild = id_in(channel, "guild_id")
        name = text_in(channel, "name")
        self._channels[id_] = {
            "id": id_,
            "type": number_in(channel, "type"),
            "name": name,
            "topic": text_in(channel, "topic"),
            "guild_id": guild,
            "parent_id": id_in(channel, "parent_id"),
        }
        if name is not None and guild is not None:
            self._guild(guild).channels[id_] = name

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

        server = guild or id_in(payload, "guild_id")
        parent = self._channels.get(id_in(payload, "parent_id") or "")
        known = self._guilds.get(server or "")

        return channel_from(
            {**payload, "guild_id": server}, guild=known.payload if known else None, parent=parent
        )

    def names(self, guild: str | None) -> Names:
        known = self._guilds.get(guild or "")
        return Names(channels=known.channels, roles=known.roles) if known else Names()

    def guild_of(self, channel: str) -> str | None:
        """Return the server of a channel, if it is known."""
        return id_in(self._channels.get(channel, {}), "guild_id")

    def largest_file(self, channel: str) -> int:
        """Return the upload limit in bytes, as far as it is known."""
        guild = self._guilds.get(self.guild_of(channel) or "")
        tier = number_in(guild.payload, "premium_tier") if guild else None
        return _LARGEST_BY_TIER.get(tier or 0, _LARGEST_FILE)

    def _learn_guild(self, payload: Payload, me: str) -> None:
        id_ = needed_id(payload, "id")
        guild = self._guild(id_)
        guild.payload.update(
            {name: payload[name] for name in ("name", "premium_tier") if name in payload}
        )
        for role in objects_in(payload, "roles"):
            self._learn_role(guild, role, me)
        for name in ("channels", "threads"):
            self._note_all(objects_in(payload, name), id_)

    def _learn_role(self, guild: _Guild, role: Payload, me: str) -> None:
        id_ = id_in(role, "id")
        if id_ is None:
            return
        guild.roles[id_] = text_in(role, "name") or ""
        if id_in(object_in(role, "tags"), "bot_id") == me:
            self.own_roles |= {id_}

    def _note_all(self, channels: Iterable[Payload], guild: str) -> None:
        for channel in channels:
            if id_in(channel, "id") is not None:
                self.note({**channel, "guild_id": guild})

    def _forget(self, channel: str) -> None:
        guild = self.guild_of(channel)
        self._channels.pop(channel, None)
        if guild is not None:
            self._guild(guild).channels.pop(channel, None)

    def _guild(self, id_: str) -> _Guild:
        return self._guilds.setdefault(id_, _Guild(payload={"id": id_}))


def direct(channel: str) -> Channel:
    """Build a direct chat."""
    return Channel(channel=channel, kind=DM)
