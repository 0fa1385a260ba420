"""Channels, threads and servers, and Discord's numbers for their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turngate.adapters.discord.json_fields import (
    Payload,
    id_in,
    needed_id,
    number_in,
    object_in,
    text_in,
)

TEXT = 0
DM = 1
VOICE = 2
GROUP_DM = 3
ANNOUNCEMENT = 5
PUBLIC_THREAD = 11
STAGE = 13
FORUM = 15
MEDIA = 16
# An interaction in a chat that is not with the bot alone.
_PRIVATE_CHANNEL = 2
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
        """Whether nobody else reads along."""
        return self.guild is None and self.kind != GROUP_DM

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
    kind = number_in(channel, "type") or TEXT

    return Channel(
        channel=needed_id(channel, "id"),
        kind=kind,
        name=text_in(channel, "name"),
        topic=text_in(channel, "topic"),
        guild=id_in(channel, "guild_id") or id_in(guild or {}, "id"),
        guild_name=text_in(guild or {}, "name"),
        # The parent of any other channel is a category, which has no messages.
        parent=id_in(channel, "parent_id") if kind in _THREADS else None,
        parent_name=text_in(parent or {}, "name") if kind in _THREADS else None,
    )


def is_among_others(payload: Payload) -> bool:
    """
    Check whether an event outside of servers comes from a chat where others read along: a group, or
    a chat of two users who use the bot's commands there.
    """
    kinds = number_in(object_in(payload, "channel"), "type"), number_in(payload, "channel_type")
    return number_in(payload, "context") == _PRIVATE_CHANNEL or GROUP_DM in kinds
