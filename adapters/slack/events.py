"""
Conversion of events with what has to be looked up for them.

An event that cannot be converted is set aside as it came: the gateway keeps it, and converts it
again when an operator asks for that, for example after an upgrade.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from typing import TypeVar

from turngate.adapters.slack.directory import Directory
from turngate.adapters.slack.identity import BotIdentity
from turngate.adapters.slack.json_fields import Json, dict_in, text_in
from turngate.adapters.slack.lookup_keys import LookupKeys, keys_of, keys_of_message
from turngate.adapters.slack.normalise import from_history, moment, normalise
from turngate.adapters.slack.sources import PLATFORM
from turngate.gateway.domain.messages import (
    ChatType,
    InboundMessage,
    MessageKind,
    SessionSource,
)
from turngate.gateway.domain.ports.clock import Clock

Value = TypeVar("Value")

_TIMESTAMP = re.compile(r"[0-9]{1,11}\.[0-9]{6}")
# In the raw form of a message of a history, beside the message.
_HISTORY_OF = "history_of"

_log = logging.getLogger(__name__)


class Unreadable(ValueError):
    """The event is not what events of Slack are."""


class Events:
    """Converts the events of one bot."""

    def __init__(self, me: BotIdentity, directory: Directory, clock: Clock) -> None:
        self._me = me
        self._directory = directory
        self._clock = clock

    def keys(self, body: Json) -> LookupKeys | None:
        """Return what the event is about; None if it concerns no chat. Raises Unreadable."""
        return _read(lambda: keys_of(body))

    async def message(self, body: Json, keys: LookupKeys) -> InboundMessage | None:
        """
        Return the message; None if the event is not for the gateway.

        Raises Unreadable, and the error of a lookup that has to succeed.
        """
        known = await self._directory.known(keys, self._me)
        return _read(lambda: normalise(body, self._me, known, self._clock.now()))

    async def of_history(self, message: Json, chat: str) -> InboundMessage | None:
        """Convert a message of a history, or set it aside."""
        try:
            keys = _read(lambda: keys_of_message(message, chat))
            if keys is None:
                return None
            known = await self._directory.known(keys, self._me)
            return _read(lambda: from_history(message, chat, self._me, known))
        except Unreadable:
            return self.set_aside({_HISTORY_OF: chat, "message": message})

    async def read_again(self, raw: str) -> InboundMessage | None:
        """
        Convert what was set aside. None if there is nothing in it for the gateway.

        Raises ValueError if it is still unreadable.
        """
        body = json.loads(raw)
        if not isinstance(body, dict):
            raise Unreadable("the event is no JSON object")

        chat = text_in(body, _HISTORY_OF)
        if chat:
            found = await self.of_history(dict_in(body, "message"), chat)
        else:
            keys = self.keys(body)
            found = None if keys is None else await self.message(body, keys)

        if found is not None and found.kind is MessageKind.UNREADABLE:
            raise Unreadable("the event cannot be converted")
        return found

    def set_aside(self, body: Json) -> InboundMessage:
        """Return the event as it came, with as much of its source as can be read."""
        _log.warning("an event cannot be converted; it was set aside")
        raw = json.dumps(body, sort_keys=True, default=str)
        event = dict_in(body, "event") or dict_in(body, "message") or body
        number = text_in(body, "event_id")
        name = f"event:{number}" if number else f"raw:{_digest(raw)}"
        ts = text_in(event, "ts", "event_ts")
        at = moment(ts) if _TIMESTAMP.fullmatch(ts) else self._clock.now()

        return InboundMessage(
            id=ts if _TIMESTAMP.fullmatch(ts) else name,
            event_ids=(name,),
            source=self._source_of(body, event),
            sent_at=at,
            kind=MessageKind.UNREADABLE,
            raw=raw,
        )

    def _source_of(self, body: Json, event: Json) -> SessionSource:
        chat = (
            text_in(event, "channel", "channel_id")
            or text_in(body, _HISTORY_OF)
            or text_in(dict_in(body, "channel"), "id")
        )
        user = text_in(event, "user", "user_id") or text_in(dict_in(body, "user"), "id")

        return SessionSource(
            platform=PLATFORM,
            account=self._me.account,
            chat_type=ChatType.DM if chat.startswith("D") else ChatType.CHANNEL,
            chat_id=chat or None,
            user_id=user or None,
            scope=self._me.team or None,
        )


def _read(read: Callable[[], Value]) -> Value:
    """Raise Unreadable instead of whatever an event of an unknown form causes."""
    try:
        return read()
    except Unreadable:
        raise
    except Exception as exc:
        raise Unreadable("the event cannot be converted") from exc


def _digest(raw: str) -> str:
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:32]
