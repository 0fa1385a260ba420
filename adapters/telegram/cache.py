"""What a bot remembers while it runs, so that it answers as a person would."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.messages import InboundMessage, MessageKind, SessionSource

Value = TypeVar("Value")

_MOST_REMEMBERED = 10_000


class Memory:
    """What was heard lately, and where groups went. Forgotten with the process, which costs a quotation or a name."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, str] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._moved: OrderedDict[str, int] = OrderedDict()

    def heard(self, message: InboundMessage) -> None:
        """Somebody did this there."""
        source = message.source
        _note(self._names, source.user_id, source.user_name)
        if message.kind in (MessageKind.NEW, MessageKind.COMMAND):
            _note(self._newest, source.chat_id, message.id)

    def name_of(self, person: str) -> str | None:
        """What he is called."""
        return self._names.get(person)

    def is_newest(self, target: SessionSource, message_id: str) -> bool:
        """Whether nothing was said there after it."""
        return self._newest.get(target.chat_id or "") == message_id

    def moved(self, chat: int | str, to: int) -> None:
        """The group is there now."""
        _note(self._moved, str(chat), to)

    def chat(self, target: SessionSource) -> int | str:
        """Where to write."""
        return self._moved.get(target.chat_id or "") or _id(target.chat_id)


def _id(chat: str | None) -> int | str:
    """A number, or the public name of a channel."""
    if not chat:
        raise Undeliverable("there is no chat to write to")
    return int(chat) if chat.removeprefix("-").isdecimal() else chat


def _note(notes: OrderedDict[str, Value], key: str | None, value: Value | None) -> None:
    """The last so many."""
    if key is None or value is None:
        return
    notes[key] = value
    notes.move_to_end(key)
    if len(notes) > _MOST_REMEMBERED:
        notes.popitem(last=False)
