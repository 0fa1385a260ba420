"""
Recent group messages that were not addressed to the bot, kept in memory as context for the next
turn there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from turngate.gateway.domain.messages import (
    LONGEST_BACKGROUND_MESSAGE,
    BackgroundMessage,
    InboundMessage,
    ThreadKey,
)
from turngate.gateway.domain.text import cut

MOST_CHARACTERS = 8000
MOST_CHATS = 1000
"""Past it the place that was quiet for the longest time is forgotten."""


@dataclass(slots=True)
class BackgroundMessages:
    """At most `most()` messages per chat or thread. Zero keeps nothing."""

    most: Callable[[], int]
    _chats: OrderedDict[ThreadKey, deque[BackgroundMessage]] = field(default_factory=OrderedDict)

    def add(self, message: InboundMessage) -> None:
        """Keep the beginning of a message and drop the oldest."""
        most = self.most()
        if most < 1 or not message.text.strip():
            return

        remarks = self._chats.setdefault(_chat_key(message), deque())
        remarks.append(
            BackgroundMessage(
                source=message.source, text=cut(message.text, LONGEST_BACKGROUND_MESSAGE)
            )
        )
        # Two bounds: the number of messages, and their text together.
        while len(remarks) > most or sum(len(remark.text) for remark in remarks) > MOST_CHARACTERS:
            remarks.popleft()

        # The order is the order of use: the chat that was quiet for longest is dropped first.
        self._chats.move_to_end(_chat_key(message))
        while len(self._chats) > MOST_CHATS:
            self._chats.popitem(last=False)

    def take(self, message: InboundMessage) -> tuple[BackgroundMessage, ...]:
        """Remove and return the messages of a chat, oldest first: the agent sees each once."""
        return tuple(self._chats.pop(_chat_key(message), ()))


def _chat_key(message: InboundMessage) -> ThreadKey:
    """Return the chat or thread of a message."""
    source = message.source
    # A message that starts a thread belongs to the chat, though it may have the thread's id.
    thread = None if source.thread_id == message.id else source.thread_id
    return (*source.chat_key, thread)
