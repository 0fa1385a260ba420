"""Discord: its gateway and its REST API through discord.py."""

from turngate.adapters.discord.account import (
    API,
    CDN,
    Account,
    Timeouts,
)
from turngate.adapters.discord.adapter import DiscordAdapter, connect
from turngate.adapters.discord.check import examine

__all__ = [
    "API",
    "CDN",
    "Account",
    "DiscordAdapter",
    "Timeouts",
    "connect",
    "examine",
]
