"""
Telegram's Bot API over HTTP, for bots in any language.
"""

from __future__ import annotations

from tests.simulators.telegram.platform import Telegram
from tests.simulators.telegram.server import TOKENS

__all__ = ["TOKENS", "Telegram"]
