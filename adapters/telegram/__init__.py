"""Telegram: the Bot API through aiogram, by polling or by webhook."""

from adapters.telegram.late_types import import_aiogram

import_aiogram()

from adapters.telegram.account import CLOUD, Account, Patience, Webhook  # noqa: E402 - only now may it be imported
from adapters.telegram.adapter import TelegramAdapter, connect  # noqa: E402
from adapters.telegram.check import examine  # noqa: E402

__all__ = ["CLOUD", "Account", "Patience", "TelegramAdapter", "Webhook", "connect", "examine"]
