"""Telegram: the Bot API through aiogram, by polling or by webhook."""

from adapters.telegram.account import CLOUD, Account, Patience, Webhook
from adapters.telegram.adapter import TelegramAdapter, connect
from adapters.telegram.checking import examine

__all__ = ["CLOUD", "Account", "Patience", "TelegramAdapter", "Webhook", "connect", "examine"]
