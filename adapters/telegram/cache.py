"""What a bot keeps in memory while it runs."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from turngate.gateway.domain.errors import Undeliverable
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    SessionSource,
)

Value = TypeVar("Value")

_MOST_ENTRIES = 10_000
# Whoever asked longer ago may have left, and ephemeral messages reach only those who are there.
_STILL_THERE = timedelta(minutes=1)
_EPHEMERAL = re.compile(r"ephemeral-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ephemeral:
    """A message in a group that only one user and the bot can see. Its numbers are of its own."""

    user: int
    number: int

    @classmethod
    def of(cls, message_id: str) -> Ephemeral | None:
        """Read an id; None if it is that of an ordinary message."""
        found = _EPHEMERAL.fullmatch(message_id)
        return None if found is None else cls(user=int(found[1]), number=int(found[2]))

    @property
    def id(self) -> str:
        """The id for the gateway, which needs one."""
        return f"ephemeral-{self.user}-{self.number}"


class Cache:
    """
    Recent messages, names of users, and new ids of moved groups. Lost with the process, which costs
    a quotation or a name.
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[str, str] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._moved: OrderedDict[str, int] = OrderedDict()
        self._askers: OrderedDict[str, tuple[str, datetime]] = OrderedDict()

    def note_message(self, message: InboundMessage) -> None:
        source = message.source
        _note(self._names, source.user_id, source.user_name)
        if message.kind in (MessageKind.NEW, MessageKind.COMMAND):
            _note(self._newest, source.chat_id, message.id)
        if message.kind is MessageKind.COMMAND and source.chat_type is ChatType.GROUP:
            asker = (source.user_id, message.sent_at) if source.user_id else None
            _note(self._askers, f"{source.chat_id}:{message.id}", asker)

    def name_of(self, person: str) -> str | None:
        """Return the name of a user."""
        return self._names.get(person)

    def asker(self, target: SessionSource, message_id: str, now: datetime) -> int | None:
        """Return the user who gave a command in a group just now."""
        user, at = self._askers.get(f"{target.chat_id}:{message_id}", ("", now))
        # Anonymous admins and channels have a chat's id, to which nothing can be shown alone.
        return int(user) if user.isdecimal() and now - at <= _STILL_THERE else None

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
