"""A message on its way out, in Telegram's terms."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aiogram.types import InputRichMessage, MessageEntity, ReplyParameters

from turngate.adapters.telegram.markup import Marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message on its way: where to, what of it, and what may be left out of it. `rich` is Markdown as it came."""

    chat: int | str
    words: Marked
    unmarked: Marked
    rich: str | None = None
    thread: int | None = None
    answers: int | None = None

    @property
    def less_marked(self) -> Outgoing | None:
        """With one kind of formatting less; None if it has none."""
        if self.rich is not None:
            return replace(self, rich=None)
        return replace(self, words=self.unmarked) if self.words != self.unmarked else None

    @property
    def rich_message(self) -> InputRichMessage:
        """An agent's "@somebody" is text there too."""
        return InputRichMessage(markdown=self.rich, skip_entity_detection=True)

    @property
    def entities(self) -> list[MessageEntity] | None:
        """In aiogram's words."""
        return [MessageEntity(**each) for each in self.words.entities] or None

    @property
    def reply(self) -> ReplyParameters | None:
        """What it answers may be gone by now; then it answers nothing."""
        if self.answers is None:
            return None
        return ReplyParameters(message_id=self.answers, allow_sending_without_reply=True)
