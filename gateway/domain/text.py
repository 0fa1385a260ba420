"""Make text that users wrote (names, titles, topics) safe to show in one line. Pure."""

from __future__ import annotations

import re
import unicodedata

LONGEST_LABEL = 128

_UNSEEN_CATEGORIES = ("Cc", "Cf", "Cs")
# Characters that show nothing and are no controls to Unicode: joiners, fillers, variation
# selectors, the tag plane.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164"
    "\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


def clean_label(text: str) -> str:
    """Return one line of at most 128 visible characters."""
    return cut(folded(text), LONGEST_LABEL)


def folded(text: str) -> str:
    """Return one line without invisible characters."""
    seen = (
        char
        for char in _UNSEEN.sub("", text)
        # Line breaks and tabs are control characters too, but must become a space.
        if char.isspace() or unicodedata.category(char) not in _UNSEEN_CATEGORIES
    )
    return " ".join("".join(seen).split())


def cut(text: str, longest: int) -> str:
    """Shorten a text, with an ellipsis if something was cut."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def written_size(size: int) -> str:
    """Format a size for people: 35 MB, 12 kB, 7 bytes."""
    for unit, amount in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
        if size >= amount:
            return f"{size / amount:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"
