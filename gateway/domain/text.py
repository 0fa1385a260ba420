"""Labels: names, titles and topics that somebody else wrote, made safe to stand in a line of ours. Pure."""

from __future__ import annotations

import re
import unicodedata

LONGEST_LABEL = 128

_UNSEEN_CATEGORIES = ("Cc", "Cf", "Cs")
# Characters that show nothing and are no controls to Unicode: joiners, fillers, variation selectors, the tag plane.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


def clean_label(text: str) -> str:
    """One line of at most 128 visible characters, whatever somebody called himself."""
    return cut(folded(text), LONGEST_LABEL)


def folded(text: str) -> str:
    """One line without what cannot be seen."""
    seen = (
        char
        for char in _UNSEEN.sub("", text)
        if char.isspace() or unicodedata.category(char) not in _UNSEEN_CATEGORIES
    )
    return " ".join("".join(seen).split())


def cut(text: str, longest: int) -> str:
    """The beginning, with an ellipsis if there was more."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
