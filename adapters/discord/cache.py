"""What a bot remembers while it runs. It is forgotten with the process, which costs nothing but a look or a request."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Value = TypeVar("Value")

_MOST_REMEMBERED = 10_000


class Memory:
    """What was heard and what was sent, the last so many of each."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._tried: OrderedDict[str, bool] = OrderedDict()
        self._sent: OrderedDict[str, str] = OrderedDict()
        self._channels: OrderedDict[str, str] = OrderedDict()
        self._direct: OrderedDict[str, str] = OrderedDict()

    def heard(self, channel: str, message: int) -> None:
        """The gateway told of this message."""
        _note(self._newest, channel, max(message, self._newest.get(channel, 0)))

    def lately(self, most: int) -> list[str]:
        """The channels in which something was said last."""
        return [channel for channel, _ in zip(reversed(self._newest), range(most), strict=False)]

    def newest_in(self, channel: str) -> int:
        """The last message there that the gateway told of; 0 if it told of none."""
        return self._newest.get(channel, 0)

    def tried(self, nonce: str) -> None:
        """From now on this may have arrived."""
        _note(self._tried, nonce, True)

    def was_tried(self, nonce: str) -> bool:
        """Whether it was us who tried."""
        return nonce in self._tried

    def sent(self, message: str, channel: str | None, nonce: str | None) -> None:
        """Discord took it, and mostly says where it stands now: the first of a thread stands elsewhere than asked."""
        if channel is not None:
            _note(self._channels, message, str(channel))
        _note(self._sent, message, nonce or "")

    def is_another(self, message: str, nonce: str) -> bool:
        """Whether a message is known to be something else than what goes by this nonce."""
        return self._sent.get(message, nonce) != nonce

    def channel_of(self, message: str) -> str | None:
        """Where a message of ours stands."""
        return self._channels.get(message)

    def opened(self, person: str, channel: str) -> None:
        """The direct chat with somebody."""
        _note(self._direct, person, channel)

    def direct_with(self, person: str) -> str | None:
        """The direct chat with him, if it was opened."""
        return self._direct.get(person)


def _note(notes: OrderedDict[str, Value], key: str, value: Value) -> None:
    notes[key] = value
    notes.move_to_end(key)
    if len(notes) > _MOST_REMEMBERED:
        notes.popitem(last=False)
