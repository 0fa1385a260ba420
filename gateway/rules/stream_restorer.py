"""Restore pseudonyms in a stream: hold back only what may still become one. Pure."""

from __future__ import annotations

from collections.abc import Callable

from turngate.gateway.rules.outgoing_text import open_at
from turngate.gateway.rules.redaction import (
    _GIVEN_OUT,
    _LONGEST_PSEUDONYM,
    _LOOKED_BACK_AT,
    _MOST_HELD,
    _WORD,
)

_CLOSED = str.maketrans("<[", "=(")


class StreamRestorer:
    """
    `restore` for a text that arrives in pieces: the end is held back while it may be half a
    pseudonym, mention or mark of a sender.
    """

    def __init__(self, restore: Callable[[str], str]) -> None:
        self._restore = restore
        self._before = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add text and return what can be shown now."""
        text = self._held + piece
        cut = self._cut(text)
        self._held = text[cut:]
        return self._shown(text[:cut], self._held[:1])

    def rest(self) -> str:
        """Return what is left at the end of the stream."""
        text = self._held
        self._held = ""
        return self._shown(text, "")

    def _cut(self, text: str) -> int:
        """
        Return the cut position: before the last word, or inside one without an end; never inside a
        pseudonym.
        """
        # rstrip is linear; a regular expression for the last word was quadratic on long words.
        cut = max(len(text.rstrip(_WORD)), len(text) - _MOST_HELD)
        cut = min(cut, open_at(text))
        seen = self._before + text
        position = len(self._before) + cut
        # Only a pseudonym across the cut matters; the one character more is what _END looks at.
        for found in _GIVEN_OUT.finditer(
            seen, max(position - _LONGEST_PSEUDONYM, 0), position + _LONGEST_PSEUDONYM + 1
        ):
            if found.start() < position < found.end():
                return max(found.start() - len(self._before), 0)

        return cut

    def _shown(self, text: str, after: str) -> str:
        """Restore with context: the characters around a pseudonym decide whether it is one."""
        # What opens a mention or a mark was decided on when it was shown.
        before = self._before.translate(_CLOSED)
        self._before = (self._before + text)[-_LOOKED_BACK_AT:]
        # No cut is inside any of them, so `before` and `after` come back unchanged and are removed.
        restored = self._restore(before + text + after)
        return restored[len(before) : len(restored) - len(after)]
