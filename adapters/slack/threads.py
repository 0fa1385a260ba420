"""
Where an answer in a direct chat is shown: in the thread of the message that it answers.

A direct chat is one conversation, so the thread is no part of the message's source (unless every
thread is a conversation). It is remembered for each message, and looked up after a restart.
"""

from __future__ import annotations

import re

from turngate.adapters.slack.api import Api, MissingScope
from turngate.adapters.slack.cache import Cache
from turngate.adapters.slack.history_reader import messages_of
from turngate.gateway.domain.errors import NotSent, Undeliverable, Unreachable
from turngate.gateway.domain.messages import ChatType, InboundMessage, MessageKind, SessionSource
from turngate.gateway.domain.outbox import Part, Sent

_TIMESTAMP = re.compile(r"\d+\.\d{6}")
_ANSWERED = frozenset({MessageKind.NEW, MessageKind.COMMAND})


class Threads:
    """The threads of one bot's direct chats."""

    def __init__(self, api: Api, cache: Cache) -> None:
        self._api = api
        self._cache = cache

    def note(self, message: InboundMessage) -> None:
        """Remember in which thread a message stands; without one it begins its own."""
        source = message.source
        if not _is_flat(source) or message.kind not in _ANSWERED:
            return
        if _TIMESTAMP.fullmatch(message.id) is None:
            return  # a slash command stands nowhere

        thread = message.reply_to.message_id if message.reply_to else message.id
        self._cache.threads.put((source.chat_id, message.id), thread)
        self._cache.newest_threads.put(source.chat_id, thread)

    def note_sent(self, part: Part, thread: str | None, sent: Sent) -> None:
        """Remember the thread of a message of the bot: its buttons may be pressed."""
        if thread is not None and _is_flat(part.target):
            self._cache.threads.put((part.target.chat_id, sent.message_id), thread)

    def newest(self, target: SessionSource) -> str | None:
        """Return the target's thread, or that of the newest message of a direct chat."""
        if not _is_flat(target):
            return target.thread_id
        return self._cache.newest_threads.get(target.chat_id)

    async def of(self, part: Part) -> str | None:
        """
        Return the thread in which the part is to be shown; None if it stands in the chat itself.

        Raises NotSent or Throttled if the thread has to be looked up and Slack does not answer.
        """
        target = part.target
        answered = part.reply_to or ""
        if not _is_flat(target) or _TIMESTAMP.fullmatch(answered) is None:
            return target.thread_id

        known = self._cache.threads.get((target.chat_id, answered))
        if known is None:
            known = await self._looked_up(target.chat_id or "", answered)
            self._cache.threads.put((target.chat_id, answered), known)
        return known or None

    async def _looked_up(self, chat: str, message_id: str) -> str:
        """Return the thread of a message; empty if the message is gone."""
        request = self._api.client.conversations_replies(channel=chat, ts=message_id, limit=1)
        try:
            found = messages_of(await self._api.answer(request))
        except (Undeliverable, MissingScope):
            return ""
        except Unreachable as exc:
            raise NotSent("the thread of the message could not be looked up") from exc

        thread = found[0].get("thread_ts") if found else ""
        return thread if isinstance(thread, str) and thread else message_id


def _is_flat(target: SessionSource) -> bool:
    return target.chat_type is ChatType.DM and target.thread_id is None
