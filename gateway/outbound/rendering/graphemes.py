"""
Where one written character ends and the next begins: what a reader takes for one sign is often
several code points.

These are the rules of Unicode's extended grapheme clusters as far as a cut needs them. The standard
library knows the categories they are made of; the rest is a handful of ranges.
"""

from __future__ import annotations

import unicodedata
from itertools import takewhile

# Code points. A letter with more marks than this is cut like any other text.
LONGEST_CLUSTER = 64

_JOINER = "\u200d"
_VIRAMA = 9  # joins two Indic consonants
_EXTENDING = {"Mn", "Me", "Mc"}
_PREPENDED = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\U000110bd")


def last_boundary(text: str, low: int, high: int) -> int:
    """Return the last boundary in `low`..`high` if one is near `high`; else `high`."""
    nearest = max(low, high - LONGEST_CLUSTER)
    for position in range(high, nearest - 1, -1):
        if is_boundary(text, position):
            return position
    return high - 1 if high > low and _is_one_character(text[high - 1 : high + 1]) else high


def is_boundary(text: str, position: int) -> bool:
    """Return whether a cut before `text[place]` leaves every cluster whole."""
    if not 0 < position < len(text):
        return True

    before = text[position - 1]
    after = text[position]
    # Nearly all text is ASCII, where only these two belong together: no lookup of categories.
    if before < "\x7f" and after < "\x7f":
        return before != "\r" or after != "\n"

    return not (
        _extends(after)
        or (before == _JOINER and not after.isspace())
        or before in _PREPENDED
        or _is_one_character(before + after)
        or _is_half_a_flag(text, position)
        or _is_one_syllable(before, after)
        or (unicodedata.combining(before) == _VIRAMA and unicodedata.category(after) == "Lo")
    )


def _extends(character: str) -> bool:
    return (
        character == _JOINER
        or character == "\u200c"
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags, as in the flag of Wales
        or "\uff9e" <= character <= "\uff9f"
        or unicodedata.category(character) in _EXTENDING
    )


def _is_one_character(pair: str) -> bool:
    """Return whether both are one character: \\r\\n, or surrogates that a decoder left apart."""
    return pair == "\r\n" or (
        len(pair) > 1 and "\ud800" <= pair[0] <= "\udbff" and "\udc00" <= pair[1] <= "\udfff"
    )


def _is_half_a_flag(text: str, position: int) -> bool:
    if not (_is_flag_letter(text[position]) and _is_flag_letter(text[position - 1])):
        return False
    # A flag is two letters, so the parity of the run decides. Only a run of more than 2,000 flags
    # is longer than what is looked at.
    run = takewhile(_is_flag_letter, reversed(text[max(0, position - 4096) : position]))
    return sum(1 for _ in run) % 2 == 1


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_one_syllable(before: str, after: str) -> bool:
    """Return whether two letters (leading, vowel, trailing) belong to one Korean syllable."""
    first = _korean(before)
    second = _korean(after)
    return (
        (first == "L" and second in ("L", "V", "LV", "LVT"))
        or (first in ("LV", "V") and second in ("V", "T"))
        or (first in ("LVT", "T") and second == "T")
    )


def _korean(character: str) -> str:
    code = ord(character)
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB:
        return "T"
    if 0xAC00 <= code <= 0xD7A3:
        return "LV" if (code - 0xAC00) % 28 == 0 else "LVT"
    return ""
