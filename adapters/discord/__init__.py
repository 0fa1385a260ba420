"""Discord: its gateway and its REST API through discord.py."""

from adapters.discord.account import API, CDN, Account, Patience
from adapters.discord.adapter import DiscordAdapter, connect
from adapters.discord.check import examine

__all__ = [
    "API",
    "CDN",
    "Account",
    "DiscordAdapter",
    "Patience",
    "connect",
    "examine",
]
