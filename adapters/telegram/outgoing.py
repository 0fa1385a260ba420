"""An outgoing message in Telegram's terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from aiogram.types import (
    EphemeralMessageParameters,
    InputRichMessage,
    MessageEntity,
    ReplyParameters,
)

from turngate.adapters.telegram.markup import Marked
from turngate.adapters.telegram.rich_markup import Rich


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """
    An outgoing message: its chat, its content, and what may be dropped. `rich` is the original
    Markdown; `only_for` the one user of a group who is to see it, and nobody else if it
    `is_secret`.
    """

    chat: int | str
    words: Marked
    unmarked: Marked
    rich: Rich | None = None
    thread: int | None = None
    direct_topic: int | None = None
    answers: int | None = None
    only_for: int | None = None
    is_secret: bool = False

    @property
    def less_marked(self) -> Outgoing | None:
        """Return it with one level of formatting less; None if there is none left."""
        if self.rich is not None:
            return replace(self, rich=None)
        return replace(self, words=self.unmarked) if self.words != self.unmarked else None

    @property
    def place(self) -> dict[str, Any]:
        """Return the parameters that say where it goes and what it replies to."""
        return {
            "chat_id": self.chat,
            "message_thread_id": self.thread,
            "direct_messages_topic_id": self.direct_topic,
            "ephemeral_message_parameters": self.ephemeral,
            "reply_parameters": self.reply,
        }

    @property
    def rich_message(self) -> InputRichMessage:
        """Return the rich message; an agent's "@name" stays text."""
        if self.rich is None:
            raise ValueError("this message is not rich")
        return InputRichMessage(
            markdown=self.rich.markdown, skip_entity_detection=self.rich.has_names or None
        )

    @property
    def entities(self) -> list[MessageEntity] | None:
        return [MessageEntity(**each) for each in self.words.entities] or None

    @property
    def ephemeral(self) -> EphemeralMessageParameters | None:
        """Return who alone may see it; None for everybody. A server may be too old to know."""
        if self.only_for is None:
            return None
        return EphemeralMessageParameters(receiver_user_id=self.only_for)

    @property
    def reply(self) -> ReplyParameters | None:
        """Return the reply parameters; a deleted message is not replied to."""
        if self.answers is None:
            return None
        return ReplyParameters(message_id=self.answers, allow_sending_without_reply=True)
