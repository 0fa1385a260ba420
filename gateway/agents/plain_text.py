"""
A message as plain text for all agent kinds that read text: its sender, what it replies to, whether
it was forwarded.

These marks stand before the text, in brackets, and hold names and quotations as JSON strings
without brackets. What somebody else wrote, and files, end with a word that only the gateway can
make. The user's text follows unchanged, except that in shared chats brackets are escaped with which
one user could impersonate another.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass

from turngate.gateway.domain.agent_events import Turn
from turngate.gateway.domain.messages import Attachment, InboundMessage
from turngate.gateway.domain.text import LONGEST_LABEL, cut, folded, quoted
from turngate.gateway.domain.transcript import (
    Entry,
    Media,
    Origin,
    Role,
)
from turngate.gateway.rules.history_cleaning import SUMMARY_MARK

NOTHING_SAID = "(nothing in words)"

_LONGEST_QUOTATION = 1000
# Blanks of any kind and invisible characters do not make a line begin with something else.
_LIKE_A_MARK = re.compile(
    r"([\n\r\v\f\x1c-\x1e\x85\u2028\u2029]"
    r"[\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e0fff]*+)([\[\uff3b])"
)
_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}")
# Letters only: digits could be taken for a phone number.
_TAG_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_TAG_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """
    How the texts of one turn are marked.

    A mark that encloses a text ends with a word made of that text under a key, so that no text can
    hold its own, and the same text is written alike in every turn: servers keep the beginning of a
    request, as long as it stays the same.
    """

    shared: bool
    key: bytes

    @classmethod
    def of(cls, turn: Turn) -> Marks:
        return cls(shared=turn.shared, key=turn.mark_key)

    def spoken(self, message: InboundMessage) -> str:
        """Return a new message. In a shared chat it begins with the sender."""
        marks = [
            self._sender(message.source.participant_id, message.source.user_name),
            _answered(message),
        ]
        return _marked(marks, self._words(message.text, forwarded=message.forwarded))

    def recalled(self, entry: Entry) -> str:
        """Return the text of a transcript entry, marked in the same way; empty if it has none."""
        words = "\n\n".join(filter(None, (block_text(block) for block in entry.content)))
        if entry.origin is Origin.SUMMARY or entry.role is Role.SYSTEM:
            is_marked = not words or words.startswith(SUMMARY_MARK)
            return words if is_marked else _marked([SUMMARY_MARK], words)
        if entry.role is not Role.USER or not words:
            return words

        sender = self._sender(entry.sender, entry.sender_name)
        own = self._words(words, forwarded=entry.forwarded)
        return _marked([sender], own) if sender else own

    def enclosed(self, described: str, text: str) -> str:
        """Return a text between a mark that says what it is and one that ends it."""
        made = hmac.digest(self.key, text.encode("utf-8", "replace"), "sha256")
        end = f"end of {made.hex()[:_TAG_LENGTH].translate(_TAG_LETTERS)}"
        return f'[{described}, up to "{end}"]\n{text}\n[{end}]'

    def _sender(self, person: str | None, name: str | None) -> str:
        # The id first: it is ours, and the name may be anything, such as another one's id.
        if not self.shared or not person:
            return ""
        called = cut(folded(name or ""), LONGEST_LABEL)
        return f"[{person} {quoted(called)}]" if called else f"[{person}]"

    def _words(self, words: str, *, forwarded: bool) -> str:
        """Keep text from starting a line like the sender of a message: it could impersonate one."""
        own = _LIKE_A_MARK.sub(r"\1\\\2", words) if self.shared else words
        if not forwarded or not words.strip():
            return own
        return self.enclosed("forwarded, written by somebody else", own)


def block_text(block: object) -> str:
    """Return the text of a transcript block; a file is named."""
    return stand_in(block) if isinstance(block, Media) else str(getattr(block, "text", ""))


def stand_in(file: Attachment | Media, why: str | None = None) -> str:
    """Return the line that replaces a file, with the reason why it is not shown."""
    described = described_file(file)
    return f"[{described}: {why}]" if why else f"[{described}]"


def described_file(file: Attachment | Media) -> str:
    """Return what a file is called, for a mark."""
    name = quoted(folded(file.name)) if file.name else file.type.value
    mime = file.mime if file.mime and _MIME.fullmatch(file.mime) else None
    return "file " + ", ".join(filter(None, (name, mime)))


def _answered(message: InboundMessage) -> str:
    # The quoted message may be too old to be in the history.
    answered = message.reply_to
    if answered is None or not answered.text.strip():
        return ""
    whose = "your message" if answered.to_bot else "a message"
    return f"[in reply to {whose}: {quoted(cut(folded(answered.text), _LONGEST_QUOTATION))}]"


def _marked(marks: list[str], words: str) -> str:
    before = " ".join(filter(None, marks))
    # Some model servers refuse a message without text.
    own_words = words if words.strip() else NOTHING_SAID
    return f"{before} {own_words}" if before else own_words
