"""Telegram: the Bot API through aiogram, by polling or by webhook."""

from turngate.adapters.telegram.late_types import import_aiogram

import_aiogram()

from turngate.adapters.telegram.account import (  # noqa: E402 - only now may it be imported
    CLOUD,
    Account,
    Timeouts,
    Webhook,
)
from turngate.adapters.telegram.adapter import TelegramAdapter, connect  # noqa: E402
from turngate.adapters.telegram.check import examine  # noqa: E402

__all__ = ["CLOUD", "Account", "TelegramAdapter", "Timeouts", "Webhook", "connect", "examine"]
