"""
Stop bots that answer each other: after a few answers in a row the gateway stays silent until a
person writes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from turngate.gateway.domain.messages import (
    ChatKey,
    SessionSource,
)

MOST_IN_A_ROW = 3
FORGOTTEN_AFTER = 3600.0  # seconds without a message
MOST_CHATS = 1000
"""Past it the chat that was quiet for the longest time is forgotten, and counts anew."""


@dataclass(frozen=True, slots=True)
class _Row:
    length: int
    last: float


class BotLoopGuard:
    """Counts consecutive bot messages per chat. A pause or a person's message resets it."""

    def __init__(self) -> None:
        self._rows: OrderedDict[ChatKey, _Row] = OrderedDict()

    def bot_spoke(self, source: SessionSource, now: float) -> bool:
        """Count a bot's message; True if it must not be answered."""
        chat = source.chat_key
        row = self._rows.get(chat)
        is_new = row is None or now - row.last >= FORGOTTEN_AFTER
        length = 1 if row is None or is_new else row.length + 1
        # Also when it is not answered: bots that go on without us do not get a new count.
        self._rows[chat] = _Row(min(length, MOST_IN_A_ROW + 1), now)
        self._rows.move_to_end(chat)
        while len(self._rows) > MOST_CHATS:
            self._rows.popitem(last=False)
        return length > MOST_IN_A_ROW

    def person_spoke(self, source: SessionSource) -> None:
        """Reset the count of a chat."""
        self._rows.pop(source.chat_key, None)
