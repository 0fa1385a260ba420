"""Two bots facing each other: after a few answers in a row the gateway falls silent, until a person speaks."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from turngate.gateway.domain.messages import SessionSource

MOST_IN_A_ROW = 3
FORGOTTEN_AFTER = 3600.0
MOST_CHATS = 1000
"""Past it the chat that was quiet for the longest time is forgotten, and counts anew."""

_Chat = tuple[str, str, str | None]


@dataclass(frozen=True, slots=True)
class _Row:
    length: int
    last: float


class BotLoopGuard:
    """Counts what bots say in each chat without a person in between. A row ends by itself when the bots pause."""

    def __init__(self) -> None:
        self._rows: OrderedDict[_Chat, _Row] = OrderedDict()

    def bot_spoke(self, source: SessionSource, now: float) -> bool:
        """Count it; True if it is one too many to be answered. Bots that go on all the same stay unanswered."""
        chat = _chat(source)
        row = self._rows.get(chat)
        is_new = row is None or now - row.last >= FORGOTTEN_AFTER
        length = 1 if row is None or is_new else row.length + 1
        self._rows[chat] = _Row(min(length, MOST_IN_A_ROW + 1), now)
        self._rows.move_to_end(chat)
        while len(self._rows) > MOST_CHATS:
            self._rows.popitem(last=False)
        return length > MOST_IN_A_ROW

    def person_spoke(self, source: SessionSource) -> None:
        """Whatever bots said before, they are not alone."""
        self._rows.pop(_chat(source), None)


def _chat(source: SessionSource) -> _Chat:
    return source.platform, source.account, source.chat_id
