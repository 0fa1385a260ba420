"""Telegram: the Bot API through aiogram, by polling or by webhook."""
