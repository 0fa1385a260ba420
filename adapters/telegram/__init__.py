"""Telegram: the Bot API through aiogram, by polling or by webhook."""

from turngate.adapters.telegram.late_types import import_aiogram

import_aiogram()

from turngate.adapters.telegram.account import CLOUD, Account, Patience, Webhook  # noqa: E402 - only now may it be imported
from turngate.adapters.telegram.adapter import TelegramAdapter, connect  # noqa: E402
from turngate.adapters.telegram.check import examine  # noqa: E402

__all__ = ["CLOUD", "Account", "Patience", "TelegramAdapter", "Webhook", "connect", "examine"]
