"""What is known of the places where people write, and what Discord calls things there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Payload = Mapping[str, Any]
"""
An object of Discord's API, as JSON. Not an object of the library: history is read through REST, what happens comes
through the gateway, and both have to mean the same; and a golden file is then just what Discord sends.
"""

TEXT, DM, VOICE, ANNOUNCEMENT, PUBLIC_THREAD, FORUM, MEDIA = 0, 1, 2, 5, 11, 15, 16
_THREADS = (10, PUBLIC_THREAD, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A channel, a direct chat or a thread. `kind` is Discord's number for it; a thread has a parent."""

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
        """Between one person and the bot."""
        return self.guild is None

    @property
    def is_thread(self) -> bool:
        """A thread, or a post of a forum."""
        return self.kind in _THREADS

    @property
    def can_have_threads(self) -> bool:
        """Whether a thread can be made from a message there."""
        return self.kind in (TEXT, ANNOUNCEMENT)

    @property
    def takes_only_posts(self) -> bool:
        """A forum, where every message begins a thread of its own."""
        return self.kind in (FORUM, MEDIA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """
    What the channels and roles of one server are called, by id. Whatever is not here stays as Discord writes it.

    Of one server only: nobody is to learn here what the channels of another are called.
    """

    channels: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)


def place_of(
    channel: Payload, *, guild: Payload | None = None, parent: Payload | None = None
) -> Place:
    """Of a channel as Discord shows it; without the other two their names are missing, and nothing else."""
    server = channel.get("guild_id") or (guild or {}).get("id")
    kind = int(channel.get("type") or TEXT)
    parent_id = channel.get("parent_id") if kind in _THREADS else None
    return Place(
        channel=str(channel["id"]),
        kind=kind,
        name=channel.get("name"),
        topic=channel.get("topic"),
        guild=None if server is None else str(server),
        guild_name=(guild or {}).get("name"),
        # The parent of any other channel is a category, which is no place to write.
        parent=None if parent_id is None else str(parent_id),
        parent_name=(parent or {}).get("name") if kind in _THREADS else None,
    )
