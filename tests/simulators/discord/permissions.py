"""Who may do what where, by Discord's own algorithm, from roles and overwrites."""

from __future__ import annotations

from collections.abc import Iterable

BITS = {
    "create_instant_invite": 0,
    "administrator": 3,
    "manage_channels": 4,
    "add_reactions": 6,
    "view_channel": 10,
    "send_messages": 11,
    "manage_messages": 13,
    "embed_links": 14,
    "attach_files": 15,
    "read_message_history": 16,
    "mention_everyone": 17,
    "use_external_emojis": 18,
    "manage_roles": 28,
    "manage_webhooks": 29,
    "use_application_commands": 31,
    "manage_threads": 34,
    "create_public_threads": 35,
    "create_private_threads": 36,
    "use_external_stickers": 37,
    "send_messages_in_threads": 38,
}
"""https://docs.discord.com/developers/topics/permissions#permissions-bitwise-permission-flags"""

USUAL = tuple(name for name in BITS if not name.startswith(("manage_", "administrator")))
EVERYTHING = sum(1 << bit for bit in BITS.values())


def bits(names: Iterable[object]) -> int:
    """As one number. Raises ValueError for a name that there is not."""
    wanted = [str(name) for name in names]
    strange = sorted(set(wanted) - set(BITS))
    if strange:
        raise ValueError(
            f"there is no permission {', '.join(strange)}; there are {', '.join(BITS)}"
        )
    return sum(1 << BITS[name] for name in wanted)


def has(permissions: int, name: str) -> bool:
    """Whether that is among them."""
    return bool(permissions >> BITS[name] & 1)
