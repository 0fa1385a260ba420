"""
Other people's text on this terminal: nothing in it may move the cursor, change colours or turn the writing round.

Titles, transcripts and answers come from strangers and models. Everything that is shown goes through here.
"""

import re

# C0 but tab and newline, DEL, C1, the line separators, and halves of characters, which no terminal can be sent.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# What turns the direction of writing round, and so can make one thing look like another.
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The same text with every control character as U+FFFD; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROLS.sub(
        "\N{REPLACEMENT CHARACTER}", _DIRECTION.sub("", text.replace("\r\n", "\n"))
    )


def printable_line(text: str) -> str:
    """The same on one line."""
    return " ".join(printable(text).split())
