"""
A message as plain text for all agent kinds that read text: its sender, what it replies to, whether
it was forwarded.

These marks stand before the text, in brackets. The user's text follows unchanged, except that in
shared chats brackets are escaped with which one user could impersonate another.
"""

from __future__ import annotations

import re

from turngate.gateway.domain.messages import Attachment, InboundMessage
from turngate.gateway.domain.text import cut, folded
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    Origin,
    Role,
)
from turngate.gateway.rules.history_cleaning import SUMMARY_MARK

NOTHING_SAID = "(nothing in words)"

_LONGEST_QUOTATION = 1000
_LIKE_A_MARK = re.compile(r"([\n\r\v\f\x85\u2028\u2029][ \t]*)\[")


def spoken(message: InboundMessage, *, shared: bool) -> str:
    """Return a new message. In a shared chat it begins with the sender, by their pseudonym."""
    marks = [
        f"[{message.source.participant_id}]" if shared and message.source.participant_id else "",
        _answered(message),
        "[forwarded, written by somebody else]" if message.forwarded else "",
    ]
    return _marked(marks, _own_words(message.text) if shared else message.text)


def recalled(entry: Entry, *, shared: bool) -> str:
    """Return the text of a transcript entry, marked in the same way; empty if it has none."""
    words = "\n\n".join(filter(None, (block_text(block) for block in entry.content)))
    if entry.origin is Origin.SUMMARY or entry.role is Role.SYSTEM:
        is_marked = not words or words.startswith(SUMMARY_MARK)
        return words if is_marked else _marked([SUMMARY_MARK], words)
    if shared and entry.role is Role.USER and entry.sender and words:
        return _marked([f"[{entry.sender}]"], _own_words(words))
    return words


def block_text(block: object) -> str:
    """Return the text of a transcript block; a file is named."""
    return stand_in(block) if isinstance(block, Media) else str(getattr(block, "text", ""))


def stand_in(file: Attachment | Media, why: str | None = None) -> str:
    """Return the line that replaces a file, with the reason why it is not shown."""
    described = ", ".join(
        filter(None, (folded(file.name) if file.name else file.type.value, file.mime))
    )
    return f"[file {described}: {why}]" if why else f"[file {described}]"


def _own_words(words: str) -> str:
    """Keep text from starting a line like a message header: it could impersonate another user."""
    return _LIKE_A_MARK.sub(r"\1\\[", words)


def _answered(message: InboundMessage) -> str:
    # The quoted message may be too old to be in the history.
    quoted = message.reply_to
    if quoted is None or not quoted.text.strip():
        return ""
    whose = "your message" if quoted.to_bot else "a message"
    return f"[in reply to {whose}: {cut(folded(quoted.text), _LONGEST_QUOTATION)}]"


def _marked(marks: list[str], words: str) -> str:
    before = " ".join(filter(None, marks))
    # Some model servers refuse a message without text.
    own_words = words if words.strip() else NOTHING_SAID
    return f"{before} {own_words}" if before else own_words
