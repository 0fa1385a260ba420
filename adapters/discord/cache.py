"""What a bot keeps in memory while it runs. Losing it costs only a lookup or a request."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Value = TypeVar("Value")

_MOST_ENTRIES = 10_000


class Cache:
    """Recently received and sent messages, bounded."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._written: OrderedDict[str, int] = OrderedDict()
        self._tried: OrderedDict[str, bool] = OrderedDict()
        self._sent: OrderedDict[str, str] = OrderedDict()
        self._channels: OrderedDict[str, str] = OrderedDict()
        self._direct: OrderedDict[str, str] = OrderedDict()

    def note_received(self, channel: str, message: int) -> None:
        """Note a message that the gateway delivered."""
        _note(self._newest, channel, max(message, self._newest.get(channel, 0)))

    def note_written(self, channel: str, message: int) -> None:
        """Note a message of somebody else."""
        _note(self._written, channel, max(message, self._written.get(channel, 0)))

    def written_in(self, channel: str) -> int:
        """Return the id of the last message of somebody else there; 0 if there was none."""
        return self._written.get(channel, 0)

    def recent_channels(self, most: int) -> list[str]:
        """Return the channels with the most recent messages."""
        return [channel for channel, _ in zip(reversed(self._newest), range(most), strict=False)]

    def newest_in(self, channel: str) -> int:
        """Return the id of the last message received there; 0 if none was."""
        return self._newest.get(channel, 0)

    def tried(self, nonce: str) -> None:
        """Note that a send with this nonce was attempted."""
        _note(self._tried, nonce, True)

    def was_tried(self, nonce: str) -> bool:
        """Check whether this process attempted it."""
        return nonce in self._tried

    def sent(self, message: str, channel: str | None, nonce: str | None) -> None:
        """
        Note a sent message. Its channel may differ from the requested one: a forum post is in its
        own thread.
        """
        if channel is not None:
            _note(self._channels, message, str(channel))
        _note(self._sent, message, nonce or "")

    def is_another(self, message: str, nonce: str) -> bool:
        """Check whether a message is known to carry another nonce."""
        return self._sent.get(message, nonce) != nonce

    def channel_of(self, message: str) -> str | None:
        """Return the channel of a message that the bot sent."""
        return self._channels.get(message)

    def opened(self, person: str, channel: str) -> None:
        """Note the direct chat with a user."""
        _note(self._direct, person, channel)

    def direct_with(self, person: str) -> str | None:
        """Return the direct chat with a user, if it was opened."""
        return self._direct.get(person)


def _note(notes: OrderedDict[str, Value], key: str, value: Value) -> None:
    notes[key] = value
    notes.move_to_end(key)
    if len(notes) > _MOST_ENTRIES:
        notes.popitem(last=False)
