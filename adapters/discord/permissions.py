"""What the bot must be allowed to do, what it may do in a channel, and the link by which it is invited. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from turngate.adapters.discord.channels import Payload

_ADMINISTRATOR, _VIEW = 1 << 3, 1 << 10
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

_ROLE, _MEMBER = 0, 1


def needed(*, threads: bool) -> dict[str, int]:
    """What the bot needs; `threads` if it is to begin some."""
    return {**_NEEDED, **(_FOR_THREADS if threads else {})}


def lacking(allowed: int, *, threads: bool) -> list[str]:
    """What of that is not allowed, by the names that an admin finds in the settings."""
    return [name for name, bit in needed(threads=threads).items() if not allowed & bit]


def allowed_in(channel: Payload, guild: Payload, member: Payload, user: str) -> int:
    """What somebody may do in a channel, by Discord's rules: roles first, and then what is said of the channel."""
    mine = {str(guild["id"]), *map(str, member.get("roles") or ())}
    allowed = _either(
        int(role["permissions"]) for role in guild["roles"] if str(role["id"]) in mine
    )
    if str(guild.get("owner_id")) == user or allowed & _ADMINISTRATOR:
        return _EVERYTHING
    overwrites: Sequence[Payload] = channel.get("permission_overwrites") or ()
    everybody = [each for each in overwrites if str(each["id"]) == str(guild["id"])]
    roles = [
        each
        for each in overwrites
        if int(each["type"]) == _ROLE and str(each["id"]) in mine - {str(guild["id"])}
    ]
    person = [
        each for each in overwrites if int(each["type"]) == _MEMBER and str(each["id"]) == user
    ]
    for said in (everybody, roles, person):
        allowed &= ~_either(int(each["deny"]) for each in said)
        allowed |= _either(int(each["allow"]) for each in said)
    return allowed if allowed & _VIEW else 0


def invitation(application: str, *, threads: bool) -> str:
    """The page on which somebody lets the bot into a server, with its commands and all that it needs."""
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
