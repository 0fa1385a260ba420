"""Discord: its gateway and its REST API through discord.py."""

from adapters.discord.account import API, CDN, Account, MenuEntry, Patience
from adapters.discord.adapter import DiscordAdapter, connect
from adapters.discord.checking import Finding, examine

__all__ = [
    "API",
    "CDN",
    "Account",
    "DiscordAdapter",
    "Finding",
    "MenuEntry",
    "Patience",
    "connect",
    "examine",
]
