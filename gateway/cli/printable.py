"""
Removal of control characters from text that is shown on the terminal.

Titles, transcripts and answers are untrusted: nothing in them may move the cursor, change colours
or reverse the writing direction. All such text goes through here.
"""

import re

# C0 except tab and newline, DEL, C1, line separators, and lone surrogates, which cannot be encoded.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Bidirectional controls, which can make one text look like another.
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Replace control characters by U+FFFD; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    # A carriage return alone is replaced: it would let text overwrite its own line.
    return _CONTROLS.sub(
        "\N{REPLACEMENT CHARACTER}", _DIRECTION.sub("", text.replace("\r\n", "\n"))
    )


def printable_line(text: str) -> str:
    """Return the text without control characters, on one line."""
    return " ".join(printable(text).split())
