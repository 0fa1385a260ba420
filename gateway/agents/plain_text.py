"""
A person's message in words, for agents that read nothing but text: who speaks, what it answers,
what was forwarded.

One place for all kinds. What stands before the words is ours, in brackets; what people wrote comes
after it, as it was, but for brackets by which one of several people could pass for another.
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
    """
    A new message. Where several people may speak it begins with who does, under the name the agent
    knows them by.
    """
    marks = [
        f"[{message.source.participant_id}]" if shared and message.source.participant_id else "",
        _answered(message),
        "[forwarded, written by somebody else]" if message.forwarded else "",
    ]
    return _marked(marks, _own_words(message.text) if shared else message.text)


def recalled(entry: Entry, *, shared: bool) -> str:
    """The words of an entry of the transcript, marked in the same way. Empty if there are none."""
    words = "\n\n".join(filter(None, (block_text(block) for block in entry.content)))
    if entry.origin is Origin.SUMMARY or entry.role is Role.SYSTEM:
        is_marked = not words or words.startswith(SUMMARY_MARK)
        return words if is_marked else _marked([SUMMARY_MARK], words)
    if shared and entry.role is Role.USER and entry.sender and words:
        return _marked([f"[{entry.sender}]"], _own_words(words))
    return words


def block_text(block: object) -> str:
    """What a block of a transcript says; a file is named."""
    return stand_in(block) if isinstance(block, Media) else str(getattr(block, "text", ""))


def stand_in(file: Attachment | Media, why: str | None = None) -> str:
    """What the agent reads in place of a file, and why it does not see it."""
    described = ", ".join(
        filter(None, (folded(file.name) if file.name else file.type.value, file.mime))
    )
    return f"[file {described}: {why}]" if why else f"[file {described}]"


def _own_words(words: str) -> str:
    """Keep text from starting a line like a message header: it could impersonate another user."""
    return _LIKE_A_MARK.sub(r"\1\\[", words)


def _answered(message: InboundMessage) -> str:
    """The words that a message answers may be long past: then nothing else tells of them."""
    quoted = message.reply_to
    if quoted is None or not quoted.text.strip():
        return ""
    whose = "your message" if quoted.to_bot else "a message"
    return f"[in reply to {whose}: {cut(folded(quoted.text), _LONGEST_QUOTATION)}]"


def _marked(marks: list[str], words: str) -> str:
    """A mark alone is no message, so something always follows it."""
    before = " ".join(filter(None, marks))
    said = words if words.strip() else NOTHING_SAID
    return f"{before} {said}" if before else said
