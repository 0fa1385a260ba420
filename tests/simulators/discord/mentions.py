"""
Who is called by a message: what people write always calls, what bots write only as far as they
allow it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulators.discord import permissions
from tests.simulators.discord.rules import ALLOWED_MENTIONS, invalid, snowflake
from tests.simulators.discord.world import Channel, Message, Payload, World

_USER, _ROLE, _EVERYONE = (
    re.compile(r"<@!?(\d+)>"),
    re.compile(r"<@&(\d+)>"),
    re.compile(r"@(everyone|here)\b"),
)
_KINDS = {"users", "roles", "everyone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What may call: all of a kind, or only some. People may everything."""

    kinds: frozenset[str] = frozenset(_KINDS)
    users: frozenset[int] = field(default_factory=frozenset)
    roles: frozenset[int] = field(default_factory=frozenset)
    replied_user: bool = True


def allowed(asked: Payload | None) -> Allowed:
    """
    Raises Refused for what contradicts itself. Without any everything calls, as Discord has it.
    """
    if asked is None:
        return Allowed()
    kinds = asked.get("parse", [])
    strange = sorted({*kinds} - _KINDS | {*asked} - {"parse", "users", "roles", "replied_user"})
    if strange:
        raise invalid("allowed_mentions", f"there is no {', '.join(strange)}", ALLOWED_MENTIONS)
    for kind in ("users", "roles"):
        if kind in kinds and asked.get(kind):
            raise invalid(
                "allowed_mentions", f"{kind} are all parsed and listed too", ALLOWED_MENTIONS
            )
        if len(asked.get(kind, [])) > 100:
            raise invalid("allowed_mentions", f"more than 100 {kind}", ALLOWED_MENTIONS)
    return Allowed(
        kinds=frozenset(kinds),
        users=frozenset(snowflake(id_, "allowed_mentions.users") for id_ in asked.get("users", [])),
        roles=frozenset(snowflake(id_, "allowed_mentions.roles") for id_ in asked.get("roles", [])),
        replied_user=bool(asked.get("replied_user", False)),
    )


def call(world: World, said: Message, may: Allowed, *, replied_to: int | None = None) -> None:
    """Write into a message whom it calls."""
    words, place = said.content, said.channel
    users = [id_ for id_ in _ids(_USER, words) if "users" in may.kinds or id_ in may.users]
    if replied_to is not None and may.replied_user:
        users.append(replied_to)
    said.mentions = list(dict.fromkeys(id_ for id_ in users if id_ in world.people))
    roles = [id_ for id_ in _ids(_ROLE, words) if "roles" in may.kinds or id_ in may.roles]
    said.mention_roles = list(
        dict.fromkeys(id_ for id_ in roles if place.guild and id_ in place.guild.roles)
    )
    everyone = (
        _EVERYONE.search(words) is not None
        and "everyone" in may.kinds
        and _may_call_all(world, said, place)
    )
    said.mention_everyone = everyone


def _ids(pattern: re.Pattern[str], words: str) -> Iterable[int]:
    return (int(id_) for id_ in pattern.findall(words))


def _may_call_all(world: World, said: Message, place: Channel) -> bool:
    return place.guild is not None and permissions.has(
        world.allowed(said.author.id, place), "mention_everyone"
    )
