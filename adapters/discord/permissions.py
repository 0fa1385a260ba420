"""The permissions that the bot needs, those it has in a channel, and its invitation link. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from turngate.adapters.discord.json_fields import Payload

_ADMINISTRATOR = 1 << 3
_VIEW = 1 << 10
_EVERYTHING = (1 << 53) - 1
_NEEDED = {
    "View Channel": _VIEW,
    "Send Messages": 1 << 11,
    "Send Messages in Threads": 1 << 38,
    "Read Message History": 1 << 16,
    "Attach Files": 1 << 15,
    "Embed Links": 1 << 14,
    "Add Reactions": 1 << 6,
}
_FOR_THREADS = {"Create Public Threads": 1 << 35}
"""
By the names that Discord's own settings have for them.
https://docs.discord.com/developers/topics/permissions#permissions-bitwise-permission-flags
"""

_ROLE = 0
_MEMBER = 1


def needed(*, threads: bool) -> dict[str, int]:
    """Return the needed permissions; `threads` if it creates threads."""
    return {**_NEEDED, **(_FOR_THREADS if threads else {})}


def lacking(allowed: int, *, threads: bool) -> list[str]:
    """Return the names of missing permissions, as in Discord's settings."""
    return [name for name, bit in needed(threads=threads).items() if not allowed & bit]


def allowed_in(channel: Payload, guild: Payload, member: Payload, user: str) -> int:
    """
    Compute a member's permissions in a channel by Discord's rules: roles, then the channel's
    overwrites.
    """
    mine = {str(guild["id"]), *map(str, member.get("roles") or ())}
    allowed = _either(
        int(role["permissions"]) for role in guild["roles"] if str(role["id"]) in mine
    )
    if str(guild.get("owner_id")) == user or allowed & _ADMINISTRATOR:
        return _EVERYTHING

    overwrites: Sequence[Payload] = channel.get("permission_overwrites") or ()
    everyone = [each for each in overwrites if str(each["id"]) == str(guild["id"])]
    roles = [
        each
        for each in overwrites
        if int(each["type"]) == _ROLE and str(each["id"]) in mine - {str(guild["id"])}
    ]
    person = [
        each for each in overwrites if int(each["type"]) == _MEMBER and str(each["id"]) == user
    ]

    # Later overwrites win: @everyone, then roles, then the member.
    for group in (everyone, roles, person):
        allowed &= ~_either(int(each["deny"]) for each in group)
        allowed |= _either(int(each["allow"]) for each in group)

    return allowed if allowed & _VIEW else 0


def invitation(application: str, *, threads: bool) -> str:
    """Build the link that adds the bot to a server with its commands and permissions."""
    wanted = _either(needed(threads=threads).values())
    asked = {
        "client_id": application,
        "scope": "bot applications.commands",
        "permissions": str(wanted),
    }
    return f"https://discord.com/oauth2/authorize?{urlencode(asked)}"


def _either(bits: Iterable[int]) -> int:
    total = 0
    for bit in bits:
        total |= bit
    return total
