"""What was said in a chat to others than the bot: the last remarks, in memory alone, for that chat's next turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from turngate.gateway.domain.messages import InboundMessage, SessionSource
from turngate.gateway.domain.text import cut

LONGEST_REMARK = 500
MOST_CHARACTERS = 8000
MOST_PLACES = 1000
"""Past it the place that was quiet for the longest time is forgotten."""

_Place = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundMessage:
    """Somebody's words to others. Nobody has verified them, and they ask nothing of the bot."""

    source: SessionSource
    text: str


@dataclass(slots=True)
class BackgroundMessages:
    """At most so many remarks for each place: a chat, or a thread in it. With zero nothing is kept."""

    most: Callable[[], int]
    _places: OrderedDict[_Place, deque[BackgroundMessage]] = field(default_factory=OrderedDict)

    def add(self, message: InboundMessage) -> None:
        """Keep its beginning; what is oldest goes."""
        most = self.most()
        if most < 1 or not message.text.strip():
            return
        remarks = self._places.setdefault(_place(message), deque())
        remarks.append(
            BackgroundMessage(source=message.source, text=cut(message.text, LONGEST_REMARK))
        )
        while len(remarks) > most or sum(len(remark.text) for remark in remarks) > MOST_CHARACTERS:
            remarks.popleft()
        self._places.move_to_end(_place(message))
        while len(self._places) > MOST_PLACES:
            self._places.popitem(last=False)

    def take(self, message: InboundMessage) -> tuple[BackgroundMessage, ...]:
        """What was said where this message was written, oldest first. It is told once."""
        return tuple(self._places.pop(_place(message), ()))


def _place(message: InboundMessage) -> _Place:
    """A message that begins a thread is said in the chat itself, though some platforms give it the thread's id."""
    source = message.source
    thread = None if source.thread_id == message.id else source.thread_id
    return source.platform, source.account, source.chat_id, thread
