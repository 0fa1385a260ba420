"""Telegram: the Bot API through aiogram, by polling or by webhook."""

from adapters.telegram.account import CLOUD, Account, MenuEntry, Patience, Webhook
from adapters.telegram.adapter import TelegramAdapter, connect
from adapters.telegram.checking import Finding, examine

__all__ = ["CLOUD", "Account", "Finding", "MenuEntry", "Patience", "TelegramAdapter", "Webhook", "connect", "examine"]
