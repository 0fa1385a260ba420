"""What a bot keeps in memory while it runs."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.messages import (
    InboundMessage,
    MessageKind,
    SessionSource,
)

Value = TypeVar("Value")

_MOST_ENTRIES = 10_000


class Cache:
    """
    Recent messages, names of users, and new ids of moved groups. Lost with the process, which costs
    a quotation or a name.
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[str, str] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._moved: OrderedDict[str, int] = OrderedDict()

    def note_message(self, message: InboundMessage) -> None:
        source = message.source
        _note(self._names, source.user_id, source.user_name)
        if message.kind in (MessageKind.NEW, MessageKind.COMMAND):
            _note(self._newest, source.chat_id, message.id)

    def name_of(self, person: str) -> str | None:
        """Return the name of a user."""
        return self._names.get(person)

    def is_newest(self, target: SessionSource, message_id: str) -> bool:
        """Check that no later message was received in the chat."""
        return self._newest.get(target.chat_id or "") == message_id

    def moved(self, chat: int | str, to: int) -> None:
        """Note the new id of a group."""
        _note(self._moved, str(chat), to)

    def chat(self, target: SessionSource) -> int | str:
        """Return the chat id to send to."""
        return self._moved.get(target.chat_id or "") or _id(target.chat_id)


def _id(chat: str | None) -> int | str:
    """Return a numeric id as a number; a public channel name stays text."""
    if not chat:
        raise Undeliverable("there is no chat to write to")
    return int(chat) if chat.removeprefix("-").isdecimal() else chat


def _note(notes: OrderedDict[str, Value], key: str | None, value: Value | None) -> None:
    """Set the key as the newest and drop the oldest beyond the limit."""
    if key is None or value is None:
        return
    notes[key] = value
    notes.move_to_end(key)
    if len(notes) > _MOST_ENTRIES:
        notes.popitem(last=False)
