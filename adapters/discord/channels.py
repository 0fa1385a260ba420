"""Channels, threads and servers, and Discord's numbers for their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Payload = Mapping[str, Any]
"""
An object of Discord's API, as JSON. Not an object of the library: history is read through REST,
what happens comes through the gateway, and both have to mean the same; and a golden file is then
just what Discord sends.
"""

TEXT = 0
DM = 1
VOICE = 2
GROUP_DM = 3
ANNOUNCEMENT = 5
PUBLIC_THREAD = 11
STAGE = 13
FORUM = 15
MEDIA = 16
_THREADS = (10, PUBLIC_THREAD, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """
    A channel, a direct chat or a thread. `kind` is Discord's type number; a thread has a parent.
    """

    channel: str
    kind: int
    name: str | None = None
    topic: str | None = None
    guild: str | None = None
    guild_name: str | None = None
    parent: str | None = None
    parent_name: str | None = None

    @property
    def is_dm(self) -> bool:
        return self.guild is None

    @property
    def is_thread(self) -> bool:
        """Whether it is a thread or a forum post."""
        return self.kind in _THREADS

    @property
    def can_have_threads(self) -> bool:
        """Whether a thread can be created from a message there."""
        return self.kind in (TEXT, ANNOUNCEMENT)

    @property
    def takes_only_posts(self) -> bool:
        """Whether it is a forum, where every message starts a thread."""
        return self.kind in (FORUM, MEDIA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """
    Names of the channels and roles of one server, by id. Unknown ones stay as Discord writes them.

    One server only: channel names of other servers must not leak.
    """

    channels: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)


def channel_from(
    channel: Payload, *, guild: Payload | None = None, parent: Payload | None = None
) -> Channel:
    """
    Build a Channel from Discord's JSON. Without `guild` and `parent` only their names are missing.
    """
    server = channel.get("guild_id") or (guild or {}).get("id")
    kind = int(channel.get("type") or TEXT)
    parent_id = channel.get("parent_id") if kind in _THREADS else None

    return Channel(
        channel=str(channel["id"]),
        kind=kind,
        name=channel.get("name"),
        topic=channel.get("topic"),
        guild=None if server is None else str(server),
        guild_name=(guild or {}).get("name"),
        # The parent of any other channel is a category, which has no messages.
        parent=None if parent_id is None else str(parent_id),
        parent_name=(parent or {}).get("name") if kind in _THREADS else None,
    )
